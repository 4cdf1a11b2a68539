//! Making a connection, and its failures.

mod support;

use std::time::Duration;

use cm::{CmEvent, ConnId, ConnectReply, ConnectRequest, ConnectionType, Error, RejectReceived};
use support::{CLIENT, Pair, SERVER, attribute, message, reply, request, route};
use wire::mad::{Attribute, CmMessage, Rejected, reason};
use wire::{Psn, Qpn};

fn rejected(event: &CmEvent) -> RejectReceived {
    match event {
        CmEvent::Rejected(rejected) => *rejected,
        other => panic!("a rejection, not {other:?}"),
    }
}

#[test]
fn three_messages_make_a_connection() {
    let mut pair = Pair::default();
    let asked = ConnectRequest {
        qp_type: ConnectionType::Uc,
        responder_resources: 3,
        initiator_depth: 4,
        flow_control: true,
        retry_count: 5,
        rnr_retry_count: 6,
        srq: true,
        mtu: 5,
        flow_label: 0xabcde,
        traffic_class: 0x20,
        hop_limit: 9,
        ece: cm::Ece { vendor_id: 0x15b3, options: 0x55 },
        private_data: &[1, 2, 3],
        ..request()
    };
    let client = pair.ends[CLIENT].connect(pair.now, &asked).expect("a free id");
    pair.deliver();
    let (server, CmEvent::Request(request)) = pair.event(SERVER) else { panic!("a request") };
    assert_eq!(request.route, route(SERVER));
    assert_eq!(
        (request.qp_type, request.remote_qpn, request.starting_psn),
        (ConnectionType::Uc, asked.qpn, asked.starting_psn)
    );
    assert_eq!((request.responder_resources, request.initiator_depth), (3, 4));
    assert_eq!((request.flow_control, request.srq, request.mtu), (true, true, 5));
    assert_eq!((request.retry_count, request.rnr_retry_count), (5, 6));
    assert_eq!((request.flow_label, request.traffic_class, request.hop_limit), (0xabcde, 0x20, 9));
    assert_eq!((request.ack_timeout, request.ece), (19, asked.ece));
    assert_eq!((request.remote_gid.ip(), request.local_gid.ip()), (route(CLIENT).local, route(SERVER).local));
    assert_eq!((&request.private_data[..4], request.remote_guid), (&[1, 2, 3, 0][..], 0xaaaa_0000));

    let answer = ConnectReply { responder_resources: 4, initiator_depth: 3, private_data: &[9], ..reply() };
    pair.ends[SERVER].accept(pair.now, server, &answer).expect("a request");
    pair.deliver();
    let (id, CmEvent::Reply(got)) = pair.event(CLIENT) else { panic!("a reply") };
    assert_eq!((id, got.remote_qpn, got.starting_psn), (client, Qpn::new(0x22), Psn::new(0x200)));
    assert_eq!((got.responder_resources, got.initiator_depth, got.ack_timeout), (4, 3, 19));
    assert_eq!((got.private_data[0], got.remote_guid), (9, 0xaaaa_0001));

    pair.ends[CLIENT].confirm(pair.now, client, &[8]).expect("a reply");
    pair.deliver();
    let (id, CmEvent::ReadyToUse { private_data }) = pair.event(SERVER) else { panic!("ready to use") };
    assert_eq!((id, private_data[0]), (server, 8));
    assert_eq!([0, 1].map(|end: usize| pair.ends[end].next_timeout()), [None, None], "nobody waits");
    pair.finish((client, server));
}

