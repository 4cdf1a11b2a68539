use std::time::Duration;

use crate::carrier::Carrier;
use crate::carrier::herd::{HerdClient, HerdServer, HerdSession};
use crate::code::{Code, Executed};
use crate::session::{CallId, SessionLimits};
use crate::testlink::{TestLink, TestOp, TestPair, reversed};

const SESSION: HerdSession =
    HerdSession { slots: 4, slot_bytes: 256, datagram_bytes: 128, token: 0x1234_5678_9abc_def0 };
const LIMITS: SessionLimits = SessionLimits { slots: SESSION.slots, max_message_bytes: 4096 };

fn pair() -> TestPair {
    let area_bytes = u64::from(SESSION.slots) * SESSION.slot_bytes;
    let client = (TestLink::new(0, 0, 0), Carrier::HerdClient(HerdClient::new(SESSION)));
    let server = (TestLink::new(area_bytes, 0, 0), Carrier::HerdServer(HerdServer::new(SESSION)));
    TestPair::new(client, server, LIMITS)
}

/// The bodies of calls that must have succeeded.
fn replies(pair: &mut TestPair) -> Vec<(CallId, Vec<u8>)> {
    pair.run().into_iter().map(|(id, result)| (id, result.expect("the call succeeds"))).collect()
}

#[test]
fn calls_of_all_lengths_return_in_every_slot() {
    let mut pair = pair();
    for len_bytes in [0, 1, 7, 8, 96, 97, 224, 225, 4096] {
        let body: Vec<u8> = (0..len_bytes).map(|at| at as u8).collect();
        let ids: Vec<CallId> = (0..SESSION.slots).map(|_| pair.start(&body)).collect();
        assert!(pair.try_start(&body).is_err(), "all slots are taken");
        let mut done = replies(&mut pair);
        done.sort_by_key(|(id, _)| id.slot);
        let wanted: Vec<_> = ids.into_iter().map(|id| (id, reversed(&body))).collect();
        assert_eq!(done, wanted, "{len_bytes} bytes");
    }
    assert_eq!(pair.server.link().exposures() + pair.client.link().exposures(), 0);
    assert_eq!((pair.server.counters().repeated, pair.client.carrier().counters().dropped), (0, 0));
}

#[test]
fn a_withdrawal_that_overtakes_its_request_holds() {
    let mut pair = pair();
    let id = pair.start(b"withdrawn");
    let request = pair.client_posts();
    pair.client.cancel(id);
    let withdrawal = pair.client_posts();
    pair.deliver_to_server(withdrawal);
    assert!(pair.arrivals().is_empty());
    pair.deliver_to_server(request);
    let arrivals = pair.arrivals();
    assert_eq!(arrivals.len(), 1);
    assert!(pair.server.is_pointless(arrivals[0].0.id, None, pair.now), "nobody waits for it");
    let ops = pair.server_posts();
    pair.deliver_to_client(ops);
    assert!(
        pair.finished().is_empty() && pair.client.outstanding() == 0,
        "the slot is free, and the caller hears nothing"
    );
}

#[test]
fn a_call_that_another_thread_found_late_is_answered_whatever_the_clock_says_here() {
    let mut pair = pair();
    let id = pair.start(b"late");
    let request = pair.client_posts();
    pair.deliver_to_server(request);
    let arrived = pair.arrivals().remove(0).0;
    pair.server.refuse_pointless(arrived.id, pair.now - Duration::from_millis(1));
    let ops = pair.server_posts();
    pair.deliver_to_client(ops);
    let finished = pair.finished();
    assert_eq!(finished.len(), 1);
    let (ended, status) = (finished[0].0, finished[0].1.as_ref().unwrap_err());
    assert_eq!((ended, status.code(), status.executed()), (id, Code::DeadlineExceeded, Executed::No));
}

#[test]
fn a_lost_request_is_written_again() {
    let mut pair = pair();
    let id = pair.start(b"lost");
    assert_eq!(pair.client_posts().len(), 1);
    assert_eq!(pair.run(), [], "not before its time");
    pair.pass_to_timer();
    assert_eq!(replies(&mut pair), [(id, reversed(b"lost"))]);
    assert_eq!(pair.server.counters().repeated, 0);
    assert_eq!(pair.client.next_timer(), None, "nothing is outstanding");
}

#[test]
fn a_lost_reply_is_sent_again_and_the_request_runs_once() {
    for body in [&[5; 60][..], &[6; 4000]] {
        let mut pair = pair();
        let id = pair.start(body);
        let ops = pair.client_posts();
        pair.deliver_to_server(ops);
        pair.arrivals().iter().for_each(|(arrived, _)| assert_eq!(arrived.id, id));
        let ops = pair.server_posts();
        pair.deliver_to_client(ops); // The READ of a long request.
        pair.arrivals();
        pair.reply(id, body);
        assert!(matches!(pair.server_posts()[..], [TestOp::Datagram(_)]));
        pair.pass_to_timer();
        assert_eq!(replies(&mut pair), [(id, body.to_vec())]);
        assert_eq!(pair.server.counters().repeated, 1);
        assert_eq!(pair.server.link().exposures(), 0, "the client has read the reply");
    }
}

#[test]
fn a_request_that_comes_again_while_its_handler_runs_is_not_executed_again() {
    let mut pair = pair();
    let id = pair.start(b"slow");
    let ops = pair.client_posts();
    pair.deliver_to_server(ops);
    assert_eq!(pair.arrivals().len(), 1);
    for _ in 0..3 {
        pair.pass_to_timer();
        assert_eq!(pair.run(), []);
    }
    assert_eq!(pair.server.counters().repeated, 3);
    pair.reply(id, b"done");
    assert_eq!(replies(&mut pair), [(id, b"done".to_vec())]);
}

