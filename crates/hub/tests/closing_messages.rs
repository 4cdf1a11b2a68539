//! Closing messages of processes that are killed or disconnect.

mod common;

use common::mads::{Manager, TCP, drep, id, message, packet, transaction};
use common::{Client, TestHub, kill, play_role_if_asked};
use longarm_hub::AddressedMad;
use testkit::wait_until;
use udp::testing::in_new_netns;
use wire::mad::CmMessage;

#[test]
fn role() {
    play_role_if_asked();
}

/// The DREQ in a MAD: the sender's id and its transaction.
fn dreq_of(packet: &AddressedMad) -> (u32, u64) {
    match message(packet) {
        CmMessage::Dreq(dreq) => (dreq.local_id, transaction(packet)),
        other => panic!("{other:?}"),
    }
}

fn answer(peer: &mut Manager, dreq: &AddressedMad) {
    let CmMessage::Dreq(request) = message(dreq) else { panic!("no DREQ") };
    let answer = drep(request.remote_id, request.local_id);
    peer.session.send_mad(&packet("127.0.0.1", "127.0.0.1", transaction(dreq), answer));
}

#[test]
fn closing_messages_of_a_killed_process_repeat_until_they_are_answered() {
    in_new_netns(|| {
        let place = TestHub::new("killed");
        let mut peer = Manager::new(&place);
        let (mut client, number) = Client::managing(&place);
        client.tell("listen 127.0.0.1:7");
        client.expect("listening 7");
        let own = id(peer.session.number(), 3);
        for key in [11, 12] {
            client.tell(&format!("closing {key} {own}"));
            client.expect("done");
        }
        client.kill();
        let mut first = [peer.expect_mad(), peer.expect_mad()];
        first.sort_by_key(transaction);
        assert_eq!(first.each_ref().map(dreq_of), [(id(number, 11), 11), (id(number, 12), 12)]);
        answer(&mut peer, &first[0]);
        let second = peer.expect_mad();
        assert_eq!(dreq_of(&second), (id(number, 12), 12), "the other one is answered");
        answer(&mut peer, &second);
        wait_until("both are answered", || place.status().mads.closing_answered == 2);
        let mads = place.status().mads;
        assert_eq!((mads.closing_sent, mads.closing_unanswered), (3, 0));
        assert!(peer.session.bind(TCP, "0.0.0.0:7".parse().unwrap(), Default::default()).is_ok(), "the port is free");
        let status = place.status();
        assert_eq!(status.managers.len(), 1);
        let (_next, next_number) = Client::managing(&place);
        assert_ne!(next_number, number, "a number rests");
    });
}

#[test]
fn a_process_that_disconnects_leaves_no_closing_message() {
    in_new_netns(|| {
        let place = TestHub::new("goodbye");
        let mut peer = Manager::new(&place);
        for _ in 0..20 {
            let (mut client, number) = Client::managing(&place);
            client.tell(&format!("closing 11 {}", id(peer.session.number(), 3)));
            client.expect("done");
            client.tell(&format!("goodbye 11 {}", id(peer.session.number(), 3)));
            client.quit();
            assert_eq!(dreq_of(&peer.expect_mad()), (id(number, 11), 11));
        }
        wait_until("all are gone", || place.status().managers.len() == 1);
        let mads = place.status().mads;
        assert_eq!((mads.closing_sent, mads.received), (0, 20));
    });
}

#[test]
fn a_forked_child_keeps_nothing_alive() {
    in_new_netns(|| {
        let place = TestHub::new("forked");
        let mut peer = Manager::new(&place);
        let (mut client, number) = Client::managing(&place);
        client.tell("listen 127.0.0.1:7");
        client.expect("listening 7");
        client.tell(&format!("closing 11 {}", id(peer.session.number(), 3)));
        client.expect("done");
        client.tell("fork");
        let child: u32 = client.expect("forked ").parse().unwrap();
        client.kill();
        let last = peer.expect_mad();
        assert_eq!(dreq_of(&last), (id(number, 11), 11));
        answer(&mut peer, &last);
        assert!(peer.session.bind(TCP, "127.0.0.1:7".parse().unwrap(), Default::default()).is_ok());
        kill(child);
    });
}

#[test]
fn closing_messages_outlive_the_hub() {
    in_new_netns(|| {
        let place = TestHub::new("outlive");
        let mut peer = Manager::new(&place);
        let (mut client, number) = Client::managing(&place);
        for key in 0..50 {
            client.tell(&format!("closing {key} {}", id(peer.session.number(), 3)));
            client.expect("done");
        }
        place.kill_hub();
        client.tell("maintain 50");
        client.expect("done");
        wait_until("the new hub knows all", || {
            client.tell("maintain 5");
            client.expect("done");
            let managers = place.status().managers;
            managers.iter().any(|manager| manager.number == number && manager.closing_messages == 50)
        });
        peer.expect("the new hub", |event| {
            matches!(event, longarm_hub::client::manager::ManagerEvent::Reattached).then_some(())
        });
        client.kill();
        for _ in 0..50 {
            let last = peer.expect_mad();
            assert_eq!(dreq_of(&last).0 >> 20, u32::from(number));
            answer(&mut peer, &last);
        }
    });
}

#[test]
fn a_hub_that_is_told_to_exit_sends_no_closing_messages() {
    in_new_netns(|| {
        let place = TestHub::new("leaves");
        let mut peer = Manager::new(&place);
        let (mut client, _) = Client::managing(&place);
        client.tell(&format!("closing 11 {}", id(peer.session.number(), 3)));
        client.expect("done");
        longarm_hub::client::shutdown(Some(&place.dir()), true).unwrap();
        peer.expect("the end of the hub", |event| {
            matches!(event, longarm_hub::client::manager::ManagerEvent::HubLost).then_some(())
        });
        assert!(!peer.has_mads());
        let refused = peer.session.bind(TCP, "0.0.0.0:0".parse().unwrap(), Default::default());
        assert_eq!(refused.unwrap_err().errno(), libc::ENODEV, "nobody starts a hub that was told to leave");
    });
}