#[test]
fn each_lost_message_is_sent_again() {
    let mut pair = Pair::default();
    let client = pair.ends[CLIENT].connect(pair.now, &request()).expect("a free id");
    assert_eq!(pair.take(SERVER), [Attribute::REQ]);
    // 2 · 4.096 µs · 2^18 + 4.096 µs · 2^20.
    pair.pass(Duration::from_micros(6_442_450));
    assert_eq!(pair.take(SERVER), []);
    pair.pass(Duration::from_micros(1));
    pair.deliver();
    let (server, CmEvent::Request(_)) = pair.event(SERVER) else { panic!("a request") };

    pair.ends[SERVER].accept(pair.now, server, &reply()).expect("a request");
    assert_eq!(pair.take(CLIENT), [Attribute::REP]);
    pair.pass(Duration::from_micros(4_294_967));
    assert_eq!(pair.take(CLIENT), []);
    pair.pass(Duration::from_micros(1));
    pair.deliver();
    assert!(matches!(pair.event(CLIENT), (_, CmEvent::Reply(_))));

    pair.ends[CLIENT].confirm(pair.now, client, &[]).expect("a reply");
    assert_eq!(pair.take(SERVER), [Attribute::RTU]);
    assert!(pair.next_timer(SERVER), "the server repeats its REP");
    pair.deliver();
    assert!(matches!(pair.event(SERVER), (_, CmEvent::ReadyToUse { .. })), "which brings the RTU");
    assert_eq!(pair.ends[CLIENT].counters().duplicate, 1);
    pair.finish((client, server));
}

#[test]
fn a_repeated_request_is_one_request() {
    let mut pair = Pair::default();
    let client = pair.ends[CLIENT].connect(pair.now, &request()).expect("a free id");
    pair.collect();
    let req = pair.inbox[SERVER].pop_front().expect("a REQ");
    pair.give(SERVER, &req);
    pair.give(SERVER, &req);
    let (server, _) = pair.event(SERVER);
    assert_eq!(pair.take(CLIENT), [], "undecided: silence");

    pair.ends[SERVER].accept(pair.now, server, &reply()).expect("a request");
    assert_eq!(pair.take(CLIENT), [Attribute::REP]);
    pair.give(SERVER, &req);
    assert_eq!(pair.take(CLIENT), [Attribute::REP], "decided: the answer again");
    pair.no_event();
    assert_eq!(pair.ends[SERVER].counters().duplicate, 2);
    pair.ends[CLIENT].destroy(pair.now, client);
    pair.ends[SERVER].destroy(pair.now, server);
    pair.drain();
}

#[test]
fn a_rejection_is_repeated_as_long_as_the_request_is() {
    let mut pair = Pair::default();
    let (client, server) = pair.requested();
    pair.ends[SERVER].reject(pair.now, server, reason::CONSUMER, &[1, 2], &[3]).expect("a request");
    pair.ends[SERVER].destroy(pair.now, server);
    assert_eq!(pair.take(CLIENT), [Attribute::REJ]);
    assert!(pair.next_timer(CLIENT));
    pair.deliver();
    let (id, event) = pair.event(CLIENT);
    let rejected = rejected(&event);
    assert_eq!((id, rejected.reason, rejected.info_len), (client, reason::CONSUMER, 2));
    assert_eq!((&rejected.info[..3], rejected.private_data[0]), (&[1, 2, 0][..], 3));
    assert_eq!(pair.ends[CLIENT].next_timeout(), None);
    pair.ends[CLIENT].destroy(pair.now, client);
    pair.drain();
}

#[test]
fn the_client_may_reject_the_reply() {
    let mut pair = Pair::default();
    let (client, server) = pair.replied();
    pair.ends[CLIENT].reject(pair.now, client, reason::CONSUMER, &[], &[]).expect("a reply");
    pair.collect();
    let rej = pair.inbox[SERVER].pop_front().expect("a REJ");
    assert!(matches!(message(&rej), CmMessage::Rej(rej) if rej.rejected == Rejected::REP));
    // It is lost; the REP comes again and is rejected again.
    assert!(pair.next_timer(SERVER));
    pair.deliver();
    assert_eq!(rejected(&pair.event(SERVER).1).reason, reason::CONSUMER);
    pair.finish((client, server));
}

