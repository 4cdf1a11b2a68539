//! kill -9, of clients at any moment and of the hub.

mod common;

use common::{Client, TestHub, descriptors, is_alive, kill, play_role_if_asked, resume, send_to_slot, stop};
use longarm_hub::client::{self, attach};
use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::time::Duration;
use testkit::{PATIENCE, wait_until};
use udp::testing::in_new_netns;

#[test]
fn role() {
    play_role_if_asked();
}

#[test]
fn a_hundred_killed_clients_leave_nothing_behind() {
    in_new_netns(|| {
        let place = TestHub::new("hundred");
        client::up(Some(&place.dir()), None).unwrap();
        // Once before, so that the hub has everything that it never closes.
        Client::attached(&place).0.kill();
        wait_until("it is gone", || place.status().clients.is_empty());
        let hub = place.status();
        let before = descriptors(hub.pid);
        for round in 0..100u32 {
            let client = Client::start(&place, "client");
            // At any moment: before it runs, while it attaches, after.
            if round % 4 == 0 {
                client.expect("attached ");
            } else {
                std::thread::sleep(Duration::from_micros(u64::from(round) * 300));
            }
            client.kill();
        }
        wait_until("all are gone", || place.status().clients.is_empty());
        let after = place.status();
        assert_eq!(after.pid, hub.pid, "the hub stayed");
        assert_eq!(after.free_slots, after.slots);
        assert_eq!(after.counters.attached, after.counters.detached);
        assert!(after.counters.attached > 25, "{:?}", after.counters);
        wait_until("no descriptor is left", || descriptors(hub.pid) <= before);
    });
}

#[test]
fn clients_survive_the_hub_and_keep_their_slots() {
    in_new_netns(|| {
        let place = TestHub::new("survive");
        let (mut a, slot_a) = Client::attached(&place);
        let (mut b, slot_b) = Client::attached(&place);
        a.tell("more 2");
        let more: Vec<u8> = a.expect("more ").split(' ').map(|n| n.parse().unwrap()).collect();
        for round in 0..3 {
            place.kill_hub();
            // Packets arrive also without a hub.
            exchange(&mut a, slot_a, round);
            for client in [&a, &b] {
                client.expect("hub lost");
                client.expect("reattached ");
            }
            let status = place.status();
            assert!(status.recovered);
            assert_eq!(status.counters.reattached, 2);
            let slots = |pid| status.clients.iter().find(|c| c.pid == pid).unwrap().slots.clone();
            assert_eq!(slots(a.pid()), [&[slot_a], more.as_slice()].concat());
            assert_eq!(slots(b.pid()), [slot_b]);
            exchange(&mut a, slot_a, round);
            exchange(&mut a, more[1], round);
            exchange(&mut b, slot_b, round);
            let (mut c, slot_c) = Client::attached(&place);
            assert!(slot_c != slot_a && slot_c != slot_b && !more.contains(&slot_c));
            exchange(&mut c, slot_c, round);
            c.quit();
        }
        a.quit();
        b.quit();
    });
}

/// Checks that a packet to a slot reaches its owner.
fn exchange(client: &mut Client, slot: u8, mark: u8) {
    client.tell("receive");
    send_to_slot(slot, mark);
    assert_eq!(client.expect("packet "), format!("{slot} {mark}"));
}

#[test]
fn slots_of_clients_that_died_with_the_hub_become_free() {
    in_new_netns(|| {
        let place = TestHub::new("died");
        let (a, slot_a) = Client::attached(&place);
        let (b, slot_b) = Client::attached(&place);
        stop(b.pid());
        kill(place.status().pid);
        a.expect("hub lost");
        b.kill();
        a.expect("reattached ");
        // The dead client's slot stays open for as long as its owner may come back.
        let slots = place.status().slots;
        wait_until("the dead one's slot is free", || place.status().free_slots == slots - 1);
        send_to_slot(slot_b, 1);
        let wish = client::AttachOptions { slot: Some(slot_b), ..place.options() };
        let session = attach(&wish).unwrap();
        assert!(session.slot() == slot_b && session.slot() != slot_a);
        a.quit();
    });
}

#[test]
fn a_client_that_was_stopped_for_long_still_has_its_slot() {
    in_new_netns(|| {
        let place = TestHub::new("stopped");
        let (a, _) = Client::attached(&place);
        let (mut b, slot_b) = Client::attached(&place);
        stop(b.pid());
        kill(place.status().pid);
        a.expect("hub lost");
        a.expect("reattached ");
        let slots = place.status().slots;
        wait_until("its slot counts as free", || place.status().free_slots == slots - 1);
        let (c, slot_c) = Client::attached(&place);
        assert_ne!(slot_c, slot_b, "but others are taken before it");
        resume(b.pid());
        b.expect("hub lost");
        b.expect("reattached ");
        exchange(&mut b, slot_b, 9);
        for client in [a, b, c] {
            client.quit();
        }
    });
}

#[test]
fn a_slot_with_a_new_owner_is_not_given_back() {
    in_new_netns(|| {
        let place = TestHub::new("gone");
        let (a, _) = Client::attached(&place);
        let (b, slot_b) = Client::attached(&place);
        stop(b.pid());
        kill(place.status().pid);
        a.expect("hub lost");
        a.expect("reattached ");
        let slots = place.status().slots;
        wait_until("its slot counts as free", || place.status().free_slots == slots - 1);
        let wish = client::AttachOptions { slot: Some(slot_b), ..place.options() };
        let session = attach(&wish).unwrap();
        assert_eq!(session.slot(), slot_b);
        resume(b.pid());
        b.expect("hub lost");
        assert!(b.expect("detached ").contains("not this process's any more"));
        a.quit();
    });
}

