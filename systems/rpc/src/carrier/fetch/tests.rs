use std::time::Duration;

use crate::carrier::Carrier;
use crate::carrier::fetch::client::{ASKED_IN_ADVANCE, MISSES};
use crate::carrier::fetch::{FetchClient, FetchServer, FetchSession};
use crate::session::{CallId, SessionLimits};
use crate::testlink::{TestLink, TestOp, TestPair, reversed};

const SESSION: FetchSession = FetchSession { slots: 4, request_slot_bytes: 256, reply_slot_bytes: 1024 };
const LIMITS: SessionLimits = SessionLimits { slots: SESSION.slots, max_message_bytes: 4096 };

fn pair() -> TestPair {
    let [request_bytes, reply_bytes] =
        [SESSION.request_slot_bytes, SESSION.reply_slot_bytes].map(|bytes| bytes * u64::from(SESSION.slots));
    let client = (TestLink::new(reply_bytes, 0, reply_bytes), Carrier::FetchClient(FetchClient::new(SESSION)));
    let server = (TestLink::new(request_bytes, reply_bytes, 0), Carrier::FetchServer(FetchServer::new(SESSION)));
    TestPair::new(client, server, LIMITS)
}

fn replies(pair: &mut TestPair) -> Vec<(CallId, Vec<u8>)> {
    pair.run().into_iter().map(|(id, result)| (id, result.expect("the call succeeds"))).collect()
}

/// Delivers the client's requests, and READs that come back without the reply, until the client asks for it.
fn let_miss(pair: &mut TestPair) -> u32 {
    let mut reads = 0;
    loop {
        assert!(pair.finished().is_empty());
        let ops = pair.client_posts();
        let is_asked = ops.iter().any(|op| matches!(op, TestOp::Write { bytes, .. } if bytes.len() == 8));
        reads += ops.iter().filter(|op| matches!(op, TestOp::Read { .. })).count() as u32;
        pair.deliver_to_server(ops);
        if is_asked {
            return reads;
        }
    }
}

/// A call whose reply is fetched or sent: returns whether the server has sent it.
fn is_sent(pair: &mut TestPair, body: &[u8]) -> bool {
    let id = pair.start(body);
    let ops = pair.client_posts();
    pair.deliver_to_server(ops);
    assert_eq!(pair.serve(), [id]);
    let ops = pair.server_posts();
    let is_sent = !ops.is_empty();
    pair.deliver_to_client(ops);
    assert_eq!(replies(pair), [(id, reversed(body))]);
    is_sent
}

#[test]
fn calls_of_all_lengths_return_in_every_slot() {
    let mut pair = pair();
    for len_bytes in [0, 1, 8, 216, 217, 224, 225, 992, 993, 4096] {
        let body: Vec<u8> = (0..len_bytes).map(|at| at as u8).collect();
        let ids: Vec<CallId> = (0..SESSION.slots).map(|_| pair.start(&body)).collect();
        let mut done = replies(&mut pair);
        done.sort_by_key(|(id, _)| id.slot);
        let wanted: Vec<_> = ids.into_iter().map(|id| (id, reversed(&body))).collect();
        assert_eq!(done, wanted, "{len_bytes} bytes");
    }
    assert_eq!(pair.server.link().exposures() + pair.client.link().exposures(), 0);
    assert_eq!(pair.client.next_timer(), None, "nothing is outstanding");
}

#[test]
fn a_short_reply_takes_one_read_and_a_longer_one_two() {
    for (body, reads) in [(&[1; 200][..], 1), (&[2; 300], 2)] {
        let mut pair = pair();
        let id = pair.start(body);
        let ops = pair.client_posts();
        pair.deliver_to_server(ops);
        pair.serve();
        let ops = pair.server_posts();
        pair.deliver_to_client(ops); // The READ of a long request.
        pair.serve();
        assert!(pair.server_posts().is_empty(), "the server sends nothing");
        for _ in 0..reads {
            assert!(pair.finished().is_empty());
            let ops = pair.client_posts();
            assert!(matches!(ops[..], [TestOp::Read { .. }]), "{ops:?}");
            pair.deliver_to_server(ops);
        }
        assert_eq!(pair.finished(), [(id, Ok(body.to_vec()))]);
    }
}

#[test]
fn after_some_misses_the_client_asks_and_the_server_sends_for_a_while() {
    let mut pair = pair();
    assert!(!is_sent(&mut pair, b"fetched"));
    let id = pair.start(b"slow");
    let ops = pair.client_posts();
    pair.deliver_to_server(ops);
    assert_eq!(let_miss(&mut pair), MISSES);
    assert_eq!(pair.serve(), [id]);
    let ops = pair.server_posts();
    assert!(matches!(ops[..], [TestOp::Write { .. }]), "{ops:?}");
    pair.deliver_to_client(ops);
    assert_eq!(replies(&mut pair), [(id, reversed(b"slow"))]);
    for _ in 0..ASKED_IN_ADVANCE {
        assert!(is_sent(&mut pair, b"asked for with the request"));
    }
    for _ in 0..SESSION.slots {
        assert!(!is_sent(&mut pair, b"fetched again"));
    }
    assert_eq!(pair.client.closed(), None);
}