#[test]
fn an_unanswered_request_is_given_up() {
    let mut pair = Pair::default();
    let client = pair.ends[CLIENT].connect(pair.now, &ConnectRequest { max_retries: 3, ..request() }).expect("an id");
    for _ in 0..4 {
        assert_eq!(pair.take(SERVER), [Attribute::REQ]);
        pair.no_event();
        assert!(pair.next_timer(CLIENT));
    }
    assert_eq!(pair.take(SERVER), [Attribute::REJ], "we do not wait any longer");
    assert_eq!(pair.event(CLIENT), (client, CmEvent::Unreachable));
    assert_eq!(pair.ends[CLIENT].counters().repeated, 3);
    pair.ends[CLIENT].destroy(pair.now, client);
    assert_eq!(pair.take(SERVER), []);
    pair.drain();
}

#[test]
fn an_unconfirmed_reply_is_given_up() {
    let mut pair = Pair::default();
    let (client, server) = pair.requested();
    pair.ends[SERVER].accept(pair.now, server, &reply()).expect("a request");
    for _ in 0..16 {
        assert_eq!(pair.take(CLIENT), [Attribute::REP]);
        assert!(pair.ends[SERVER].next_timeout().is_some_and(|next| next > pair.now));
        pair.now = pair.ends[SERVER].next_timeout().expect("it waits");
        pair.ends[SERVER].expire(pair.now);
    }
    assert_eq!(pair.event(SERVER), (server, CmEvent::Unreachable));
    // The client hears that, and gives up too.
    pair.deliver();
    assert_eq!(rejected(&pair.event(CLIENT).1).reason, reason::TIMEOUT);
    pair.finish((client, server));
}

#[test]
fn a_delayed_answer_is_waited_for() {
    let mut pair = Pair::default();
    let (client, server) = pair.requested();
    // 4.096 µs · 2^23 = 34 s.
    pair.ends[SERVER].delay(pair.now, server, 23, &[5]).expect("a request");
    pair.deliver();
    let (id, CmEvent::Delayed { service_timeout, private_data }) = pair.event(CLIENT) else { panic!("a delay") };
    assert_eq!((id, service_timeout, private_data[0]), (client, 23, 5));
    pair.pass(Duration::from_secs(34));
    assert_eq!(pair.take(SERVER), [], "no repetition");
    pair.ends[SERVER].accept(pair.now, server, &reply()).expect("a request");
    pair.deliver();
    assert!(matches!(pair.event(CLIENT), (_, CmEvent::Reply(_))));

    pair.ends[CLIENT].delay(pair.now, client, 23, &[]).expect("a reply");
    pair.deliver();
    assert!(matches!(pair.event(SERVER), (_, CmEvent::Delayed { service_timeout: 23, .. })));
    pair.pass(Duration::from_secs(34));
    assert_eq!(pair.take(CLIENT), []);
    pair.ends[CLIENT].confirm(pair.now, client, &[]).expect("a reply");
    pair.deliver();
    assert!(matches!(pair.event(SERVER), (_, CmEvent::ReadyToUse { .. })));
    pair.finish((client, server));
}

#[test]
fn a_delay_may_wait_for_the_repetition() {
    let mut pair = Pair::default();
    let (client, server) = pair.requested();
    pair.ends[SERVER].delay_repeats(pair.now, server, 24, &[]).expect("a request");
    assert_eq!(pair.take(CLIENT), []);
    assert!(pair.next_timer(CLIENT), "the REQ comes again");
    pair.deliver();
    assert!(matches!(pair.event(CLIENT), (_, CmEvent::Delayed { service_timeout: 24, .. })));

    pair.ends[SERVER].accept(pair.now, server, &reply()).expect("a request");
    pair.deliver();
    assert!(matches!(pair.event(CLIENT), (_, CmEvent::Reply(_))));
    pair.ends[CLIENT].delay_repeats(pair.now, client, 24, &[]).expect("a reply");
    assert!(pair.next_timer(SERVER), "the REP comes again");
    pair.deliver();
    assert!(matches!(pair.event(SERVER), (_, CmEvent::Delayed { service_timeout: 24, .. })));
    pair.finish((client, server));
}