#[test]
fn repetitions_grow_rare() {
    let mut pair = pair();
    pair.start(b"into the void");
    assert_eq!(pair.client_posts().len(), 1);
    let mut pauses = Vec::new();
    for _ in 0..8 {
        let before = pair.now;
        pair.pass_to_timer();
        pauses.push(pair.now - before);
        pair.finished();
        assert_eq!(pair.client_posts().len(), 1, "it never gives up");
    }
    assert!(pauses.windows(2).all(|pair| pair[1] == (pair[0] * 2).min(Duration::from_secs(1))), "{pauses:?}");
}

#[test]
fn a_part_of_a_request_is_no_request() {
    let mut pair = pair();
    // The slots have old records, of requests of the same length.
    for _ in 0..SESSION.slots {
        pair.start(&[1; 100]);
        replies(&mut pair);
    }
    let id = pair.start(&[2; 100]);
    let [TestOp::Write { at, bytes, .. }] = &pair.client_posts()[..] else {
        panic!("a request is one WRITE");
    };
    for cut in (8..bytes.len()).step_by(8) {
        pair.deliver_to_server(vec![TestOp::Write { at: *at, bytes: bytes[..cut].to_vec(), imm: None }]);
        assert_eq!(pair.serve(), [], "{cut} bytes");
    }
    pair.pass_to_timer();
    assert_eq!(replies(&mut pair), [(id, vec![2; 100])]);
}

#[test]
fn doubled_late_and_foreign_replies_are_dropped() {
    let mut pair = pair();
    let old = pair.start(b"first");
    let ops = pair.client_posts();
    pair.deliver_to_server(ops);
    assert_eq!(pair.serve(), [old]);
    let reply = pair.server_posts();
    pair.deliver_to_client([reply.clone(), reply.clone()].concat());
    assert_eq!(pair.finished().len(), 1);
    assert_eq!(pair.client.carrier().counters().dropped, 1);
    // The next calls: one of them in the same slot.
    for _ in 0..SESSION.slots {
        pair.start(b"second");
    }
    let [TestOp::Datagram(good)] = &reply[..] else {
        panic!("a reply is one datagram");
    };
    let change = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        bytes
    };
    // Of another session; no reply; of a slot that is not there; of the next number, with a wrong length; cut; too short.
    let forged = [change(0, 1), change(14, 1), change(12, 200), change(8, 9), good[..20].to_vec(), Vec::new()];
    for datagram in forged {
        pair.deliver_to_client(vec![TestOp::Datagram(datagram)]);
    }
    pair.deliver_to_client(reply.clone());
    assert_eq!(pair.finished().len(), 0);
    assert_eq!(pair.client.carrier().counters().dropped, 8);
    assert_eq!(pair.client.closed(), None, "anybody can send datagrams");
    assert_eq!(replies(&mut pair).len(), usize::from(SESSION.slots));
}

#[test]
fn replies_that_overtake_each_other_and_lost_ones_leave_no_call_behind() {
    let mut pair = pair();
    let mut done = 0;
    for round in 0..200_u32 {
        while pair.try_start(&round.to_le_bytes()).is_ok() {}
        let mut ops = pair.client_posts();
        ops.retain(|_| round % 3 != 1);
        pair.deliver_to_server(ops);
        pair.serve();
        let mut ops = pair.server_posts();
        ops.reverse();
        ops.truncate(if round % 2 == 0 { 1 } else { 4 });
        pair.deliver_to_client(ops);
        done += pair.finished().into_iter().filter(|(_, result)| result.is_ok()).count();
        pair.pass(Duration::from_secs(2));
    }
    assert!(done > 150, "{done}");
    let left = pair.client.outstanding();
    pair.pass(Duration::from_secs(2));
    assert_eq!(replies(&mut pair).len(), left);
    assert_eq!(pair.client.outstanding(), 0);
}

#[test]
fn a_record_in_a_wrong_slot_ends_the_session() {
    let mut pair = pair();
    pair.start(b"somewhere else");
    let mut ops = pair.client_posts();
    if let TestOp::Write { at, .. } = &mut ops[0] {
        *at += SESSION.slot_bytes;
    }
    pair.deliver_to_server(ops);
    assert_eq!(pair.serve(), []);
    assert_eq!(pair.server.ended(), Some("the client broke the rules of the way"));
}

#[test]
fn a_length_beyond_the_slot_ends_the_session() {
    let mut pair = pair();
    pair.start(b"long");
    let mut ops = pair.client_posts();
    if let TestOp::Write { bytes, .. } = &mut ops[0] {
        bytes[..4].copy_from_slice(&225_u32.to_le_bytes());
    }
    pair.deliver_to_server(ops);
    assert_eq!(pair.serve(), []);
    assert!(pair.server.ended().is_some());
}

#[test]
fn a_busy_device_delays_requests_and_replies() {
    let mut pair = pair();
    let id = pair.start(b"reply later");
    let ops = pair.client_posts();
    pair.deliver_to_server(ops);
    pair.server.link().busy = true;
    assert_eq!(pair.serve(), [id]);
    assert_eq!(pair.run(), []);
    pair.client.link().busy = true;
    assert!(pair.try_start(b"no").is_err());
    pair.pass_to_timer();
    assert_eq!(pair.run(), []);
    (pair.client.link().busy, pair.server.link().busy) = (false, false);
    assert_eq!(replies(&mut pair), [(id, reversed(b"reply later"))]);
}
