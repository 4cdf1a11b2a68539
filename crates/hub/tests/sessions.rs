//! Attaching, with real processes and a hub that is started on demand.

mod common;

use common::{Client, TestHub, descriptors, is_alive, play_role_if_asked, send_to_slot};
use longarm_hub::client::{self, AttachError, AttachOptions, attach};
use longarm_hub::{CounterPage, preferred};
use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use testkit::wait_until;
use udp::testing::in_new_netns;

#[test]
fn role() {
    play_role_if_asked();
}

#[test]
fn attaching_starts_a_hub_and_gives_a_slot_and_devices() {
    in_new_netns(|| {
        let place = TestHub::new("attach");
        let page = Arc::new(CounterPage::create(&["packets_sent"]).unwrap());
        let options = AttachOptions { program: Some("a test".into()), counters: Some(page.clone()), ..place.options() };
        let session = attach(&options).unwrap();
        assert!(session.slot() >= 1 && session.is_attached());
        let device = preferred(session.devices()).unwrap();
        assert_eq!((device.name.as_str(), device.loopback, device.link_up), ("la_lo", true, true));
        assert!(device.valid_gids().any(|(_, gid)| gid.ip().to_string() == "127.0.0.1"));

        page.cell(0).fetch_add(42, Relaxed);
        let status = place.status();
        assert_eq!(status.clients.len(), 1);
        let seen = &status.clients[0];
        assert_eq!((seen.pid, seen.program.as_str()), (std::process::id(), "a test"));
        assert_eq!(seen.slots, [session.slot()]);
        assert_eq!(seen.counters.as_ref().unwrap().get("packets_sent"), Some(42));
        assert_eq!(status.free_slots, status.slots - 1);
        assert_ne!(status.pid, std::process::id(), "the hub is a process of its own");

        drop(session);
        wait_until("the slot is free again", || place.status().free_slots == status.slots);
        assert_eq!(place.status().counters.detached, 1);
    });
}

#[test]
fn the_directory_is_known_without_a_hub() {
    in_new_netns(|| {
        let place = TestHub::new("directory");
        let options = place.options();
        let before = client::runtime_dir(options.runtime_dir.as_deref()).unwrap();
        assert!(matches!(client::ping(options.runtime_dir.as_deref()), Err(AttachError::NotRunning)));
        let _session = attach(&options).unwrap();
        assert_eq!(before.display().to_string(), place.status().runtime_dir);
    });
}

#[test]
fn the_hub_is_no_child_and_shares_nothing() {
    in_new_netns(|| {
        let place = TestHub::new("child");
        let _session = attach(&place.options()).unwrap();
        let hub = place.status().pid;
        let stat = std::fs::read_to_string(format!("/proc/{hub}/stat")).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        let (parent, group, session) = (fields[1], fields[2], fields[3]);
        let own = std::process::id().to_string();
        assert!(parent != own && group != own && session != own, "{stat}");
        assert!(stat.contains("(longarm-hub)"), "{stat}");
        let stderr = std::fs::read_link(format!("/proc/{hub}/fd/2")).unwrap();
        assert_eq!(stderr.to_str(), Some("/dev/null"));
    });
}

#[test]
fn packets_go_to_the_slot_s_owner() {
    in_new_netns(|| {
        let place = TestHub::new("packets");
        let (mut a, slot_a) = Client::attached(&place);
        let (mut b, slot_b) = Client::attached(&place);
        assert_ne!(slot_a, slot_b);
        for mark in 0..10 {
            send_to_slot(slot_b, mark);
            send_to_slot(slot_a, 100 + mark);
            a.tell("receive");
            b.tell("receive");
            assert_eq!(a.expect("packet "), format!("{slot_a} {}", 100 + mark));
            assert_eq!(b.expect("packet "), format!("{slot_b} {mark}"));
        }
        let clients = place.status().clients;
        assert!(clients.iter().all(|c| c.counters.as_ref().unwrap().get("packets") == Some(10)));
        // Slot 0 is the hub's: QP1, and a QP that no process has.
        send_to_slot(0, 0);
        wait_until("the hub has counted it", || place.status().counters.stray_packets == 1);
        a.quit();
        b.quit();
    });
}

#[test]
fn a_freed_slot_rests_and_gets_nothing() {
    in_new_netns(|| {
        let place = TestHub::new("freed");
        let (client, slot) = Client::attached(&place);
        client.quit();
        wait_until("it is free", || place.status().clients.is_empty());
        send_to_slot(slot, 1);
        let session = attach(&place.options()).unwrap();
        assert_ne!(session.slot(), slot, "the freed slot rests");
        let wish = AttachOptions { slot: Some(slot), ..place.options() };
        let wished = attach(&wish).unwrap();
        assert_eq!(wished.slot(), slot, "unless somebody wants just that");
        let socket = wished.slots()[0].socket.as_fd();
        let mut bytes = [0; 64];
        let got = rustix::net::recv(socket, &mut bytes, rustix::net::RecvFlags::DONTWAIT);
        assert_eq!(got.unwrap_err(), rustix::io::Errno::AGAIN, "what came in between is lost");
    });
}

