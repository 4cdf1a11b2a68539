//! Messages of a hostile peer and calls of the owner, against one connection manager.
#![no_main]

use std::time::Duration;

use arbitrary::Arbitrary;
use cm::{CmEvent, Config, ConnId, ConnectReply, ConnectRequest, MadRoute, Manager, ManagerOutput, SidrRequest};
use libfuzzer_sys::fuzz_target;
use wire::{Psn, Qpn};

#[derive(Arbitrary, Debug)]
enum Move {
    /// A MAD; its receiver's id is replaced by one that exists.
    Mad {
        attribute: u8,
        id: u8,
        bytes: [u8; 64],
    },
    Connect,
    Ask,
    Accept(u8),
    Confirm(u8),
    Established(u8),
    Delay(u8, u8),
    Reject(u8),
    Disconnect(u8),
    Destroy(u8),
    Pass(u16),
}

fuzz_target!(|moves: Vec<Move>| {
    let route = MadRoute { local: [10, 0, 0, 1].into(), remote: [10, 0, 0, 2].into(), interface: 0, traffic_class: 0 };
    let mut manager = Manager::new(Config { half_open_limit: 8, ..Config::new(1, 1, 1) });
    let mut now = Duration::ZERO;
    let mut held: Vec<ConnId> = Vec::new();
    for one in moves {
        let id = |n: u8| held.get(usize::from(n) % held.len().max(1)).copied().unwrap_or(ConnId(u32::from(n)));
        match one {
            Move::Mad { attribute, id: n, bytes } => manager.receive(now, &route, &mad(attribute, id(n), &bytes)),
            Move::Connect => {
                let request = ConnectRequest::new(route, 1, Qpn::new(2), Psn::new(3));
                held.extend(manager.connect(now, &request));
            }
            Move::Ask => held.extend(manager.sidr_request(now, &SidrRequest::new(route, 1))),
            Move::Accept(n) => drop(manager.accept(now, id(n), &ConnectReply::new(Qpn::new(4), Psn::new(5)))),
            Move::Confirm(n) => drop(manager.confirm(now, id(n), &[])),
            Move::Established(n) => drop(manager.established(now, id(n))),
            Move::Delay(n, timeout) => drop(manager.delay(now, id(n), timeout, &[])),
            Move::Reject(n) => drop(manager.reject(now, id(n), 28, &[], &[])),
            Move::Disconnect(n) => drop(manager.disconnect(now, id(n), &[])),
            Move::Destroy(n) => {
                let id = id(n);
                manager.destroy(now, id);
                held.retain(|other| *other != id);
            }
            Move::Pass(ms) => {
                now += Duration::from_millis(u64::from(ms));
                manager.expire(now);
            }
        }
        take(&mut manager, &mut held);
    }
    for id in std::mem::take(&mut held) {
        manager.destroy(now, id);
    }
    while let Some(next) = manager.next_timeout() {
        assert!(next < now + Duration::from_secs(1000), "nothing waits for ever");
        manager.expire(next);
        take(&mut manager, &mut held);
    }
    assert_eq!(manager.ids_in_use(), 0);
});

/// Events are of ids that the caller holds, or of new ones.
fn take(manager: &mut Manager, held: &mut Vec<ConnId>) {
    while let Some(output) = manager.poll() {
        match output {
            ManagerOutput::Event { id, event: CmEvent::Request(_) | CmEvent::SidrRequest(_) } => held.push(id),
            ManagerOutput::Event { id, .. } => assert!(held.contains(&id)),
            ManagerOutput::Send { mad, .. } => assert!(wire::mad::decode(&mad).is_ok()),
        }
    }
}

fn mad(attribute: u8, id: ConnId, bytes: &[u8; 64]) -> [u8; 256] {
    let mut mad = [0; 256];
    mad[..4].copy_from_slice(&[1, 7, 2, 3]);
    mad[17] = 0x10 + attribute % 11;
    mad[24..88].copy_from_slice(bytes);
    let at = if mad[17] == 0x18 { 24 } else { 28 };
    mad[at..at + 4].copy_from_slice(&id.0.to_be_bytes());
    mad
}