#[test]
fn data_may_come_before_the_rtu() {
    let mut pair = Pair::default();
    let (client, server) = pair.replied();
    pair.ends[SERVER].established(pair.now, server).expect("it waits for the RTU");
    pair.ends[SERVER].established(pair.now, server).expect("twice is once");
    assert_eq!(pair.ends[SERVER].next_timeout(), None);
    pair.ends[CLIENT].confirm(pair.now, client, &[]).expect("a reply");
    pair.deliver();
    pair.no_event();
    assert_eq!(pair.ends[SERVER].counters().duplicate, 1);
    pair.finish((client, server));
}

#[test]
fn both_sides_may_request() {
    let mut pair = Pair::default();
    let a = pair.ends[CLIENT].connect(pair.now, &request()).expect("an id");
    let other = ConnectRequest { route: route(SERVER), qpn: Qpn::new(0x22), ..request() };
    let b = pair.ends[SERVER].connect(pair.now, &other).expect("an id");
    pair.deliver();
    // Two connections, not one: each request waits for its own decision.
    let (asked_b, CmEvent::Request(_)) = pair.event(SERVER) else { panic!("a request") };
    let (asked_a, CmEvent::Request(_)) = pair.event(CLIENT) else { panic!("a request") };
    assert!(asked_a != a && asked_b != b);
    pair.ends[CLIENT].reject(pair.now, asked_a, reason::INVALID_SERVICE_ID, &[], &[]).expect("a request");
    pair.ends[SERVER].reject(pair.now, asked_b, reason::INVALID_SERVICE_ID, &[], &[]).expect("a request");
    pair.deliver();
    assert_eq!(rejected(&pair.event(CLIENT).1).reason, reason::INVALID_SERVICE_ID);
    assert_eq!(rejected(&pair.event(SERVER).1).reason, reason::INVALID_SERVICE_ID);
    for (end, id) in [(CLIENT, a), (CLIENT, asked_a), (SERVER, b), (SERVER, asked_b)] {
        pair.ends[end].destroy(pair.now, id);
    }
    pair.drain();
}

#[test]
fn a_queue_pair_has_one_connection() {
    let mut pair = Pair::default();
    let (client, server) = pair.connected();
    // The client's host forgets it, as after a crash, and connects with the same queue pair.
    let fresh = cm::Manager::new(cm::Config::new(1, 0xaaaa_0000, 99));
    pair.ends[CLIENT] = fresh;
    let again = pair.ends[CLIENT].connect(pair.now, &request()).expect("an id");
    assert_ne!(again, client);
    pair.deliver();
    assert_eq!(rejected(&pair.event(CLIENT).1).reason, reason::STALE_CONNECTION);
    let (id, event) = pair.event(SERVER);
    assert_eq!(id, server, "the older connection ends");
    assert!(matches!(event, CmEvent::Disconnected { private_data: Some(_) }), "{event:?}");
    assert_eq!(pair.ends[SERVER].counters().stale, 1);
    pair.ends[SERVER].destroy(pair.now, server);
    pair.ends[CLIENT].destroy(pair.now, again);
    pair.drain();

    let ids = pair.connected();
    pair.finish(ids);
}

#[test]
fn a_reply_from_a_connected_queue_pair_is_refused() {
    let mut pair = Pair::default();
    let (client, server) = pair.connected();
    let second = ConnectRequest { qpn: Qpn::new(0x12), ..request() };
    let second = pair.ends[CLIENT].connect(pair.now, &second).expect("an id");
    pair.deliver();
    let (second_server, _) = pair.event(SERVER);
    pair.ends[SERVER].accept(pair.now, second_server, &reply()).expect("a request");
    pair.deliver();
    pair.collect();
    let events: Vec<_> = pair.events[CLIENT].drain(..).collect();
    assert!(matches!(events[0], (id, CmEvent::Rejected(r)) if id == second && r.reason == reason::STALE_CONNECTION));
    let events: Vec<_> = pair.events[SERVER].drain(..).collect();
    assert!(events.iter().any(|(id, e)| *id == second_server && matches!(e, CmEvent::Rejected(_))), "{events:?}");
    assert!(events.iter().any(|(id, e)| *id == server && matches!(e, CmEvent::DisconnectRequest { .. })), "{events:?}");
    for (end, id) in [(CLIENT, client), (CLIENT, second), (SERVER, server), (SERVER, second_server)] {
        pair.ends[end].destroy(pair.now, id);
    }
    pair.drain();
}

