//! Datagrams: the queue pair of a service id.

mod support;

use cm::{CmEvent, Error, SidrReply, SidrRequest};
use support::{CLIENT, Pair, SERVER, SERVICE, route, sidr_reply, sidr_request};
use wire::mad::{Attribute, sidr_status};
use wire::{QKey, Qpn};

fn asked(pair: &mut Pair) -> (cm::ConnId, cm::ConnId) {
    let asked = SidrRequest { private_data: &[1, 2], ..sidr_request() };
    let client = pair.ends[CLIENT].sidr_request(pair.now, &asked).expect("an id");
    pair.deliver();
    let (server, CmEvent::SidrRequest(request)) = pair.event(SERVER) else { panic!("a request") };
    assert_eq!((request.service_id, request.route, request.private_data[1]), (SERVICE, route(SERVER), 2));
    (client, server)
}

#[test]
fn asked_and_answered() {
    let mut pair = Pair::default();
    let (client, server) = asked(&mut pair);
    pair.ends[SERVER].sidr_reply(pair.now, server, &sidr_reply()).expect("a request");
    pair.deliver();
    let (id, CmEvent::SidrReply(reply)) = pair.event(CLIENT) else { panic!("a reply") };
    assert_eq!((id, reply.status, reply.qpn, reply.qkey), (client, sidr_status::VALID, Qpn::new(0x33), QKey(0x1234)));
    assert_eq!(reply.private_data[0], 7);
    assert_eq!(pair.ends[SERVER].sidr_reply(pair.now, server, &sidr_reply()), Err(Error::InvalidState));
    pair.finish((client, server));
}

#[test]
fn a_lost_answer_is_repeated_and_the_request_is_one() {
    let mut pair = Pair::default();
    let (client, server) = asked(&mut pair);
    assert!(pair.next_timer(CLIENT));
    pair.deliver();
    pair.no_event();
    pair.ends[SERVER].sidr_reply(pair.now, server, &sidr_reply()).expect("a request");
    pair.ends[SERVER].destroy(pair.now, server);
    assert_eq!(pair.take(CLIENT), [Attribute::SIDR_REP]);
    pair.now = pair.ends[CLIENT].next_timeout().expect("it waits");
    pair.ends[CLIENT].expire(pair.now);
    pair.deliver();
    assert!(matches!(pair.event(CLIENT), (id, CmEvent::SidrReply(_)) if id == client));
    assert_eq!(pair.ends[SERVER].counters().duplicate, 2);
    pair.ends[CLIENT].destroy(pair.now, client);
    pair.drain();
}

#[test]
fn an_unanswered_request_is_given_up() {
    let mut pair = Pair::default();
    let asked = SidrRequest { max_retries: 2, ..sidr_request() };
    let client = pair.ends[CLIENT].sidr_request(pair.now, &asked).expect("an id");
    for _ in 0..3 {
        assert_eq!(pair.take(SERVER), [Attribute::SIDR_REQ]);
        pair.no_event();
        assert!(pair.next_timer(CLIENT));
    }
    assert_eq!(pair.event(CLIENT), (client, CmEvent::SidrUnreachable));
    pair.ends[CLIENT].destroy(pair.now, client);
    pair.drain();
}

#[test]
fn refusals() {
    // By a listener that refuses, and without a listener.
    let mut pair = Pair::default();
    let (client, server) = asked(&mut pair);
    assert!(pair.ends[SERVER].closing_mad(server).is_some());
    pair.ends[SERVER].destroy(pair.now, server);
    pair.deliver();
    assert!(matches!(pair.event(CLIENT), (_, CmEvent::SidrReply(reply)) if reply.status == sidr_status::REJECTED));
    pair.ends[CLIENT].destroy(pair.now, client);
    pair.drain();

    let client = pair.ends[CLIENT].sidr_request(pair.now, &sidr_request()).expect("an id");
    pair.collect();
    let req = pair.inbox[SERVER].pop_front().expect("a SIDR_REQ");
    pair.give(CLIENT, &cm::refuse(&req).expect("an answer"));
    assert!(matches!(pair.event(CLIENT), (_, CmEvent::SidrReply(reply)) if reply.status == sidr_status::UNSUPPORTED));
    pair.ends[CLIENT].destroy(pair.now, client);
    pair.drain();
}

#[test]
fn too_long_data_is_an_error() {
    let mut pair = Pair::default();
    let long = [0; 256];
    let request = SidrRequest { private_data: &long[..217], ..sidr_request() };
    let too_long = |limit: usize| Error::PrivateDataTooLong { len: limit + 1, limit };
    assert_eq!(pair.ends[CLIENT].sidr_request(pair.now, &request), Err(too_long(216)));
    let (client, server) = asked(&mut pair);
    let reply = SidrReply { private_data: &long[..137], ..sidr_reply() };
    assert_eq!(pair.ends[SERVER].sidr_reply(pair.now, server, &reply), Err(too_long(136)));
    let reply = SidrReply { info: &long[..73], ..sidr_reply() };
    let error = Error::InfoTooLong { len: 73, limit: 72 };
    assert_eq!(pair.ends[SERVER].sidr_reply(pair.now, server, &reply), Err(error));
    pair.finish((client, server));
}
