//! The network keeps the promises of RDMA, and no others.

use std::cell::RefCell;
use std::rc::Rc;

use super::{AreaSizes, EndId, LinkFaults, SimNetwork, SimNotice};
use crate::link::{PeerArea as _, SessionLink as _};
use crate::sim::link::SimLink;

const CLIENT: EndId = EndId { connection: 0, is_server: false };
const SERVER: EndId = EndId { connection: 0, is_server: true };

fn connected(faults: LinkFaults) -> (Rc<RefCell<SimNetwork>>, SimLink, SimLink) {
    let mut network = SimNetwork::new(1, false);
    network.connect([AreaSizes { area_bytes: 256, read_area_bytes: 64 }; 2], faults, false);
    let network = Rc::new(RefCell::new(network));
    let (client, server) = (SimLink::new(&network, CLIENT), SimLink::new(&network, SERVER));
    (network, client, server)
}

#[test]
fn requests_of_a_connection_arrive_in_order() {
    let (network, mut client, server) = connected(LinkFaults { latency_ns: (1_000, 50_000), ..LinkFaults::none() });
    for number in 1..=20_u32 {
        client.write_with_imm(0, &[&u64::from(number).to_le_bytes()], number).expect("nothing is busy");
    }
    for number in 1..=20 {
        let notice = loop {
            if let Some(notice) = network.borrow_mut().notice(SERVER) {
                break notice;
            }
            let next = network.borrow().next_ns().expect("something is on its way");
            network.borrow_mut().advance(next);
        };
        assert!(matches!(notice, SimNotice::Imm(imm) if imm == number), "{notice}, not {number}");
        assert!(server.area().load(0) >= u64::from(number), "who hears of a WRITE finds it");
    }
}

#[test]
fn exposed_memory_can_be_read_until_it_is_dropped() {
    let (network, mut client, mut server) = connected(LinkFaults::none());
    let (exposed, key) = client.expose(&[b"abc", b"def"]).expect("memory");
    server.read(&key, 7).expect("nothing is busy");
    network.borrow_mut().advance(1_000_000);
    let notice = network.borrow_mut().notice(SERVER).expect("the READ is over");
    assert!(matches!(&notice, SimNotice::ReadDone(7, Some(bytes)) if bytes == b"abcdef"), "{notice}");
    assert_eq!(network.borrow().violation, None);
    drop(exposed);
    server.read(&key, 8).expect("nothing is busy");
    network.borrow_mut().advance(2_000_000);
    assert!(network.borrow().violation.is_some(), "an honest end never does that");
    assert!(matches!(network.borrow_mut().notice(SERVER), Some(SimNotice::Down)));
}

#[test]
fn an_area_for_reads_is_read_word_by_word() {
    let (network, mut client, server) = connected(LinkFaults { latency_ns: (1_000, 9_000), ..LinkFaults::none() });
    let area = server.read_area().expect("an area");
    let key = client.peer_read_key(0, 64).expect("a key");
    assert!(client.peer_read_key(8, 64).is_none());
    let mut mixtures = 0;
    for _ in 0..200 {
        (0..8).for_each(|word| area.store(8 * word, 0));
        client.read(&key, 1).expect("nothing is busy");
        let mut told = None;
        for step in 0.. {
            (0..8).for_each(|word| area.store(8 * word, u64::MAX - step));
            let now = network.borrow().now_ns();
            network.borrow_mut().advance(now + 5);
            told = network.borrow_mut().notice(CLIENT);
            if told.is_some() {
                break;
            }
        }
        let Some(SimNotice::ReadDone(1, Some(bytes))) = told else { panic!("no READ") };
        mixtures += usize::from(bytes.chunks(8).any(|word| word != &bytes[..8]));
    }
    assert!(mixtures > 10, "{mixtures}");
}

#[test]
fn an_unreliable_connection_loses_writes_whole_or_their_ends() {
    let faults = LinkFaults { loss: 0.5, unreliable_writes: true, ..LinkFaults::none() };
    let (network, mut client, server) = connected(faults);
    let (mut whole, mut partial, mut none) = (0, 0, 0);
    for _ in 0..200 {
        (0..8).for_each(|word| server.area().store(8 * word, 0));
        client.write(0, &[&[0xff; 64]]).expect("nothing is busy");
        let now = network.borrow().now_ns();
        network.borrow_mut().advance(now + 100_000);
        match server.area().peek(0, 64).iter().filter(|byte| **byte != 0).count() {
            0 => none += 1,
            64 => whole += 1,
            _ => partial += 1,
        }
    }
    assert!(whole > 20 && partial > 20 && none > 20, "{whole} whole, {partial} partial, {none} lost");
}