#[test]
fn a_rejection_that_meets_the_rtu_ends_the_connection() {
    let mut pair = Pair::default();
    let (client, server) = pair.replied();
    pair.ends[CLIENT].confirm(pair.now, client, &[]).expect("a reply");
    pair.ends[SERVER].reject(pair.now, server, reason::CONSUMER, &[], &[]).expect("not confirmed yet");
    pair.deliver();
    assert_eq!(rejected(&pair.event(CLIENT).1).reason, reason::CONSUMER);
    pair.events[SERVER].clear();
    pair.drain_time();
    assert_eq!(pair.event(CLIENT), (client, CmEvent::TimewaitExit));
    assert_eq!(pair.event(SERVER), (server, CmEvent::TimewaitExit));
    pair.finish((client, server));
}

#[test]
fn the_rejection_of_a_withdrawn_reply_is_repeated() {
    let mut pair = Pair::default();
    let (client, server) = pair.replied();
    pair.ends[CLIENT].confirm(pair.now, client, &[]).expect("a reply");
    pair.ends[SERVER].destroy(pair.now, server);
    // REJ and RTU are both lost: the client takes the connection for established.
    pair.collect();
    pair.inbox = Default::default();
    assert!(pair.next_timer(SERVER));
    pair.deliver();
    assert_eq!(rejected(&pair.event(CLIENT).1).reason, reason::CONSUMER);
    pair.ends[CLIENT].destroy(pair.now, client);
    pair.drain();
}

#[test]
fn an_rtu_without_a_connection_is_refused() {
    let mut pair = Pair::default();
    let (client, _) = pair.replied();
    pair.ends[SERVER] = cm::Manager::new(cm::Config::new(2, 0xaaaa_0001, 55));
    pair.ends[CLIENT].confirm(pair.now, client, &[]).expect("a reply");
    pair.deliver();
    assert_eq!(rejected(&pair.event(CLIENT).1).reason, reason::INVALID_COMM_ID);
    pair.ends[CLIENT].destroy(pair.now, client);
    pair.drain();
}

#[test]
fn calls_in_the_wrong_state_change_nothing() {
    let mut pair = Pair::default();
    let now = pair.now;
    let wrong = Err(Error::InvalidState);
    let (client, server) = pair.requested();
    let end = &mut pair.ends[CLIENT];
    assert_eq!(end.accept(now, client, &reply()), wrong);
    assert_eq!(end.confirm(now, client, &[]), wrong);
    assert_eq!(end.established(now, client), wrong);
    assert_eq!(end.delay(now, client, 20, &[]), wrong);
    assert_eq!(end.reject(now, client, 28, &[], &[]), wrong);
    assert_eq!(end.disconnect(now, client, &[]), wrong);
    assert_eq!(end.sidr_reply(now, client, &support::sidr_reply()), wrong);
    assert_eq!(end.accept(now, ConnId(client.0 ^ 1), &reply()), Err(Error::UnknownId));
    let end = &mut pair.ends[SERVER];
    assert_eq!(end.confirm(now, server, &[]), wrong);
    assert_eq!(end.disconnect(now, server, &[]), wrong);
    assert_eq!(end.established(now, server), wrong);
    pair.finish((client, server));
    assert_eq!(pair.ends[CLIENT].confirm(now, client, &[]), Err(Error::UnknownId));
}

