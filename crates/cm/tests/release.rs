//! The end of a connection in every state, by either side or both.

mod support;

use std::time::Duration;

use cm::{CmEvent, Manager};
use support::{CLIENT, Pair, SERVER, attribute, message, reply, request, route};
use wire::Qpn;
use wire::mad::{Attribute, CmMessage, Drep, Rejected, reason};

#[test]
fn one_side_disconnects_and_the_other_agrees() {
    for first in [CLIENT, SERVER] {
        let mut pair = Pair::default();
        let (client, server) = pair.connected();
        let ids = [client, server];
        pair.ends[first].disconnect(pair.now, ids[first], &[4]).expect("established");
        pair.ends[first].disconnect(pair.now, ids[first], &[4]).expect("once is enough");
        pair.deliver();
        let (id, CmEvent::DisconnectRequest { private_data }) = pair.event(1 - first) else { panic!("a DREQ") };
        assert_eq!((id, private_data[0]), (ids[1 - first], 4));
        pair.ends[1 - first].disconnect(pair.now, ids[1 - first], &[6]).expect("asked to");
        pair.deliver();
        let (_, CmEvent::Disconnected { private_data: Some(data) }) = pair.event(first) else { panic!("a DREP") };
        assert_eq!(data[0], 6);
        // 4.096 µs · 2^19.
        pair.pass(Duration::from_micros(2_147_483));
        pair.no_event();
        pair.pass(Duration::from_micros(1));
        assert_eq!(pair.event(CLIENT), (client, CmEvent::TimewaitExit));
        assert_eq!(pair.event(SERVER), (server, CmEvent::TimewaitExit));
        pair.finish((client, server));
    }
}

#[test]
fn both_sides_disconnect_together() {
    let mut pair = Pair::default();
    let (client, server) = pair.connected();
    pair.ends[CLIENT].disconnect(pair.now, client, &[]).expect("established");
    pair.ends[SERVER].disconnect(pair.now, server, &[]).expect("established");
    pair.deliver();
    assert_eq!(pair.event(CLIENT), (client, CmEvent::Disconnected { private_data: None }));
    assert_eq!(pair.event(SERVER), (server, CmEvent::Disconnected { private_data: None }));
    pair.finish((client, server));
}

#[test]
fn a_lost_dreq_or_drep_is_sent_again() {
    let mut pair = Pair::default();
    let (client, server) = pair.connected();
    pair.ends[CLIENT].disconnect(pair.now, client, &[]).expect("established");
    assert_eq!(pair.take(SERVER), [Attribute::DREQ]);
    assert!(pair.next_timer(CLIENT));
    pair.deliver();
    assert!(matches!(pair.event(SERVER), (_, CmEvent::DisconnectRequest { .. })));
    assert!(pair.next_timer(CLIENT), "undecided: asked again");
    pair.deliver();
    pair.no_event();
    pair.ends[SERVER].disconnect(pair.now, server, &[]).expect("asked to");
    assert_eq!(pair.take(CLIENT), [Attribute::DREP]);
    let now = pair.now;
    pair.ends[CLIENT].expire(now + Duration::from_secs(7));
    pair.deliver();
    assert!(matches!(pair.event(CLIENT), (_, CmEvent::Disconnected { private_data: Some(_) })));
    assert_eq!(pair.ends[SERVER].counters().duplicate, 2);
    pair.finish((client, server));
}

#[test]
fn an_unanswered_dreq_is_given_up() {
    let mut pair = Pair::default();
    let (client, server) = pair.connected();
    pair.ends[CLIENT].disconnect(pair.now, client, &[]).expect("established");
    for _ in 0..16 {
        assert_eq!(pair.take(SERVER), [Attribute::DREQ]);
        pair.no_event();
        pair.now = pair.ends[CLIENT].next_timeout().expect("it waits");
        pair.ends[CLIENT].expire(pair.now);
    }
    assert_eq!(pair.event(CLIENT), (client, CmEvent::Disconnected { private_data: None }));
    // The other end asks much later, and finds nothing.
    pair.pass(Duration::from_secs(100));
    pair.events[CLIENT].clear();
    pair.ends[CLIENT].destroy(pair.now, client);
    pair.ends[SERVER].disconnect(pair.now, server, &[]).expect("established");
    pair.deliver();
    assert!(matches!(pair.event(SERVER), (_, CmEvent::Disconnected { private_data: Some(_) })));
    pair.ends[SERVER].destroy(pair.now, server);
    pair.drain();
}