#[test]
fn a_reply_that_was_stored_before_the_question_is_found() {
    let mut pair = pair();
    let id = pair.start(b"just stored");
    let ops = pair.client_posts();
    pair.deliver_to_server(ops);
    let mut question = Vec::new();
    while question.is_empty() {
        pair.finished();
        let (asked, reads) = pair.client_posts().into_iter().partition(|op| matches!(op, TestOp::Write { .. }));
        question = asked;
        pair.deliver_to_server(reads);
    }
    assert_eq!(pair.serve(), [id]);
    pair.deliver_to_server(question);
    assert!(pair.server_posts().is_empty());
    pair.pass_to_timer();
    assert_eq!(replies(&mut pair), [(id, reversed(b"just stored"))]);
}

#[test]
fn a_client_that_has_asked_fetches_ever_more_rarely() {
    let mut pair = pair();
    pair.start(b"never answered");
    let_miss(&mut pair);
    let mut pauses = Vec::new();
    for _ in 0..12 {
        let before = pair.now;
        pair.pass_to_timer();
        pauses.push(pair.now - before);
        pair.finished();
        let ops = pair.client_posts();
        assert!(matches!(ops[..], [TestOp::Read { .. }]), "{ops:?}");
        pair.deliver_to_server(ops);
        pair.finished();
    }
    assert!(pauses.windows(2).all(|pair| pair[1] == (pair[0] * 2).min(Duration::from_millis(10))), "{pauses:?}");
}

/// Starts a call, and stores its reply.
fn store(pair: &mut TestPair, reply: &[u8]) -> CallId {
    let id = pair.start(b"request");
    let ops = pair.client_posts();
    pair.deliver_to_server(ops);
    assert_eq!(pair.arrivals().len(), 1);
    pair.reply(id, reply);
    id
}

#[test]
fn a_torn_reply_is_fetched_again() {
    for (len_bytes, reads) in [(40, 1), (500, 2)] {
        let mut pair = pair();
        let (old, new) = (vec![1; len_bytes], vec![2; len_bytes]);
        // Each slot has an old reply of the same length.
        for _ in 0..SESSION.slots {
            store(&mut pair, &old);
            assert_eq!(replies(&mut pair).len(), 1);
        }
        let id = store(&mut pair, &new);
        for read in 0..reads {
            assert_eq!(pair.finished(), []);
            let [TestOp::Read { key, tag }] = pair.client_posts()[..] else {
                panic!("the client fetches");
            };
            let mut bytes = pair.server.link().bytes_at(&key).unwrap();
            if read == 0 {
                bytes[32..40].fill(1); // Between the new header and the new tail, a piece of the old reply.
            }
            pair.client.on_read(tag, Some(bytes));
        }
        assert_eq!(pair.finished(), [], "{len_bytes} bytes");
        assert_eq!(replies(&mut pair), [(id, new)]);
    }
}

#[test]
fn a_fetch_that_ends_after_its_call_is_ignored() {
    let mut pair = pair();
    let id = pair.start(b"sent meanwhile");
    let ops = pair.client_posts();
    pair.deliver_to_server(ops);
    let_miss(&mut pair);
    pair.pass_to_timer();
    pair.finished();
    let late = pair.client_posts();
    assert!(matches!(late[..], [TestOp::Read { .. }]));
    assert_eq!(pair.serve(), [id]);
    let ops = pair.server_posts();
    pair.deliver_to_client(ops);
    assert_eq!(pair.finished(), [(id, Ok(reversed(b"sent meanwhile")))]);
    pair.deliver_to_server(late.clone());
    assert_eq!(pair.finished(), []);
    for _ in 0..SESSION.slots {
        pair.start(b"next");
    }
    pair.deliver_to_server(late);
    assert_eq!(replies(&mut pair).len(), usize::from(SESSION.slots));
}

#[test]
fn a_reply_beyond_its_place_ends_the_session() {
    let mut pair = pair();
    pair.start(b"?");
    let ops = pair.client_posts();
    pair.deliver_to_server(ops);
    pair.serve();
    pair.finished();
    let [TestOp::Read { key, tag }] = pair.client_posts()[..] else {
        panic!("the client fetches");
    };
    let mut bytes = pair.server.link().bytes_at(&key).unwrap();
    bytes[..4].copy_from_slice(&993_u32.to_le_bytes());
    pair.client.on_read(tag, Some(bytes));
    assert_eq!(pair.finished().len(), 1, "the call fails");
    assert_eq!(pair.client.closed(), Some("the server broke the rules of the way"));
}

#[test]
fn a_reply_that_nobody_asked_for_ends_the_session() {
    let mut pair = pair();
    let id = pair.start(b"slow");
    let ops = pair.client_posts();
    pair.deliver_to_server(ops);
    let_miss(&mut pair);
    assert_eq!(pair.serve(), [id]);
    let mut ops = pair.server_posts();
    if let TestOp::Write { bytes, .. } = &mut ops[0] {
        bytes[8] ^= 1; // The number.
    }
    pair.deliver_to_client(ops);
    assert_eq!(pair.finished().len(), 1, "the call fails");
    assert_eq!(pair.client.closed(), Some("the server broke the rules of the way"));
}

#[test]
fn a_busy_device_delays_requests_and_replies() {
    let mut pair = pair();
    let id = pair.start(b"slow");
    let ops = pair.client_posts();
    pair.deliver_to_server(ops);
    pair.client.link().busy = true;
    assert_eq!(pair.finished(), []);
    pair.client.link().busy = false;
    pair.pass_to_timer();
    let_miss(&mut pair);
    pair.server.link().busy = true;
    assert_eq!(pair.run(), []);
    pair.server.link().busy = false;
    assert_eq!(replies(&mut pair), [(id, reversed(b"slow"))]);
}
