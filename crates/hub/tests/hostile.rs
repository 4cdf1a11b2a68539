//! Clients that violate the protocol change nothing and stop no other client.

mod common;

use common::{Client, Raw, TestHub, descriptors, kill, play_role_if_asked, random_bytes, send_to_slot};
use faults::Rng;
use longarm_hub::client::attach;
use longarm_hub::status::HubCounters;
use std::fs::File;
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use testkit::wait_until;
use udp::testing::in_new_netns;

#[test]
fn role() {
    play_role_if_asked();
}

/// A hub with one honest client, which must notice nothing.
struct Scene {
    place: TestHub,
    honest: Client,
    slot: u8,
    hub: u32,
    descriptors: usize,
}

impl Scene {
    fn new(name: &str) -> Scene {
        let place = TestHub::new(name);
        let (honest, slot) = Client::attached(&place);
        let hub = place.status().pid;
        wait_until("the hub has closed what it does not need", || place.status().clients.len() == 1);
        let descriptors = descriptors(hub);
        Scene { place, honest, slot, hub, descriptors }
    }

    fn counters(&self) -> HubCounters {
        self.place.status().counters
    }

    /// Checks that nothing has changed for the honest client, and that the hub has kept nothing.
    fn check(mut self) {
        let status = self.place.status();
        assert_eq!(status.pid, self.hub);
        assert_eq!(status.clients.len(), 1);
        assert_eq!(status.clients[0].slots, [self.slot]);
        assert_eq!(status.free_slots, status.slots - 1);
        self.honest.tell("receive");
        send_to_slot(self.slot, 77);
        assert_eq!(self.honest.expect("packet "), format!("{} 77", self.slot));
        wait_until("nothing is left", || descriptors(self.hub) <= self.descriptors);
        self.honest.quit();
    }
}

#[test]
fn random_messages() {
    in_new_netns(|| {
        let scene = Scene::new("random");
        let mut rng = Rng::new(0x5eed_0001);
        for _ in 0..300 {
            let raw = if rng.below(2) == 0 { Raw::connect(&scene.place) } else { Raw::greeted(&scene.place) };
            let len = 1 + rng.below(300) as usize;
            let message = random_bytes(&mut rng, len);
            raw.send(&message, &[]).unwrap();
            assert!(raw.hear().unwrap().contains("malformed"));
            assert_eq!(raw.hear(), None, "the connection is closed");
        }
        assert_eq!(scene.counters().malformed, 300);
        scene.check();
    });
}

/// Every kind of request, with its descriptors if they matter.
const REQUESTS: [&str; 15] = [
    r#"{"request":"hello","version":3,"pid":1,"program":"x"}"#,
    r#"{"request":"attach","slot":3,"counters":true,"local":false}"#,
    r#"{"request":"reattach","slots":[1,2],"counters":false,"local":false}"#,
    r#"{"request":"more_slots","count":200}"#,
    r#"{"request":"release","slot":1}"#,
    r#"{"request":"status"}"#,
    r#"{"request":"devices"}"#,
    r#"{"request":"ping"}"#,
    r#"{"request":"keep_up","idle_timeout_ms":60000}"#,
    r#"{"request":"shutdown","force":false}"#,
    r#"{"request":"manage","number":7}"#,
    r#"{"request":"bind","token":1,"wish":{"space":262,"address":"0.0.0.0:7","reuse":false,"afonly":false},"listening":true,"again":false}"#,
    r#"{"request":"listen","token":1}"#,
    r#"{"request":"unbind","token":1}"#,
    r#"{"request":"introduce","slot":1}"#,
];

#[test]
fn truncated_and_mangled_messages() {
    in_new_netns(|| {
        let scene = Scene::new("mangled");
        for request in REQUESTS {
            for len in (1..request.len()).step_by(3) {
                let raw = Raw::greeted(&scene.place);
                raw.send(&request.as_bytes()[..len], &[]).unwrap();
                assert!(raw.hear().unwrap().contains("malformed"), "{request} cut to {len} bytes");
            }
        }
        let mut rng = Rng::new(0x5eed_0002);
        for _ in 0..1000 {
            let mut message = REQUESTS[rng.below(REQUESTS.len() as u64) as usize].as_bytes().to_vec();
            // Except the request that makes the hub exit.
            if message.starts_with(br#"{"request":"shutdown"#) {
                continue;
            }
            for _ in 0..1 + rng.below(3) {
                let at = rng.below(message.len() as u64) as usize;
                message[at] = rng.next_u64() as u8;
            }
            let raw = Raw::greeted(&scene.place);
            raw.send(&message, &[]).unwrap();
            assert!(raw.hear().is_some(), "there is always an answer");
        }
        wait_until("all are gone", || scene.place.status().clients.len() == 1);
        scene.check();
    });
}

