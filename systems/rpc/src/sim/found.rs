//! Bugs that the simulator found, each in a few steps.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use crate::carrier::{Carrier, ImmediateCarrier};
use crate::code::{Code, Executed};
use crate::frame::{FrameHeader, RpcKind};
use crate::session::{ClientSession, NewCall, ServerSession, SessionLimits};
use crate::sim::link::SimLink;
use crate::sim::network::{AreaSizes, EndId, LinkFaults, SimNetwork, SimNotice};

const SLOT_BYTES: u64 = 64;
const NODE: u16 = 7;

fn links(slots: u16) -> (Rc<RefCell<SimNetwork>>, [SimLink; 2]) {
    let mut network = SimNetwork::new(1, false);
    let sizes = AreaSizes { area_bytes: u64::from(slots) * SLOT_BYTES, read_area_bytes: 0 };
    let connection = network.connect([sizes; 2], LinkFaults::none(), false);
    let network = Rc::new(RefCell::new(network));
    let links = [false, true].map(|is_server| SimLink::new(&network, EndId { connection, is_server }));
    (network, links)
}

fn carrier(slots: u16) -> ImmediateCarrier {
    ImmediateCarrier::new(slots, SLOT_BYTES, NODE, true)
}

/// The words that took the place of a reply went beyond the end of its slot.
#[test]
fn words_in_place_of_a_reply_are_cut() {
    let (network, [at_client, at_server]) = links(1);
    let limits = SessionLimits { slots: 1, max_message_bytes: 100 };
    let mut client = ClientSession::new(at_client, Carrier::Immediate(carrier(1)), limits);
    let mut server = ServerSession::new(at_server, Carrier::Immediate(carrier(1)), limits);
    let now = Instant::now();
    let call = client.start(&NewCall { method: 1, flags: 0, deadline: None, body: &[] }, now).expect("a slot is free");
    for end in [EndId { connection: 0, is_server: true }, EndId { connection: 0, is_server: false }] {
        network.borrow_mut().advance(if end.is_server { 1_000_000 } else { 2_000_000 });
        let notice = network.borrow_mut().notice(end);
        let Some(SimNotice::Imm(imm)) = notice else { panic!("no message arrived: {notice:?}") };
        if end.is_server {
            server.on_imm(imm);
            assert_eq!(server.next(now).expect("the request").id, call);
            server.reply(call, (Code::Ok, Executed::Yes), 0, &[0; 101], now);
        } else {
            client.on_imm(imm);
        }
    }
    let status = client.next(now).expect("the call is over").result.err().expect("the reply was too long");
    assert_eq!((status.code(), status.executed()), (Code::ResourceExhausted, Executed::Yes));
    assert_eq!(status.message(), "a reply of 101 bytes is too long");
    assert_eq!(network.borrow().violation, None);
}

/// A client that polls finds replies before it hears of them. The news that came later looked like a flood, and hid the
/// next message.
#[test]
fn immediate_data_may_tell_of_messages_that_were_found_before() {
    let (network, [mut at_client, mut at_server]) = links(2);
    let (mut client, mut server) = (carrier(2), carrier(2));
    for _ in 0..5 {
        client.on_imm(u32::from(NODE));
    }
    assert!(!client.broken, "the same slot again");
    client.on_imm(u32::from(NODE) | 1 << 16);
    server.send(&mut at_server, &FrameHeader::bare(RpcKind::Reply, 1, 1), &[]).expect("nothing is busy");
    network.borrow_mut().advance(1_000_000);
    let header = client.receive(&mut at_client, &mut Vec::new()).expect("slot 1 has a message, slot 0 none");
    assert_eq!(header.slot, 1);
    client.on_imm(u32::from(NODE) | 2 << 16);
    assert!(client.broken, "there is no slot 2");
}