#[test]
fn a_dreq_may_overtake_or_replace_the_rtu() {
    let mut pair = Pair::default();
    let (client, server) = pair.replied();
    pair.ends[CLIENT].confirm(pair.now, client, &[]).expect("a reply");
    pair.collect();
    let rtu = pair.inbox[SERVER].pop_front().expect("an RTU");
    pair.ends[CLIENT].disconnect(pair.now, client, &[]).expect("established");
    pair.deliver();
    assert!(matches!(pair.event(SERVER), (_, CmEvent::DisconnectRequest { .. })));
    pair.give(SERVER, &rtu);
    pair.no_event();
    pair.ends[SERVER].disconnect(pair.now, server, &[]).expect("asked to");
    pair.deliver();
    assert!(matches!(pair.event(CLIENT), (_, CmEvent::Disconnected { .. })));
    pair.finish((client, server));
}

#[test]
fn a_dreq_before_the_client_has_confirmed() {
    let mut pair = Pair::default();
    let (client, server) = pair.replied();
    pair.ends[SERVER].established(pair.now, server).expect("data came");
    pair.ends[SERVER].disconnect(pair.now, server, &[]).expect("established");
    pair.deliver();
    assert!(matches!(pair.event(CLIENT), (_, CmEvent::DisconnectRequest { .. })));
    assert!(pair.ends[CLIENT].confirm(pair.now, client, &[]).is_err());
    pair.ends[CLIENT].disconnect(pair.now, client, &[]).expect("asked to");
    pair.deliver();
    assert!(matches!(pair.event(SERVER), (_, CmEvent::Disconnected { private_data: Some(_) })));
    pair.finish((client, server));
}

#[test]
fn a_dreq_is_answered_in_every_other_state() {
    let dreq = |local: u32, remote: u32, qpn: Qpn| {
        let dreq = wire::mad::Dreq { local_id: local, remote_id: remote, remote_qpn: qpn, private_data: [0; 220] };
        wire::mad::encode(&wire::mad::MadHeader::default(), &CmMessage::Dreq(dreq))
    };
    let mut pair = Pair::default();
    // Unknown.
    pair.give(SERVER, &dreq(5, 6, Qpn::new(1)));
    assert_eq!(pair.take(CLIENT), [Attribute::DREP]);
    // A request that is undecided: not the peer's to release, but it may forget it.
    let (client, server) = pair.requested();
    pair.give(SERVER, &dreq(client.0, server.0, Qpn::new(0)));
    assert_eq!(pair.take(CLIENT), [Attribute::DREP]);
    pair.give(CLIENT, &dreq(server.0, client.0, Qpn::new(0x11)));
    assert_eq!(pair.take(SERVER), [Attribute::DREP]);
    pair.no_event();
    pair.finish((client, server));
    // Another queue pair's, another peer's: silence.
    let (client, server) = pair.connected();
    pair.give(SERVER, &dreq(client.0, server.0, Qpn::new(0x23)));
    pair.give(SERVER, &dreq(client.0 ^ 1, server.0, Qpn::new(0x22)));
    let mut elsewhere = route(SERVER);
    elsewhere.remote = [10, 9, 9, 9].into();
    pair.ends[SERVER].receive(pair.now, &elsewhere, &dreq(client.0, server.0, Qpn::new(0x22)));
    assert_eq!(pair.take(CLIENT), []);
    pair.no_event();
    assert_eq!(pair.ends[SERVER].counters().foreign, 3);
    pair.finish((client, server));
}

