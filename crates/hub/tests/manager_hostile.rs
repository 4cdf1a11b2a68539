//! Managing clients that violate the protocol, and packets that are no MADs.

mod common;

use common::mads::{Manager, TCP, id, message, packet, rtu, sidr_req};
use common::{Raw, TestHub, descriptors, play_role_if_asked, random_bytes};
use faults::Rng;
use longarm_hub::client::manager::BindOptions;
use std::net::UdpSocket;
use testkit::wait_until;
use udp::testing::in_new_netns;
use wire::mad::{CmMessage, packet as qp1};
use wire::{Flow, ICRC_LEN, Psn, icrc};

#[test]
fn role() {
    play_role_if_asked();
}

/// A hub with one honest client, which must notice nothing.
struct Scene {
    place: TestHub,
    honest: Manager,
    hub: u32,
    descriptors: usize,
}

impl Scene {
    fn new(name: &str) -> Scene {
        let place = TestHub::new(name);
        let mut honest = Manager::new(&place);
        honest.listen(TCP, "127.0.0.1:7");
        let hub = place.status().pid;
        let (request, own) = (sidr_req(id(honest.session.number(), 1), TCP, 7), "127.0.0.1");
        // So that the hub has opened its sending sockets.
        honest.session.send_mad(&packet(own, own, 1, request));
        honest.expect_mad();
        let descriptors = descriptors(hub);
        Scene { place, honest, hub, descriptors }
    }