#[test]
fn a_stopped_client_is_no_obstacle_for_a_new_hub() {
    in_new_netns(|| {
        let place = TestHub::new("last");
        let (a, slot) = Client::attached(&place);
        stop(a.pid());
        let hub = place.kill_hub();
        // The stopped client cannot send the keeper: the new hub takes it from the process.
        let next = Client::start(&place, "outcome");
        assert_ne!(next.expect("attached "), slot.to_string());
        let status = place.status();
        assert!(status.pid != hub && status.recovered);
        resume(a.pid());
        a.expect(&format!("reattached {slot}"));
    });
}

#[test]
fn a_child_of_a_client_does_not_keep_its_slot() {
    in_new_netns(|| {
        let place = TestHub::new("fork");
        let (mut client, _) = Client::attached(&place);
        client.tell("fork");
        let child: u32 = client.expect("forked ").parse().unwrap();
        client.kill();
        wait_until("its slot is free", || place.status().clients.is_empty());
        assert!(is_alive(child));
        kill(child);
    });
}

#[test]
fn a_child_that_outlives_its_parent_does_not_keep_the_port() {
    in_new_netns(|| {
        let place = TestHub::new("fork-port");
        let (mut client, _) = Client::attached(&place);
        client.tell("fork");
        let child: u32 = client.expect("forked ").parse().unwrap();
        client.kill();
        place.kill_hub();
        assert!(is_alive(child));
        let outcome = attach(&place.options());
        kill(child);
        outcome.unwrap();
    });
}

#[test]
fn the_hub_stays_while_a_child_without_handlers_keeps_its_sockets() {
    in_new_netns(|| {
        let place = TestHub::new("clone-port");
        let idle = Duration::from_millis(200);
        client::up(Some(&place.dir()), Some(idle)).unwrap();
        let (mut client, _) = Client::attached(&place);
        client.tell("clone");
        let child: u32 = client.expect("cloned ").parse().unwrap();
        let hub = place.status().pid;
        client.kill();
        wait_until("its slot is free", || place.status().clients.is_empty());
        std::thread::sleep(idle * 5);
        let session = attach(&place.options());
        let same = place.status().pid == hub;
        kill(child);
        assert!(session.is_ok() && same, "{session:?}");
        drop(session);
        wait_until("the hub has left", || !is_alive(hub));
    });
}

#[test]
fn a_new_hub_takes_the_sockets_from_a_child_without_handlers() {
    if !rustix::process::geteuid().is_root() {
        println!("left out: only root may always look into other processes");
        return;
    }
    in_new_netns(|| {
        let place = TestHub::new("clone-keeper");
        let (mut client, _) = Client::attached(&place);
        client.tell("clone");
        let child: u32 = client.expect("cloned ").parse().unwrap();
        client.kill();
        place.kill_hub();
        let session = attach(&place.options());
        kill(child);
        let session = session.unwrap();
        send_to_slot(session.slot(), 7);
        let mut bytes = [0; 64];
        let arrived =
            || rustix::net::recv(&session.slots()[0].socket, &mut bytes, rustix::net::RecvFlags::DONTWAIT).is_ok();
        wait_until("a packet arrives", arrived);
    });
}

#[test]
fn twenty_processes_start_one_hub_together() {
    in_new_netns(|| {
        let place = TestHub::new("twenty");
        for _ in 0..3 {
            let clients: Vec<Client> = (0..20).map(|_| Client::start(&place, "outcome")).collect();
            let slots: BTreeSet<String> = clients.iter().map(|c| c.expect("attached ")).collect();
            assert_eq!(slots.len(), 20);
            assert_eq!(place.status().clients.len(), 20);
            assert_eq!(hubs(&place), [place.status().pid]);
            client::shutdown(Some(&place.dir()), true).unwrap();
        }
    });
}

/// The hubs of this directory.
fn hubs(place: &TestHub) -> Vec<u32> {
    let runs_here = |pid: &u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let wanted = format!("LONGARM_RUNTIME_DIR={}", place.dir().display());
        let mut variables = environment.split(|byte| *byte == 0);
        let here = variables.any(|variable| variable == wanted.as_bytes());
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        here && name.trim_end() == "longarm-hub" && is_alive(*pid)
    };
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let mut pids: Vec<u32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(runs_here).collect();
    let settle = std::time::Instant::now();
    // Hubs that found another one are about to exit.
    while pids.len() > 1 && settle.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(5));
        pids.retain(runs_here);
    }
    pids
}

#[test]
fn the_removed_socket_comes_back() {
    in_new_netns(|| {
        let place = TestHub::new("removed");
        let (client, _) = Client::attached(&place);
        let hub = place.status().pid;
        std::fs::remove_dir_all(place.dir()).unwrap();
        wait_until("the hub listens again", || client::status(Some(&place.dir())).is_ok());
        let status = place.status();
        assert_eq!((status.pid, status.clients.len()), (hub, 1));
        client.quit();
    });
}

#[test]
fn a_foreign_socket_on_the_port_is_named() {
    in_new_netns(|| {
        let place = TestHub::new("foreign");
        let socket = UdpSocket::bind("0.0.0.0:4791").unwrap();
        let error = attach(&place.options()).unwrap_err().to_string();
        assert!(error.contains("UDP port 4791") && error.contains("taken"), "{error}");
        assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
        drop(socket);
        attach(&place.options()).unwrap();
    });
}
