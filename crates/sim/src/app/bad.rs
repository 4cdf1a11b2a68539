//! Traffic that ends badly: requests without a right, and their required outcome.

use faults::Rng;
use transport::LKey;
use transport::{AtomicOp, Payload, RemoteAddr, SendOp, Sge, Status};
use wire::RKey;

use super::draft::{AreaChange, Draft};
use crate::check::Outcome;
use crate::check::sends::Effect;
use crate::end::slot_bytes;
use crate::message::{Content, sgl};
use crate::scenario::Ending;
use crate::world::World;

const ACCESS: &[Status] = &[Status::RemoteAccess];
const INVALID: &[Status] = &[Status::RemoteInvalidRequest];
const LOCAL: &[Status] = &[Status::LocalProtection];

impl World {
    /// Posts the bad request, and good ones behind it that must come to nothing.
    pub(super) fn end_badly(&mut self, e: usize, rng: &mut Rng) -> Outcome {
        let ending = self.ends[e].spec.ending;
        let Some(bad) = self.draft_bad(e, rng, ending) else { return Ok(()) };
        self.post(e, rng, bad)?;
        for _ in 0..rng.below(4) {
            if self.room_for_sends(e) > 0 {
                let behind = self.draft_send(e, rng, false);
                self.post(e, rng, behind)?;
            }
        }
        Ok(())
    }

    fn draft_bad(&mut self, e: usize, rng: &mut Rng, ending: Ending) -> Option<Draft> {
        let peer = &self.ends[self.ends[e].spec.peer?];
        let commons = &self.nodes[peer.spec.node].commons;
        let (exposed, len) = (&peer.exposed, peer.exposed.len());
        let at = |addr, rkey| RemoteAddr { addr, rkey };
        let own = exposed.keys().rkey;
        let (to, len, statuses) = match ending {
            Ending::Plain | Ending::Abandon => return None,
            Ending::WrongKey => (at(exposed.addr(0), RKey(own.0 ^ 0x100)), 8, ACCESS),
            Ending::OutOfBounds => (at(exposed.addr(len - 8), own), 9, ACCESS),
            Ending::Wrapping => (at(u64::MAX - 3, own), 64, ACCESS),
            Ending::ReadOnly => (at(commons.read_only.addr(0), commons.read_only.keys().rkey), 1, ACCESS),
            Ending::WriteOnly => return Some(self.draft_bad_read(e, rng)),
            Ending::OtherDomain => (at(commons.foreign.addr(0), commons.foreign.keys().rkey), 8, ACCESS),
            Ending::Misaligned => {
                let op = SendOp::Atomic(at(exposed.addr(4), own), AtomicOp::FetchAdd { add: 1 });
                return Some(self.draft_result(e, rng, op, 8, INVALID));
            }
            Ending::TooLong => return Some(self.draft_too_long(e, rng)),
            Ending::WrongLocalKey => return Some(self.draft_from_nowhere(e)),
            Ending::ReadOnlyResult => return Some(self.draft_into_source(e)),
        };
        let content = self.content(e, rng, len);
        let payload = content.payload(&self.ends[e].source);
        Some(refused(Draft::new(SendOp::Write(to), payload, len), statuses))
    }

    fn draft_bad_read(&mut self, e: usize, rng: &mut Rng) -> Draft {
        let peer = self.ends[e].spec.peer.unwrap_or(e);
        let write_only = &self.nodes[self.ends[peer].spec.node].commons.write_only;
        let from = RemoteAddr { addr: write_only.addr(0), rkey: write_only.keys().rkey };
        self.draft_result(e, rng, SendOp::Read(from), 8, ACCESS)
    }

    /// A request whose result would land in a slot.
    fn draft_result(&mut self, e: usize, rng: &mut Rng, op: SendOp, len: usize, statuses: &'static [Status]) -> Draft {
        let (_, pieces) = self.take_result_slot(e, rng, len);
        let payload = Payload::Sgl(sgl(&pieces, &self.ends[e].landing));
        refused(Draft::new(op, payload, len), statuses)
    }

    fn draft_too_long(&mut self, e: usize, rng: &mut Rng) -> Draft {
        let len = slot_bytes(&self.scenario) + 1 + rng.below(1000) as usize;
        let content = Content::Pieces(vec![crate::area::AreaPiece { offset: 0, len }]);
        let payload = content.payload(&self.ends[e].source);
        let draft = Draft { message: Some(content), ..Draft::new(SendOp::Send, payload, len) };
        refused(draft, INVALID)
    }

    fn draft_from_nowhere(&mut self, e: usize) -> Draft {
        let sge = Sge { addr: 0, len_bytes: 64, lkey: LKey(self.ends[e].source.keys().lkey.0 ^ 0x100) };
        let payload = Payload::Sgl(vec![sge].into());
        refused(Draft::new(SendOp::Send, payload, 64), LOCAL)
    }

    /// A READ of good memory into memory that may not be written.
    fn draft_into_source(&mut self, e: usize) -> Draft {
        let peer = self.ends[e].spec.peer.unwrap_or(e);
        let exposed = &self.ends[peer].exposed;
        let from = RemoteAddr { addr: exposed.addr(0), rkey: exposed.keys().rkey };
        let piece = crate::area::AreaPiece { offset: 0, len: 64 };
        let payload = Payload::Sgl(sgl(&[piece], &self.ends[e].source));
        refused(Draft::new(SendOp::Read(from), payload, 64), LOCAL)
    }
}

fn refused(draft: Draft, statuses: &'static [Status]) -> Draft {
    Draft { effect: Effect::Refused(statuses), change: AreaChange::Refused, ..draft }
}
