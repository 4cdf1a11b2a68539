//! UD endpoints: datagrams, their sources, multicast.

mod common;

use std::net::IpAddr;

use common::*;
use longarm::{AddressHandle, QKey, Status, UdQueuePair};
use testkit::PATIENCE;

const GROUP: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(239, 255, 0, 7));

/// Two devices that have datagrams, and multicast if that is asked for. One that has none says so.
fn two_with_datagrams(multicast: bool, test: impl FnOnce(TestSide, TestSide) + Send) {
    two_sides(|a, b| {
        let abilities = a.device.capabilities();
        if !has(abilities.ud && (abilities.multicast || !multicast), DATAGRAMS) {
            let error = a.domain.ud(&a.cq).build().unwrap_err().to_string();
            return assert!(error.contains("no datagrams"), "{error}");
        }
        test(a, b);
    });
}

fn endpoint(side: &TestSide) -> UdQueuePair {
    side.domain.ud(&side.cq).qkey(QKey(0x77)).build().unwrap()
}

#[test]
fn a_datagram_tells_who_sent_it_and_can_be_answered() {
    in_own_network(|| {
        two_with_datagrams(false, |a, b| {
            let (left, right) = (endpoint(&a), endpoint(&b));
            let question = right.recv(b.empty(64)).start();
            let answer = left.recv(a.empty(64)).start();
            let to = AddressHandle::from_bytes(&right.address_handle().to_bytes()).unwrap();
            let sent = left.send_to_with_imm(a.buffer(b"who?"), &to, 5).wait(PATIENCE).unwrap();
            assert_eq!(&sent[..], b"who?");
            let question = question.wait(PATIENCE).unwrap();
            assert_eq!((&question[..], question.imm()), (&b"who?"[..], Some(5)));
            let source = *question.source().expect("a source");
            assert_eq!(source, left.address_handle());
            right.send_inline_to(b"me", &source).wait(PATIENCE).unwrap();
            let answer = answer.wait(PATIENCE).unwrap();
            assert_eq!((&answer[..], answer.source()), (&b"me"[..], Some(&right.address_handle())));
            assert_eq!(answer.into_buffer().capacity(), 64, "no room is lost to headers");
        })
    })
}

#[test]
fn a_wrong_key_is_not_let_in() {
    in_own_network(|| {
        two_with_datagrams(false, |a, b| {
            let (left, right) = (endpoint(&a), endpoint(&b));
            let message = right.recv(b.empty(64)).start();
            let stranger = AddressHandle::new(right.address_handle().gid(), right.qpn(), QKey(0x78));
            left.send_inline_to(b"refused", &stranger).wait(PATIENCE).unwrap();
            left.send_inline_to(b"let in", &right.address_handle()).wait(PATIENCE).unwrap();
            assert_eq!(&message.wait(PATIENCE).unwrap()[..], b"let in");
            assert!(b.device.counters().dropped() >= 1 || !b.device.capabilities().instruments);
        })
    })
}

#[test]
fn a_datagram_is_one_packet() {
    in_own_network(|| {
        two_with_datagrams(false, |a, b| {
            let (left, right) = (endpoint(&a), endpoint(&b));
            let max = left.max_message_bytes() as usize;
            let message = right.recv(b.empty(max)).start();
            let bytes = pattern(max);
            left.send_to(a.buffer(&bytes), &right.address_handle()).wait(PATIENCE).unwrap();
            assert!(message.wait(PATIENCE).unwrap()[..] == bytes);
            let failure = left.send_to(a.empty(max + 1), &right.address_handle()).wait(PATIENCE);
            let failure = failure.unwrap_err();
            assert!(matches!(failure.status(), None | Some(Status::LocalLength)), "{failure}");
            assert_eq!(failure.into_buffer().map(|b| b.len()), Some(max + 1));
        })
    })
}

#[test]
fn a_group_reaches_its_members_until_they_leave() {
    in_own_network(|| {
        two_with_datagrams(true, |a, b| {
            let (left, right) = (endpoint(&a), endpoint(&b));
            let membership = right.join(GROUP).unwrap();
            let group = membership.address_handle();
            let message = right.recv(b.empty(64)).start();
            left.send_inline_to(b"to all", &group).wait(PATIENCE).unwrap();
            let message = message.wait(PATIENCE).unwrap();
            assert_eq!((&message[..], message.source()), (&b"to all"[..], Some(&left.address_handle())));
            drop(membership);
            let direct = right.recv(b.empty(64)).start();
            left.send_inline_to(b"to nobody", &group).wait(PATIENCE).unwrap();
            left.send_inline_to(b"to you", &right.address_handle()).wait(PATIENCE).unwrap();
            assert_eq!(&direct.wait(PATIENCE).unwrap()[..], b"to you");
            assert!(left.join(IpAddr::from([10, 0, 0, 1])).is_err());
        })
    })
}

#[test]
fn a_member_hears_itself() {
    in_own_network(|| {
        two_with_datagrams(true, |a, _b| {
            let left = endpoint(&a);
            let membership = left.join(GROUP).unwrap();
            let message = left.recv(a.empty(64)).start();
            left.send_inline_to(b"echo", &membership.address_handle()).wait(PATIENCE).unwrap();
            assert_eq!(&message.wait(PATIENCE).unwrap()[..], b"echo");
        })
    })
}
