//! Arriving: the effect of a request at the peer.

use super::{EndId, NetEvent, SimNetwork, SimNotice, SimOp};
use crate::link::PeerArea as _;

impl SimNetwork {
    /// A request reaches the peer's memory, or the peer.
    pub(super) fn arrive(&mut self, from: EndId, op: SimOp, until: u64, is_lost: bool) {
        if !self.is_up(from.connection) {
            return;
        }
        self.end_mut(from).under_way -= 1;
        match op {
            SimOp::Write { at, bytes, imm } => {
                if at.checked_add(bytes.len() as u64).is_none_or(|end| end > self.end(from.peer()).area.len_bytes()) {
                    return self.remote_error(from, "a WRITE beyond the end of the area");
                }
                if is_lost {
                    return self.land_part(from, at, bytes);
                }
                self.end(from.peer()).area.begin(at, bytes);
                self.agenda.plan(until, NetEvent::Landed { from, imm });
            }
            SimOp::Send(message) => self.tell(from.peer(), SimNotice::Message(message)),
            SimOp::Read { key, tag } => self.begin_read(from, &key, tag, until),
        }
    }

    /// A WRITE of an unreliable connection has lost packets: the first ones may have arrived.
    fn land_part(&mut self, from: EndId, at: u64, mut bytes: Vec<u8>) {
        bytes.truncate(self.rng.usize(0..=bytes.len()));
        if !bytes.is_empty() && self.rng.bool() {
            let area = &self.end(from.peer()).area;
            area.begin(at, bytes);
            area.finish();
            self.wakes.push(from.peer());
        }
    }

    /// A request that the peer's device refuses: both ends lose the connection. No honest session does that.
    pub(super) fn remote_error(&mut self, from: EndId, what: &str) {
        if !self.connections[from.connection].is_hostile {
            self.violate(format!("{what}, by {from:?}"));
        }
        self.kill(from.connection, [10_000, 10_000]);
    }
}
