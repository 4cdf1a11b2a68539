//! Messages that the network could not deliver.

mod support;

use cm::CmEvent;
use support::{CLIENT, Pair, SERVER, request, sidr_request};
use wire::mad::Attribute;

#[test]
fn an_undelivered_first_message_ends_the_wait() {
    let mut pair = Pair::default();
    let client = pair.ends[CLIENT].connect(pair.now, &request()).expect("a free id");
    pair.collect();
    let req = pair.inbox[SERVER].pop_front().expect("a REQ");
    pair.ends[CLIENT].undelivered(pair.now, &req);
    assert_eq!(pair.event(CLIENT), (client, CmEvent::Unreachable));
    assert_eq!(pair.take(SERVER), [Attribute::REJ], "in case it arrived after all");
    pair.ends[CLIENT].undelivered(pair.now, &req);
    pair.no_event();

    let client = pair.ends[CLIENT].sidr_request(pair.now, &sidr_request()).expect("a free id");
    pair.collect();
    let asked = pair.inbox[SERVER].pop_front().expect("a SIDR_REQ");
    pair.ends[CLIENT].undelivered(pair.now, &asked);
    assert_eq!(pair.event(CLIENT), (client, CmEvent::SidrUnreachable));
}

#[test]
fn unsent_messages_are_not_believed() {
    let mut pair = Pair::default();
    pair.ends[CLIENT].connect(pair.now, &request()).expect("a free id");
    pair.collect();
    let mut forged = pair.inbox[SERVER].pop_front().expect("a REQ");
    forged[15] ^= 1;
    pair.ends[CLIENT].undelivered(pair.now, &forged);
    pair.ends[CLIENT].undelivered(pair.now, &[0xff; 256]);
    pair.no_event();
}

#[test]
fn later_messages_are_repeated_nevertheless() {
    let mut pair = Pair::default();
    let (_, server) = pair.requested();
    pair.ends[SERVER].accept(pair.now, server, &support::reply()).expect("a request");
    pair.collect();
    let rep = pair.inbox[CLIENT].pop_front().expect("a REP");
    pair.ends[SERVER].undelivered(pair.now, &rep);
    pair.no_event();
    assert!(pair.next_timer(SERVER));
    assert_eq!(pair.take(CLIENT), [Attribute::REP]);
}