#[test]
fn time_wait_keeps_the_id_but_not_the_peers_queue_pair() {
    let mut pair = Pair::default();
    let (client, server) = pair.connected();
    pair.ends[CLIENT].destroy(pair.now, client);
    pair.deliver();
    pair.event(SERVER);
    pair.ends[SERVER].destroy(pair.now, server);
    pair.deliver();
    assert_eq!([0, 1].map(|end: usize| pair.ends[end].ids_in_use()), [1, 1]);
    let again = pair.connected();
    assert!(again.0 != client && again.1 != server);
    pair.finish(again);
}

/// The message that an end sends when its owner destroys the id. It equals the closing message.
fn leaves(mut pair: Pair, end: usize, id: cm::ConnId) -> Option<CmMessage> {
    let closing_mad = pair.ends[end].closing_mad(id);
    let other = |end: usize| 1 - end;
    pair.inbox[other(end)].clear();
    pair.ends[end].destroy(pair.now, id);
    assert_eq!(pair.ends[end].closing_mad(id).is_some(), closing_mad.is_some_and(|f| f.until_answered));
    pair.collect();
    pair.events[end].clear();
    let sent = pair.inbox[other(end)].pop_front();
    assert!(pair.inbox[other(end)].is_empty(), "one message");
    assert_eq!(sent, closing_mad.map(|closing_mad| closing_mad.mad));
    assert_eq!(
        closing_mad.is_some_and(|f| f.until_answered),
        sent.is_some_and(|mad| attribute(&mad) == Attribute::DREQ)
    );
    assert!(closing_mad.is_none_or(|closing_mad| closing_mad.route == route(end)));
    pair.drain_time();
    assert_eq!(pair.ends[end].ids_in_use(), 0);
    assert!(pair.events[end].is_empty(), "no event of an id that is gone");
    sent.map(|mad| message(&mad))
}

#[test]
fn destroying_an_id_ends_the_wait_of_the_peer() {
    let is_rej = |message: Option<CmMessage>, expected: u16, about: Rejected| {
        assert!(
            matches!(message, Some(CmMessage::Rej(rej)) if rej.reason == expected && rej.rejected == about),
            "{message:?}"
        );
    };
    let mut pair = Pair::default();
    let client = pair.ends[CLIENT].connect(pair.now, &request()).expect("an id");
    pair.collect();
    is_rej(leaves(pair, CLIENT, client), reason::TIMEOUT, Rejected::OTHER);

    let mut pair = Pair::default();
    let (_, server) = pair.requested();
    is_rej(leaves(pair, SERVER, server), reason::CONSUMER, Rejected::REQ);

    let mut pair = Pair::default();
    let (client, _) = pair.replied();
    is_rej(leaves(pair, CLIENT, client), reason::CONSUMER, Rejected::REP);

    let mut pair = Pair::default();
    let (_, server) = pair.requested();
    pair.ends[SERVER].accept(pair.now, server, &reply()).expect("a request");
    pair.collect();
    is_rej(leaves(pair, SERVER, server), reason::CONSUMER, Rejected::OTHER);

    for end in [CLIENT, SERVER] {
        let mut pair = Pair::default();
        let (client, server) = pair.connected();
        assert!(matches!(leaves(pair, end, [client, server][end]), Some(CmMessage::Dreq(_))));
    }

    let mut pair = Pair::default();
    let (client, server) = pair.connected();
    pair.ends[CLIENT].disconnect(pair.now, client, &[]).expect("established");
    pair.deliver();
    pair.event(SERVER);
    assert!(matches!(leaves(pair, SERVER, server), Some(CmMessage::Drep(_))));
}

