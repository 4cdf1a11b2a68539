//! Request packets ahead of sequence, which the responder keeps until those before them have come.
//!
//! Nothing about them is checked or executed here: the responder handles each in its turn, as if it arrived then. So
//! keeping them changes no order and no answer; it only saves the peer from sending them again.
//!
//! Bounds: a queue pair keeps packets of one bitmap, [`Sack::BITS`], so at most 1 MiB of payload. All queue pairs
//! of a device together keep no more than its [`ReorderBudget`](crate::ReorderBudget).

use std::collections::VecDeque;

use wire::{Psn, Sack};

use crate::budget::BudgetShare;

/// The cost of a kept packet beside its bytes.
const OVERHEAD_BYTES: usize = 64;

/// The outcome of an attempt to keep a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum KeepOutcome {
    /// It is kept.
    New,
    /// It was kept before.
    Already,
    /// Another packet with its PSN was kept. One of the two is forged: neither is kept.
    Conflict,
    /// There is no room for it.
    NoRoom,
}

/// The packets, in PSN order, each once.
#[derive(Debug)]
pub(super) struct Reorder {
    packets: VecDeque<(Psn, Box<[u8]>)>,
    share: BudgetShare,
    /// The last packet that was not kept: it has to come again.
    refused: Option<Psn>,
}