#[test]
fn too_long_private_data_is_an_error() {
    let mut pair = Pair::default();
    let now = pair.now;
    let long = [1; 256];
    let too_long = |limit: usize| Err(Error::PrivateDataTooLong { len: limit + 1, limit });
    let asked = ConnectRequest { private_data: &long[..93], ..request() };
    assert_eq!(pair.ends[CLIENT].connect(now, &asked).map(|_| ()), too_long(92));
    assert_eq!(pair.ends[CLIENT].ids_in_use(), 0);
    let (client, server) = pair.requested();
    let end = &mut pair.ends[SERVER];
    assert_eq!(end.delay(now, server, 20, &long[..223]), too_long(222));
    assert_eq!(end.reject(now, server, 28, &[], &long[..149]), too_long(148));
    assert_eq!(end.reject(now, server, 28, &long[..73], &[]), Err(Error::InfoTooLong { len: 73, limit: 72 }));
    let answer = ConnectReply { private_data: &long[..197], ..reply() };
    assert_eq!(end.accept(now, server, &answer), too_long(196));
    let answer = ConnectReply { private_data: &long[..196], ..reply() };
    assert_eq!(end.accept(now, server, &answer), Ok(()));
    pair.deliver();
    assert!(matches!(pair.event(CLIENT), (_, CmEvent::Reply(r)) if r.private_data == [1; 196]));
    assert_eq!(pair.ends[CLIENT].confirm(now, client, &long[..225]), too_long(224));
    assert_eq!(pair.ends[CLIENT].confirm(now, client, &long[..224]), Ok(()));
    pair.deliver();
    pair.event(SERVER);
    assert_eq!(pair.ends[SERVER].disconnect(now, server, &long[..221]), too_long(220));
    assert_eq!(pair.ends[SERVER].disconnect(now, server, &long[..220]), Ok(()));
    pair.deliver();
    pair.event(CLIENT);
    assert_eq!(pair.ends[CLIENT].disconnect(now, client, &long[..225]), too_long(224));
    pair.finish((client, server));
}

#[test]
fn half_open_connections_are_limited() {
    let mut pair = Pair::default();
    let config = cm::Config { half_open_limit: 3, ..cm::Config::new(2, 0xaaaa_0001, 1) };
    pair.ends[SERVER] = cm::Manager::new(config);
    let clients: Vec<ConnId> = (0..10)
        .map(|n| pair.ends[CLIENT].connect(pair.now, &ConnectRequest { qpn: Qpn::new(n + 2), ..request() }))
        .map(|id| id.expect("an id"))
        .collect();
    pair.deliver();
    assert_eq!((pair.events[SERVER].len(), pair.ends[SERVER].ids_in_use()), (3, 3));
    assert_eq!(pair.ends[SERVER].counters().overflow, 7);
    // Rejected ones make room; they are remembered, but no more than three of them.
    for _ in 0..4 {
        while let Some((id, _)) = pair.events[SERVER].pop_front() {
            pair.ends[SERVER].reject(pair.now, id, reason::NO_RESOURCES, &[], &[]).expect("a request");
            pair.ends[SERVER].destroy(pair.now, id);
        }
        assert!(pair.ends[SERVER].ids_in_use() <= 3);
        pair.deliver();
        pair.next_timer(CLIENT);
        pair.deliver();
    }
    let rejected = pair.events[CLIENT].iter().filter(|(_, event)| matches!(event, CmEvent::Rejected(_))).count();
    assert_eq!(rejected, 10, "all were heard in the end");
    clients.into_iter().for_each(|id| pair.ends[CLIENT].destroy(pair.now, id));
    pair.drain();
}

#[test]
fn ids_carry_the_number_and_differ() {
    let mut pair = Pair::default();
    let a = pair.ends[CLIENT].connect(pair.now, &request()).expect("an id");
    pair.ends[CLIENT].set_number(77);
    let b = pair.ends[CLIENT].connect(pair.now, &request()).expect("an id");
    assert_eq!((a.number(), b.number()), (1, 77));
    pair.collect();
    let transactions: Vec<u64> =
        pair.inbox[SERVER].iter().map(|mad| wire::mad::decode(mad).expect("a REQ").0.transaction_id).collect();
    assert_ne!(transactions[0], transactions[1]);
    assert!(pair.inbox[SERVER].iter().all(|mad| attribute(mad) == Attribute::REQ));
}