#[test]
fn a_destroyed_request_ends_at_the_server() {
    // The client does not know the server's id: the server finds the request by the client's GUID and id.
    for accepted in [false, true] {
        let mut pair = Pair::default();
        let (client, server) = pair.requested();
        if accepted {
            pair.ends[SERVER].accept(pair.now, server, &reply()).expect("a request");
            assert_eq!(pair.take(CLIENT), [Attribute::REP]);
        }
        pair.ends[CLIENT].destroy(pair.now, client);
        pair.deliver();
        let (id, CmEvent::Rejected(rejected)) = pair.event(SERVER) else { panic!("a rejection") };
        assert_eq!((id, rejected.reason, rejected.info_len), (server, reason::TIMEOUT, 8));
        pair.ends[SERVER].destroy(pair.now, server);
        pair.drain();
    }
}

#[test]
fn messages_without_a_connection_are_refused() {
    let mut pair = Pair::default();
    let (client, server) = pair.requested();
    pair.ends[CLIENT] = Manager::new(cm::Config::new(1, 0xaaaa_0000, 1234));
    pair.ends[SERVER].accept(pair.now, server, &reply()).expect("a request");
    pair.deliver();
    let (_, CmEvent::Rejected(rejected)) = pair.event(SERVER) else { panic!("a rejection") };
    assert_eq!(rejected.reason, reason::INVALID_COMM_ID);
    assert!(pair.ends[CLIENT].closing_mad(client).is_none());
    pair.ends[SERVER].destroy(pair.now, server);
    pair.drain();
}

#[test]
fn refusals_without_any_state() {
    let mut pair = Pair::default();
    let client = pair.ends[CLIENT].connect(pair.now, &request()).expect("an id");
    pair.collect();
    let req = pair.inbox[SERVER].pop_front().expect("a REQ");
    let rej = cm::refuse(&req).expect("a REQ is refused");
    assert_eq!(cm::refuse(&rej), None, "a refusal is not");
    pair.give(CLIENT, &rej);
    let (id, CmEvent::Rejected(rejected)) = pair.event(CLIENT) else { panic!("a rejection") };
    assert_eq!((id, rejected.reason), (client, reason::INVALID_SERVICE_ID));
    assert_eq!(wire::mad::decode(&rej).map(|m| m.0), wire::mad::decode(&req).map(|m| m.0));
}

#[test]
fn an_alternate_path_is_not_loaded() {
    let mut pair = Pair::default();
    let (client, server) = pair.connected();
    let lap = wire::mad::Lap {
        local_id: client.0,
        remote_id: server.0,
        remote_qpn: Qpn::new(0x22),
        remote_response_timeout: 20,
        local_lid: 0xffff,
        remote_lid: 0xffff,
        local_gid: route(CLIENT).local.into(),
        remote_gid: route(CLIENT).remote.into(),
        flow_label: 0,
        traffic_class: 0,
        hop_limit: 64,
        packet_rate: 0,
        service_level: 0,
        subnet_local: false,
        local_ack_timeout: 19,
        private_data: [0; 168],
    };
    let mad = |lap| wire::mad::encode(&wire::mad::MadHeader::default(), &CmMessage::Lap(lap));
    for (remote_id, status) in [(server.0, 2), (server.0 ^ 1, 1)] {
        pair.give(SERVER, &mad(wire::mad::Lap { remote_id, ..lap }));
        let answer = pair.inbox[CLIENT].pop_front().expect("an APR");
        assert!(matches!(message(&answer), CmMessage::Apr(apr) if apr.status == status && apr.remote_id == client.0));
        pair.give(CLIENT, &answer);
    }
    pair.no_event();
    pair.finish((client, server));
}

#[test]
fn an_unexpected_drep_is_counted() {
    let mut pair = Pair::default();
    let (client, server) = pair.connected();
    let drep = Drep { local_id: client.0, remote_id: server.0, private_data: [0; 224] };
    let mad = wire::mad::encode(&wire::mad::MadHeader::default(), &CmMessage::Drep(drep));
    pair.give(SERVER, &mad);
    pair.no_event();
    assert_eq!(pair.ends[SERVER].counters().unexpected, 1);
    pair.finish((client, server));
}