#[test]
fn oversized_and_empty_messages() {
    in_new_netns(|| {
        let scene = Scene::new("oversized");
        for len in [(64 << 10) + 1, 100_000, 180_000] {
            let raw = Raw::greeted(&scene.place);
            raw.send(&vec![b'['; len], &[]).unwrap();
            assert!(raw.hear().unwrap().contains("longer than"), "{len} bytes");
            assert_eq!(raw.hear(), None);
        }
        // The deepest possible message.
        let raw = Raw::greeted(&scene.place);
        raw.send(&[b'['; 64 << 10], &[]).unwrap();
        assert!(raw.hear().unwrap().contains("malformed"));
        let raw = Raw::greeted(&scene.place);
        raw.send(&[], &[]).unwrap();
        assert_eq!(raw.hear(), None, "like a closed connection");
        assert_eq!(scene.counters().malformed, 4);
        scene.check();
    });
}

#[test]
fn descriptors_of_all_kinds_and_numbers() {
    in_new_netns(|| {
        let scene = Scene::new("descriptors");
        let null: OwnedFd = File::open("/dev/null").unwrap().into();
        let (reader, _writer) = std::io::pipe().unwrap();
        let udp: OwnedFd = UdpSocket::bind("127.0.0.1:0").unwrap().into();
        let (unix, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let connection = Raw::connect(&scene.place);
        let kinds: [BorrowedFd<'_>; 5] =
            [null.as_fd(), reader.as_fd(), udp.as_fd(), unix.as_fd(), connection.socket.as_fd()];
        for count in [1, 2, 3, 100, 253] {
            let many: Vec<BorrowedFd<'_>> = kinds.iter().copied().cycle().take(count).collect();
            for request in REQUESTS {
                if request.contains("shutdown") {
                    continue;
                }
                let raw = Raw::greeted(&scene.place);
                raw.send(request.as_bytes(), &many).unwrap();
                assert!(raw.hear().is_some(), "{request} with {count} descriptors");
            }
        }
        // A client with a malformed counter page attaches, and the status has no counters of it.
        for kind in kinds {
            let raw = Raw::greeted(&scene.place);
            raw.send(REQUESTS[1].as_bytes(), &[kind]).unwrap();
            assert!(raw.hear().unwrap().contains("attached"));
            let clients = scene.place.status().clients;
            assert!(clients.iter().any(|c| c.program == "raw" && c.counters.is_none()));
        }
        drop(connection);
        wait_until("all are gone", || scene.place.status().clients.len() == 1);
        scene.check();
    });
}

#[test]
fn messages_out_of_order() {
    in_new_netns(|| {
        let scene = Scene::new("order");
        for request in &REQUESTS[1..] {
            let raw = Raw::connect(&scene.place);
            raw.say(request);
            assert!(raw.hear().unwrap().contains("out_of_order"), "{request} before the hello");
            assert_eq!(raw.hear(), None);
        }
        for index in [0, 3, 4, 11, 12, 13, 14] {
            let request = REQUESTS[index];
            let raw = Raw::greeted(&scene.place);
            raw.say(request);
            assert!(raw.hear().unwrap().contains("out_of_order"), "{request} without a slot");
        }
        let attached = Raw::greeted(&scene.place);
        attached.say(r#"{"request":"attach","slot":null,"counters":false,"local":false}"#);
        assert!(attached.hear().unwrap().contains("attached"));
        attached.say(r#"{"request":"attach","slot":null,"counters":false,"local":false}"#);
        assert!(attached.hear().unwrap().contains("out_of_order"), "twice");
        assert_eq!(attached.hear(), None);
        assert_eq!(scene.counters().out_of_order, REQUESTS.len() as u64 - 1 + 7 + 1);
        scene.check();
    });
}

#[test]
fn timeouts_beyond_the_range_of_clocks() {
    in_new_netns(|| {
        let mut scene = Scene::new("clocks");
        for milliseconds in [u64::MAX, u64::MAX / 1000, 1 << 62, i64::MAX as u64] {
            let raw = Raw::greeted(&scene.place);
            raw.say(&format!(r#"{{"request":"keep_up","idle_timeout_ms":{milliseconds}}}"#));
            assert!(raw.hear().unwrap().contains("done"));
        }
        // Without clients, the hub computes with it.
        scene.honest.tell("quit");
        wait_until("it is gone", || scene.place.status().clients.is_empty());
        (scene.honest, scene.slot) = Client::attached(&scene.place);
        scene.check();
    });
}

#[test]
fn slots_of_other_clients_are_refused() {
    in_new_netns(|| {
        let scene = Scene::new("others");
        let attached = Raw::greeted(&scene.place);
        attached.say(r#"{"request":"attach","slot":null,"counters":false,"local":false}"#);
        let (_, own) = attached.receive().unwrap();
        attached.say(&format!(r#"{{"request":"release","slot":{}}}"#, scene.slot));
        assert!(attached.hear().unwrap().contains("not_yours"));
        // Claims: without proof, with the proof of another slot, of slots that do not exist,
        // of the hub's own.
        let null: OwnedFd = File::open("/dev/null").unwrap().into();
        for slot in [scene.slot, 0, 9, 250, 255] {
            for proof in [&own[1], &own[0], &null] {
                let raw = Raw::greeted(&scene.place);
                let request = format!(r#"{{"request":"reattach","slots":[{slot}],"counters":false,"local":false}}"#);
                raw.send(request.as_bytes(), &[own[0].as_fd(), proof.as_fd()]).unwrap();
                assert!(raw.hear().unwrap().contains("not_yours"), "slot {slot}");
            }
        }
        for slots in ["[]", "[5,5]"] {
            let raw = Raw::greeted(&scene.place);
            let request = format!(r#"{{"request":"reattach","slots":{slots},"counters":false,"local":false}}"#);
            raw.send(request.as_bytes(), &[own[0].as_fd(), own[1].as_fd(), own[1].as_fd()]).unwrap();
            assert!(raw.hear().unwrap().contains("malformed"), "slots {slots}");
        }
        drop((attached, own));
        wait_until("it is gone", || scene.place.status().clients.len() == 1);
        scene.check();
    });
}

#[test]
fn a_flood_stops_only_itself() {
    in_new_netns(|| {
        let scene = Scene::new("flood");
        let floods: Vec<Raw> = (0..8).map(|_| Raw::greeted(&scene.place)).collect();
        let mut sent = 0u64;
        for _ in 0..200 {
            for raw in &floods {
                // Each sends requests and reads nothing, as long as the kernel accepts them.
                while raw.try_send(REQUESTS[5].as_bytes()).is_ok() {
                    sent += 1;
                    assert!(sent < 10_000_000, "the hub reads on without being read");
                }
            }
            drop(attach(&scene.place.options()).unwrap());
        }
        drop(floods);
        wait_until("all are gone", || scene.place.status().clients.len() == 1);
        scene.check();
    });
}

#[test]
fn too_many_connections_are_refused() {
    in_new_netns(|| {
        let scene = Scene::new("connections");
        let many: Vec<Raw> = (0..600).map(|_| Raw::connect(&scene.place)).collect();
        assert!(many[599].hear().unwrap().contains("too_many_connections"));
        assert_eq!(many[599].hear(), None);
        drop(many);
        wait_until("there is room again", || attach(&scene.place.options()).is_ok());
        wait_until("it is gone", || scene.place.status().clients.len() == 1);
        assert!(scene.counters().refused_others >= 80);
        scene.check();
    });
}

#[test]
fn forged_keepers_do_not_prevent_recovery_with_the_true_one() {
    in_new_netns(|| {
        let place = TestHub::new("forged");
        let (mut honest, slot) = Client::attached(&place);
        let thief = Raw::greeted(&place);
        thief.say(r#"{"request":"attach","slot":null,"counters":false,"local":false}"#);
        let (text, kept) = thief.receive().unwrap();
        assert!(text.contains("attached"));
        common::stop(honest.pid());
        kill(place.status().pid);
        let waiting = Client::start(&place, "outcome");
        wait_until("a new hub listens", || common::socket_path(&place).exists() && try_connect(&place));
        let udp: OwnedFd = UdpSocket::bind("127.0.0.1:0").unwrap().into();
        let (empty, _other) = rustix::net::socketpair(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::SEQPACKET,
            rustix::net::SocketFlags::CLOEXEC,
            None,
        )
        .unwrap();
        for keeper in [udp.as_fd(), kept[1].as_fd(), empty.as_fd()] {
            let raw = Raw::greeted(&place);
            let request = br#"{"request":"reattach","slots":[2],"counters":false,"local":false}"#;
            raw.send(request, &[keeper, kept[1].as_fd()]).unwrap();
            assert!(raw.hear().unwrap().contains("keeper"));
        }
        common::resume(honest.pid());
        honest.expect("reattached ");
        waiting.expect("attached ");
        honest.tell("receive");
        send_to_slot(slot, 3);
        assert_eq!(honest.expect("packet "), format!("{slot} 3"));
        honest.quit();
    });
}

fn try_connect(place: &TestHub) -> bool {
    longarm_hub::client::ping(Some(&place.dir())).is_ok()
}