impl Reorder {
    pub(super) fn new(share: BudgetShare) -> Reorder {
        Reorder { packets: VecDeque::new(), share, refused: None }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Keeps a packet (BTH to pad) whose turn comes after that of `expected`.
    pub(super) fn keep(&mut self, expected: Psn, psn: Psn, bytes: &[u8]) -> KeepOutcome {
        let ahead = psn.distance(expected);
        let at = self.packets.partition_point(|(kept, _)| kept.before(psn));
        if let Some((_, kept)) = self.packets.get(at).filter(|(kept, _)| *kept == psn) {
            if are_copies(kept, bytes) {
                return KeepOutcome::Already;
            }
            self.forget(at);
            self.refuse(psn);
            return KeepOutcome::Conflict;
        }
        let fits = (1..Sack::BITS as i32).contains(&ahead);
        if !fits || !self.share.take(bytes.len() + OVERHEAD_BYTES) {
            self.refuse(psn);
            return KeepOutcome::NoRoom;
        }
        self.packets.insert(at, (psn, bytes.into()));
        debug_assert!(self.packets.len() < Sack::BITS as usize, "one bitmap covers the kept packets");
        KeepOutcome::New
    }

    fn forget(&mut self, at: usize) {
        if let Some((_, bytes)) = self.packets.remove(at) {
            self.share.give_back(bytes.len() + OVERHEAD_BYTES);
        }
    }

    /// Notes that a packet was not kept.
    pub(super) fn refuse(&mut self, psn: Psn) {
        if self.refused.is_none_or(|refused| refused.before(psn)) {
            self.refused = Some(psn);
        }
    }

    /// Whether something from `expected` on was not kept, and so has to come again.
    pub(super) fn has_refused(&self, expected: Psn) -> bool {
        self.refused.is_some_and(|refused| !refused.before(expected))
    }

    /// The packet with PSN `expected`, if it is kept. Older ones are dropped.
    pub(super) fn take(&mut self, expected: Psn) -> Option<Box<[u8]>> {
        while self.packets.front().is_some_and(|(psn, _)| !expected.before(*psn)) {
            let (psn, bytes) = self.packets.pop_front()?;
            self.share.give_back(bytes.len() + OVERHEAD_BYTES);
            if psn == expected {
                return Some(bytes);
            }
        }
        None
    }

    /// The packet with the highest PSN.
    pub(super) fn highest(&self) -> Option<Psn> {
        self.packets.back().map(|(psn, _)| *psn)
    }

    /// The bitmap of kept packets, counted from `psn`; all from there to before `expected` have been executed.
    pub(super) fn sack(&self, psn: Psn, expected: Psn) -> Sack {
        let mut sack = Sack::default();
        let done = expected.distance(psn).clamp(0, Sack::BITS as i32);
        let kept = self.packets.iter().map(|(kept, _)| kept.distance(psn)).filter(|offset| *offset >= 0);
        (0..done).chain(kept).for_each(|offset| sack.set(offset as u32));
        sack
    }
}

/// Whether two packets are the same but for AckReq, which may differ from one transmission to the next.
fn are_copies(one: &[u8], other: &[u8]) -> bool {
    const ACK_REQ_AT: usize = 8;
    const ACK_REQ: u8 = 0x80;
    let but_ack_req = |bytes: &[u8]| bytes.get(ACK_REQ_AT).map(|byte| byte & !ACK_REQ);
    one.get(ACK_REQ_AT + 1..) == other.get(ACK_REQ_AT + 1..)
        && but_ack_req(one) == but_ack_req(other)
        && one.get(..ACK_REQ_AT) == other.get(..ACK_REQ_AT)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::budget::ReorderBudget;

    fn psn(number: u32) -> Psn {
        Psn::new(number)
    }

    fn reorder(budget_bytes: usize) -> (Reorder, Arc<ReorderBudget>) {
        let budget = Arc::new(ReorderBudget::new(budget_bytes));
        (Reorder::new(BudgetShare::new(Some(budget.clone()))), budget)
    }

    #[test]
    fn packets_come_out_in_order_and_once() {
        let (mut kept, budget) = reorder(1 << 20);
        let expected = psn(0xff_fffe); // PSNs wrap
        for number in [3, 1, 2, 1] {
            let outcome = kept.keep(expected, expected.add(number), &[number as u8; 100]);
            assert_eq!(outcome == KeepOutcome::Already, number == 1 && kept.packets.len() == 3);
        }
        assert_eq!(kept.sack(expected, expected).arrived, [0b1110, 0, 0, 0]);
        assert_eq!(kept.highest(), Some(expected.add(3)));
        assert_eq!(kept.take(expected), None);
        for number in 1..4 {
            assert_eq!(kept.take(expected.add(number)).as_deref(), Some(&[number as u8; 100][..]));
        }
        assert!(kept.is_empty());
        assert_eq!(budget.left_bytes(), 1 << 20);
    }

    #[test]
    fn what_is_behind_is_forgotten() {
        let (mut kept, budget) = reorder(1 << 20);
        for number in 1..10 {
            kept.keep(psn(0), psn(number), &[0; 10]);
        }
        assert!(kept.take(psn(7)).is_some());
        assert_eq!(kept.packets.len(), 2);
        assert_eq!(kept.sack(psn(5), psn(8)).arrived, [0b11111, 0, 0, 0]);
        drop(kept);
        assert_eq!(budget.left_bytes(), 1 << 20);
    }

    #[test]
    fn what_does_not_fit_is_remembered_as_refused() {
        let (mut kept, _) = reorder(2 * (100 + OVERHEAD_BYTES));
        assert_eq!(kept.keep(psn(0), psn(Sack::BITS), &[0; 100]), KeepOutcome::NoRoom);
        assert_eq!(kept.keep(psn(0), psn(Sack::BITS - 1), &[0; 100]), KeepOutcome::New);
        assert_eq!(kept.keep(psn(0), psn(4), &[0; 100]), KeepOutcome::New);
        assert_eq!(kept.keep(psn(0), psn(5), &[0; 100]), KeepOutcome::NoRoom);
        assert!(kept.has_refused(psn(Sack::BITS)));
        assert!(!kept.has_refused(psn(Sack::BITS + 1)));
        assert_eq!(kept.keep(psn(0), psn(0), &[0; 100]), KeepOutcome::NoRoom, "its turn is now");
    }

    #[test]
    fn of_two_that_claim_one_psn_neither_is_kept() {
        let (mut kept, budget) = reorder(1 << 20);
        let packet = |ack_req: u8, last: u8| [0x04, 0, 0, 0, 0, 0, 0, 0, ack_req | 0x11, 0, 0, 2, last];
        assert_eq!(kept.keep(psn(0), psn(2), &packet(0, 1)), KeepOutcome::New);
        assert_eq!(kept.keep(psn(0), psn(2), &packet(0x80, 1)), KeepOutcome::Already);
        assert_eq!(kept.keep(psn(0), psn(2), &packet(0, 9)), KeepOutcome::Conflict);
        assert!(kept.is_empty() && kept.has_refused(psn(2)));
        assert_eq!(budget.left_bytes(), 1 << 20);
        assert_eq!(kept.keep(psn(0), psn(2), &packet(0, 1)), KeepOutcome::New, "it comes again");
        assert_eq!(kept.keep(psn(0), psn(2), &packet(0, 1)[..12]), KeepOutcome::Conflict, "another length");
    }
}