#[test]
fn a_process_may_have_several_slots() {
    in_new_netns(|| {
        let place = TestHub::new("several");
        let (mut client, first) = Client::attached(&place);
        client.tell("more 3");
        let more: Vec<u8> = client.expect("more ").split(' ').map(|n| n.parse().unwrap()).collect();
        let all: BTreeSet<u8> = more.iter().copied().chain([first]).collect();
        assert_eq!(all.len(), 4);
        for slot in &all {
            send_to_slot(*slot, 5);
            client.tell("receive");
            assert_eq!(client.expect("packet "), format!("{slot} 5"));
        }
        client.tell(&format!("release {}", more[1]));
        client.expect("released");
        client.tell(&format!("release {}", more[1]));
        assert!(client.expect("error ").contains("not one that can be given back"));
        let status = place.status();
        assert_eq!(status.clients[0].slots.len(), 3);
        for count in ["0", "62", "255"] {
            client.tell(&format!("more {count}"));
            assert!(client.expect("error ").contains("at most"), "{count}");
        }
        client.kill();
        wait_until("all are free", || place.status().free_slots == status.slots);
    });
}

#[test]
fn without_a_free_slot_attaching_fails() {
    in_new_netns(|| {
        let place = TestHub::new("full");
        let mut sessions = Vec::new();
        for _ in 0..3 {
            let mut session = attach(&place.options()).unwrap();
            session.more_slots(63).unwrap();
            sessions.push(session);
        }
        let left = place.status().free_slots;
        let mut last = attach(&place.options()).unwrap();
        let error = last.more_slots(63).unwrap_err();
        assert!(matches!(error, AttachError::NoSlot { .. }), "{error}");
        assert_eq!(place.status().free_slots, left - 1, "all or none");
        last.more_slots(u8::try_from(left - 1).unwrap()).unwrap();
        let error = attach(&place.options()).unwrap_err();
        assert!(matches!(error, AttachError::NoSlot { .. }), "{error}");
        drop(last);
        wait_until("slots are free", || place.status().free_slots == left);
        attach(&place.options()).unwrap();
    });
}

#[test]
fn changes_of_interfaces_are_reported() {
    in_new_netns(|| {
        let place = TestHub::new("devices");
        let (mut client, _) = Client::attached(&place);
        let ip = |arguments: &str| {
            let status = std::process::Command::new("ip").args(arguments.split(' ')).status();
            assert!(status.unwrap().success(), "ip {arguments}");
        };
        ip("address add 10.1.2.3/32 dev lo");
        assert_eq!(client.expect("devices "), "la_lo:3");
        ip("address del 10.1.2.3/32 dev lo");
        assert_eq!(client.expect("devices "), "la_lo:2");
        let devices = client::devices(Some(&place.dir())).unwrap();
        assert_eq!(devices.len(), 1);
        client.tell("quit");
    });
}

#[test]
fn an_idle_hub_exits_and_removes_its_files() {
    in_new_netns(|| {
        let place = TestHub::new("idle");
        client::up(Some(&place.dir()), Some(Duration::from_millis(300))).unwrap();
        let session = attach(&place.options()).unwrap();
        let hub = place.status().pid;
        std::thread::sleep(Duration::from_millis(600));
        assert!(is_alive(hub), "it stays while somebody is attached");
        drop(session);
        wait_until("the hub has left", || !is_alive(hub));
        let names: Vec<_> = std::fs::read_dir(place.dir()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, ["hub.log"]);
        assert!(matches!(client::status(Some(&place.dir())), Err(AttachError::NotRunning)));
    });
}

#[test]
fn up_keeps_a_hub_and_down_ends_it() {
    in_new_netns(|| {
        let place = TestHub::new("up");
        let dir = place.dir();
        client::up(Some(&dir), None).unwrap();
        client::ping(Some(&dir)).unwrap();
        let first = place.status();
        assert_eq!(first.idle_timeout_ms, None);
        client::up(Some(&dir), Some(Duration::from_secs(60))).unwrap();
        let second = place.status();
        assert_eq!((second.pid, second.idle_timeout_ms), (first.pid, Some(60_000)));
        let (client, _) = Client::attached(&place);
        let error = client::shutdown(Some(&dir), false).unwrap_err();
        assert!(error.to_string().contains(&client.pid().to_string()), "{error}");
        client::shutdown(Some(&dir), true).unwrap();
        wait_until("the hub has left", || !is_alive(first.pid));
        client.expect("hub lost");
        // The client continues without a hub, and starts no other.
        std::thread::sleep(Duration::from_millis(200));
        assert!(matches!(client::status(Some(&dir)), Err(AttachError::NotRunning)));
        // But it attaches when another process starts one.
        client::up(Some(&dir), Some(Duration::from_secs(60))).unwrap();
        client.expect("reattached ");
        assert!(place.status().recovered);
        client.quit();
    });
}

#[test]
fn without_permission_no_hub_is_started() {
    in_new_netns(|| {
        let place = TestHub::new("never");
        let options = AttachOptions { start_hub: false, ..place.options() };
        assert!(matches!(attach(&options), Err(AttachError::NotRunning)));
        client::up(Some(&place.dir()), Some(Duration::from_secs(60))).unwrap();
        attach(&options).unwrap();
    });
}

#[test]
fn attaching_and_detaching_leaks_no_descriptors() {
    in_new_netns(|| {
        let place = TestHub::new("leaks");
        let _keeps_it = attach(&place.options()).unwrap();
        let hub = place.status().pid;
        // The hub may still have the connection of the status request.
        let before = descriptors(hub);
        for _ in 0..50 {
            drop(attach(&place.options()).unwrap());
        }
        wait_until("all are gone", || place.status().clients.len() == 1);
        wait_until("no descriptor is left", || descriptors(hub) <= before);
    });
}