    /// A raw connection that manages.
    fn managing(&self) -> Raw {
        let raw = Raw::greeted(&self.place);
        raw.say(r#"{"request":"manage","number":null}"#);
        assert!(raw.hear().unwrap().contains("managing"));
        raw
    }

    fn check(mut self) {
        wait_until("all are gone", || self.place.status().managers.len() == 1);
        let status = self.place.status();
        assert_eq!((status.pid, status.managers[0].number), (self.hub, self.honest.session.number()));
        let request = sidr_req(id(self.honest.session.number(), 1), TCP, 7);
        self.honest.session.send_mad(&packet("127.0.0.1", "127.0.0.1", 99, request));
        while !matches!(message(&self.honest.expect_mad()), CmMessage::SidrReq(_)) {}
        wait_until("nothing is left", || descriptors(self.hub) <= self.descriptors);
    }
}

#[test]
fn random_frames() {
    in_new_netns(|| {
        let scene = Scene::new("random-frames");
        let mut rng = Rng::new(0x5eed_0003);
        for round in 0..400 {
            let raw = scene.managing();
            let len = if round % 2 == 0 { 300 } else { 1 + rng.below(400) as usize };
            let mut bytes = random_bytes(&mut rng, len);
            bytes[0] = 1 + rng.below(4) as u8;
            raw.send(&bytes, &[]).unwrap();
            assert!(raw.hear().unwrap().contains("malformed"));
            assert_eq!(raw.hear(), None, "the connection is closed");
        }
        assert_eq!(scene.place.status().counters.malformed, 400);
        scene.check();
    });
}

#[test]
fn frames_of_clients_that_manage_nothing() {
    in_new_netns(|| {
        let scene = Scene::new("nothing");
        let mut frame = vec![0; 300];
        frame[0] = 1;
        let attached = Raw::greeted(&scene.place);
        attached.say(r#"{"request":"attach","slot":null,"counters":false,"local":false}"#);
        assert!(attached.hear().unwrap().contains("attached"));
        for raw in [Raw::connect(&scene.place), Raw::greeted(&scene.place), attached] {
            raw.send(&frame, &[]).unwrap();
            assert!(raw.hear().unwrap().contains("malformed"));
            assert_eq!(raw.hear(), None);
        }
        let twice = scene.managing();
        twice.say(r#"{"request":"manage","number":null}"#);
        assert!(twice.hear().unwrap().contains("out_of_order"));
        scene.check();
    });
}

#[test]
fn the_ports_of_a_client_are_limited() {
    in_new_netns(|| {
        let mut scene = Scene::new("ports-flood");
        let raw = scene.managing();
        let bind = |token: u32, port: u32| {
            let wish = format!(r#"{{"space":262,"address":"[::1]:{port}","reuse":true,"afonly":false}}"#);
            raw.say(&format!(r#"{{"request":"bind","token":{token},"wish":{wish},"listening":false,"again":false}}"#));
            raw.hear().unwrap()
        };
        for token in 0..65536 {
            let answer = bind(token, token % 65535 + 1);
            assert!(answer.contains(r#""bound""#), "{token}: {answer}");
        }
        assert!(bind(65536, 1).contains("too_many"));
        assert!(bind(7, 8).contains("unknown_token"), "the token is in use");
        let any = "127.0.0.1:0".parse().unwrap();
        assert!(scene.honest.session.bind(TCP, any, BindOptions::default()).is_ok());
        drop(raw);
        wait_until("they are free", || {
            scene.honest.session.bind(TCP, "[::1]:5".parse().unwrap(), BindOptions::default()).is_ok()
        });
        scene.check();
    });
}

#[test]
fn a_client_that_does_not_read_loses_mads_and_delays_no_other() {
    in_new_netns(|| {
        let mut scene = Scene::new("deaf");
        let deaf = scene.managing();
        let number = scene.place.status().managers[1].number;
        let mad = packet("127.0.0.1", "127.0.0.1", 1, rtu(1, id(number, 1)));
        wait_until("the hub gives up", || {
            (0..200).for_each(|_| scene.honest.session.send_mad(&mad));
            scene.honest.step();
            let status = scene.place.status();
            status.mads.drop_unread > 0 && status.managers[1].mads_lost > 0
        });
        // The hub reads its frames at the latest when it is gone.
        deaf.send(&[3, 0, 0, 0, 0, 0, 0, 1], &[]).unwrap();
        drop(deaf);
        scene.check();
    });
}

#[test]
fn unread_input_does_not_keep_the_hub_busy() {
    in_new_netns(|| {
        let mut scene = Scene::new("busy");
        let deaf = scene.managing();
        let number = scene.place.status().managers[1].number;
        let mad = packet("127.0.0.1", "127.0.0.1", 1, rtu(1, id(number, 1)));
        wait_until("its outbox is in use", || {
            (0..200).for_each(|_| scene.honest.session.send_mad(&mad));
            scene.honest.step();
            scene.place.status().managers[1].mads_delivered > 1000
        });
        deaf.send(&[3, 0, 0, 0, 0, 0, 0, 1], &[]).unwrap();
        // A hub that polls never sleeps.
        let sleeps = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", scene.hub)).unwrap();
            stat.rsplit_once(") ").unwrap().1.starts_with('S')
        };
        wait_until("the hub sleeps", sleeps);
        drop(deaf);
        scene.check();
    });
}

/// Sends the UDP payload of a packet for QP1 with the right ICRC.
fn send(socket: &UdpSocket, mut bytes: Vec<u8>) {
    let flow = Flow {
        source: [127, 0, 0, 1].into(),
        destination: [127, 0, 0, 1].into(),
        source_port: socket.local_addr().unwrap().port(),
    };
    let at = bytes.len() - ICRC_LEN;
    let icrc = icrc::compute(&flow, 0x77, &bytes[..at]);
    bytes[at..].copy_from_slice(&icrc.to_le_bytes());
    socket.send_to(&bytes, "127.0.0.1:4791").unwrap();
}

#[test]
fn packets_that_are_no_mads_are_counted_by_their_reason() {
    in_new_netns(|| {
        let scene = Scene::new("no-mads");
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mad = packet("127.0.0.1", "127.0.0.1", 1, rtu(1, id(scene.honest.session.number(), 1))).mad;
        let good = qp1::encode(Psn::new(1), &mad).to_vec();
        let changed = |changes: &[(usize, u8)]| {
            let mut bytes = good.clone();
            changes.iter().for_each(|(at, value)| bytes[*at] = *value);
            bytes
        };
        const MAD: usize = 20;
        send(&socket, changed(&[(2, 0x01)]));
        send(&socket, changed(&[(15, 1)]));
        send(&socket, changed(&[(0, 0x65)]));
        send(&socket, good[..272].to_vec());
        send(&socket, changed(&[(MAD + 1, 0x03)]));
        send(&socket, changed(&[(MAD + 3, 0x02)]));
        send(&socket, changed(&[(MAD + 17, 0x99)]));
        socket.send_to(&good, "127.0.0.1:4791").unwrap();
        let mut rng = Rng::new(0x5eed_0004);
        for _ in 0..200 {
            let mut bytes = random_bytes(&mut rng, 280);
            bytes[5..8].copy_from_slice(&[0, 0, 1]);
            send(&socket, bytes);
        }
        wait_until("all have arrived", || scene.place.status().counters.management_packets == 209);
        let mads = scene.place.status().mads;
        assert_eq!((mads.drop_icrc, mads.drop_class, mads.delivered), (1, 3, 1), "{mads:?}");
        assert!(mads.drop_pkey >= 1 && mads.drop_qkey >= 1 && mads.drop_malformed >= 2, "{mads:?}");
        // A limited member of the partition is accepted.
        let mut honest = scene;
        send(&socket, changed(&[(2, 0x7f)]));
        assert_eq!(honest.honest.expect_mad().mad, mad);
        honest.check();
    });
}

#[test]
fn random_mads_do_no_harm() {
    in_new_netns(|| {
        let mut scene = Scene::new("random-mads");
        let mut rng = Rng::new(0x5eed_0005);
        let mut mad = packet("127.0.0.1", "127.0.0.1", 1, rtu(1, 1));
        for round in 0..3000u32 {
            let bytes = random_bytes(&mut rng, 232);
            mad.mad[24..].copy_from_slice(&bytes);
            mad.mad[17] = 0x10 + (round % 12) as u8;
            if round % 3 == 0 {
                mad.mad[28..30].copy_from_slice(&(scene.honest.session.number() << 4).to_be_bytes());
            }
            scene.honest.session.send_mad(&mad);
            if round % 50 == 0 {
                scene.honest.step();
            }
        }
        scene.check();
    });
}
