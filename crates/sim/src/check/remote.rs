//! Remote memory of a reliable connection: what the initiator's requests must have made of
//! the target's region.
//!
//! Each region of this kind has one initiator, whose requests are carried out in the
//! order in which they were posted. So its contents are known exactly once all have
//! completed. If the connection died, what was carried out is all that succeeded and then
//! a beginning of what did not, packet by packet.

use std::collections::VecDeque;

use super::{Outcome, Violation};
use crate::area::{Area, AreaPiece};

#[derive(Debug)]
enum Pending {
    Change {
        number: u64,
        offset: usize,
        bytes: Vec<u8>,
    },
    /// Nothing after it may be carried out.
    Refused {
        number: u64,
    },
}

impl Pending {
    fn number(&self) -> u64 {
        match self {
            Pending::Change { number, .. } | Pending::Refused { number } => *number,
        }
    }
}

/// The model of one direction.
#[derive(Debug, Default)]
pub(crate) struct Remote {
    /// The region once everything posted has been carried out.
    planned: Vec<u8>,
    pending: VecDeque<Pending>,
}

impl Remote {
    pub(crate) fn new(initial: &[u8]) -> Remote {
        Remote { planned: initial.to_vec(), pending: VecDeque::new() }
    }

    /// The memory that a request posted now will find.
    pub(crate) fn planned(&self, piece: AreaPiece) -> &[u8] {
        &self.planned[piece.range()]
    }

    /// The word at `offset` that a request posted now will find.
    pub(crate) fn planned_word(&self, offset: usize) -> u64 {
        let bytes = self.planned[offset..].first_chunk().expect("a word of the region");
        u64::from_ne_bytes(*bytes)
    }

    /// Request `number` will write this.
    pub(crate) fn change(&mut self, number: u64, offset: usize, bytes: Vec<u8>) {
        self.planned[offset..offset + bytes.len()].copy_from_slice(&bytes);
        self.pending.push_back(Pending::Change { number, offset, bytes });
    }

    /// Request `number` must be refused.
    pub(crate) fn refuse(&mut self, number: u64) {
        self.pending.push_back(Pending::Refused { number });
    }

    /// Request `number` has succeeded.
    pub(crate) fn confirm(&mut self, number: u64, area: &mut Area) {
        while self.pending.front().is_some_and(|pending| pending.number() <= number) {
            if let Some(Pending::Change { offset, bytes, .. }) = self.pending.pop_front() {
                area.expect(offset, &bytes);
            }
        }
    }

    /// The run is over: some of what is not confirmed may have been done, in order.
    pub(crate) fn settle(&mut self, mtu_bytes: usize, area: &mut Area) -> Outcome {
        let actual = area.actual(0..area.len());
        if actual == area.model() {
            return Ok(());
        }
        let mut state = area.model().to_vec();
        let differing = |state: &[u8], at: core::ops::Range<usize>| {
            state[at.clone()].iter().zip(&actual[at]).filter(|(a, b)| a != b).count()
        };
        let mut wrong = differing(&state, 0..actual.len());
        let mut least = wrong;
        for pending in &self.pending {
            let Pending::Change { offset, bytes, .. } = pending else { break };
            for (i, packet) in bytes.chunks(mtu_bytes).enumerate() {
                if wrong == 0 {
                    break;
                }
                let at = offset + i * mtu_bytes..offset + i * mtu_bytes + packet.len();
                wrong -= differing(&state, at.clone());
                state[at.clone()].copy_from_slice(packet);
                wrong += differing(&state, at);
                least = least.min(wrong);
            }
        }
        if wrong != 0 {
            let what = format!(
                "{} requests without a completion; no number of their packets explains the contents: at best {least} \
                 bytes differ",
                self.pending.len()
            );
            return Err(Violation::new("remote memory equals the model", what));
        }
        area.expect(0, &actual);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use faults::Rng;
    use memory::Registry;
    use transport::{Access, Accessor, Memory, PdId};
    use wire::Qpn;

    fn area() -> (Registry, PdId, Area) {
        let registry = Registry::new(1);
        let pd = registry.alloc_pd();
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        let area = Area::new("test", &registry, pd, access, 4096, &mut Rng::new(3));
        (registry, pd, area)
    }

    fn write(registry: &Registry, pd: PdId, area: &Area, offset: usize, bytes: &[u8]) {
        let who = Accessor { pd, qpn: Qpn::new(1) };
        let written = registry.remote_write(who, area.keys().rkey, area.addr(offset), bytes);
        written.expect("a write within its rights");
    }

    /// Two overlapping writes of three packets each; `done` of the six are carried out.
    fn settle_after(done: usize, stray: bool) -> Outcome {
        let (registry, pd, mut area) = area();
        let mut remote = Remote::new(area.model());
        for (number, offset) in [(0, 100), (1, 200)] {
            remote.change(number, offset, vec![number as u8 + 1; 300]);
        }
        for packet in 0..done {
            let (number, offset) = ((packet / 3) as u8, packet / 3 * 100 + 100 + packet % 3 * 100);
            write(&registry, pd, &area, offset, &[number + 1; 100]);
        }
        if stray {
            write(&registry, pd, &area, 1000, &[!area.model()[1000]]);
        }
        remote.settle(100, &mut area)
    }

    #[test]
    fn every_beginning_is_possible() {
        for done in 0..=6 {
            settle_after(done, false).unwrap_or_else(|violation| panic!("{done}: {violation}"));
        }
    }

    #[test]
    fn anything_else_is_not() {
        for done in 0..=6 {
            settle_after(done, true).expect_err("a stray byte");
        }
        let (registry, pd, mut area) = area();
        let mut remote = Remote::new(area.model());
        remote.change(0, 0, vec![1; 300]);
        write(&registry, pd, &area, 100, &[1; 100]);
        remote.settle(100, &mut area).expect_err("the second packet without the first");
    }

    #[test]
    fn nothing_comes_after_a_refusal() {
        let (registry, pd, mut area) = area();
        let mut remote = Remote::new(area.model());
        remote.refuse(0);
        remote.change(1, 0, vec![1; 100]);
        write(&registry, pd, &area, 0, &[1; 100]);
        remote.settle(100, &mut area).expect_err("carried out after a refused one");
    }

    #[test]
    fn what_is_confirmed_must_be_there() {
        let (_, _, mut area) = area();
        let mut remote = Remote::new(area.model());
        remote.change(0, 0, vec![1; 100]);
        remote.confirm(0, &mut area);
        remote.settle(100, &mut area).expect_err("it was never written");
    }
}
