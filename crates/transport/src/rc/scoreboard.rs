//! The requester's scoreboard beyond the oldest unacknowledged packet: the packets that arrived, and the missing
//! ones, each of which is sent again alone (as in RFC 6675, with packets instead of bytes).
//!
//! A packet sent again may be lost again. That is known when something arrives that was sent after it: either
//! another packet that was sent again later, or one that was new when this one was sent again.

use wire::{Psn, Sack};

/// After this many retransmissions selective ACKs no longer cause another; the timeout decides.
const MAX_TIMES: u8 = 16;

/// A packet that is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Hole {
    psn: Psn,
    /// PSNs that it takes: more than one for a READ.
    packets: u32,
    /// Retransmission again and not known to be lost once more.
    sent: Option<Retransmission>,
    times: u8,
}

/// When a packet was sent again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Retransmission {
    /// The number of those that were sent again before.
    order: u64,
    /// The first PSN that was new then.
    frontier: Psn,
}

/// The known state of packets, from the oldest unacknowledged one on.
#[derive(Debug)]
pub(super) struct Scoreboard {
    base: Psn,
    arrived: Sack,
    /// In PSN order.
    holes: Vec<Hole>,
    /// Packets sent again so far.
    order: u64,
    /// One more than the latest of them that arrived.
    arrived_order: u64,
    /// The first new PSN when the latest of them that arrived was sent: all before it were sent before.
    overtaken: Option<Psn>,
}

impl Scoreboard {
    pub(super) fn new(base: Psn) -> Scoreboard {
        Scoreboard { base, arrived: Sack::default(), holes: Vec::new(), order: 0, arrived_order: 0, overtaken: None }
    }

    /// Everything before `base` has arrived.
    pub(super) fn advance(&mut self, base: Psn) {
        let by = base.distance(self.base);
        if by <= 0 {
            return;
        }
        self.base = base;
        self.arrived = self.arrived.forward(by as u32);
        self.settle();
    }

    /// Takes a selective ACK from `base` on.
    pub(super) fn merge(&mut self, base: Psn, sack: &Sack) {
        self.advance(base);
        let sack = match self.base.distance(base) {
            by @ 0.. => sack.forward(by as u32),
            _ => Sack::default(),
        };
        self.arrived.arrived.iter_mut().zip(sack.arrived).for_each(|(known, new)| *known |= new);
        self.settle();
    }

    /// Whether the packet is known to be there.
    pub(super) fn has_arrived(&self, psn: Psn) -> bool {
        u32::try_from(psn.distance(self.base)).is_ok_and(|offset| self.arrived.has(offset))
    }

    /// Packets before this PSN that have not arrived are lost, or late: what was sent after them is there.
    pub(super) fn end_of_missing(&self) -> Psn {
        let highest = self.highest().unwrap_or(self.base);
        self.overtaken.filter(|overtaken| highest.before(*overtaken)).unwrap_or(highest)
    }

    /// The last packet that is known to be there.
    pub(super) fn highest(&self) -> Option<Psn> {
        self.arrived.highest().map(|offset| self.base.add(offset))
    }

    /// Notes a missing packet that takes `packets` PSNs; whether that was news.
    pub(super) fn note_missing(&mut self, psn: Psn, packets: u32) -> bool {
        let at = self.holes.partition_point(|hole| hole.psn.before(psn));
        let known = self.holes.get(at).is_some_and(|hole| hole.psn == psn);
        if !known {
            self.holes.insert(at, Hole { psn, packets, sent: None, times: 0 });
        }
        !known
    }

    /// Finds retransmissions that are lost once more; returns how many PSNs they take.
    pub(super) fn note_lost_again(&mut self) -> u32 {
        let (highest, arrived_order) = (self.highest(), self.arrived_order);
        let mut lost = 0;
        for hole in &mut self.holes {
            let Some(sent) = hole.sent else { continue };
            let overtaken = sent.order < arrived_order.saturating_sub(1)
                || highest.is_some_and(|highest| !highest.before(sent.frontier));
            if overtaken && hole.times < MAX_TIMES {
                hole.sent = None;
                lost += hole.packets;
            }
        }
        lost
    }

    /// The first missing packet that is to be sent again, and whether another one waits behind it.
    pub(super) fn due(&self) -> Option<(Psn, bool)> {
        let mut due = self.holes.iter().filter(|hole| hole.sent.is_none());
        let first = due.next()?;
        Some((first.psn, due.next().is_some()))
    }

    /// Missing packets that are to be sent again, with the number of PSNs that each takes.
    pub(super) fn all_due(&self) -> impl Iterator<Item = (Psn, u32)> {
        self.holes.iter().filter(|hole| hole.sent.is_none()).map(|hole| (hole.psn, hole.packets))
    }

    /// The packet leaves again; `frontier` is the first PSN that is new after it.
    pub(super) fn sent_again(&mut self, psn: Psn, frontier: Psn) {
        let order = self.order;
        self.order += 1;
        if let Some(hole) = self.holes.iter_mut().find(|hole| hole.psn == psn) {
            hole.sent = Some(Retransmission { order, frontier });
            hole.times = hole.times.saturating_add(1);
        }
    }

    /// Nothing more is known than the base alone says.
    pub(super) fn is_empty(&self) -> bool {
        self.holes.is_empty() && self.arrived.highest().is_none()
    }

    /// Holes that are filled are none.
    fn settle(&mut self) {
        let (base, arrived) = (self.base, self.arrived);
        let (mut arrived_order, mut overtaken) = (self.arrived_order, self.overtaken);
        self.holes.retain(|hole| {
            let offset = hole.psn.distance(base);
            let filled = u32::try_from(offset).map_or(true, |offset| arrived.has(offset));
            if let (true, Some(sent)) = (filled, hole.sent) {
                arrived_order = arrived_order.max(sent.order + 1);
                overtaken = overtaken.filter(|known| sent.frontier.before(*known)).or(Some(sent.frontier));
            }
            !filled
        });
        debug_assert!(self.holes.is_sorted_by(|a, b| a.psn.before(b.psn)), "holes are in PSN order, each once");
        self.arrived_order = arrived_order;
        self.overtaken = overtaken.filter(|overtaken| base.before(*overtaken));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn psn(number: u32) -> Psn {
        Psn::new(number)
    }

    fn sack(offsets: &[u32]) -> Sack {
        let mut sack = Sack::default();
        offsets.iter().for_each(|offset| sack.set(*offset));
        sack
    }

    /// Of packets 0 to 9 the given ones have arrived; those between are noted as missing.
    fn board(arrived: &[u32]) -> Scoreboard {
        let mut board = Scoreboard::new(psn(0));
        board.merge(psn(0), &sack(arrived));
        for number in 0..arrived.iter().max().copied().unwrap_or(0) {
            if !arrived.contains(&number) {
                assert!(board.note_missing(psn(number), 1));
            }
        }
        board
    }

    #[test]
    fn each_hole_is_sent_again_once() {
        let mut board = board(&[1, 3, 5]);
        for (number, more) in [(0, true), (2, true), (4, false)] {
            assert_eq!(board.due(), Some((psn(number), more)));
            board.sent_again(psn(number), psn(10));
        }
        assert_eq!(board.due(), None);
        board.merge(psn(0), &sack(&[1, 3, 5]));
        assert!(!board.note_missing(psn(2), 1));
        assert_eq!(board.note_lost_again(), 0);
    }

    #[test]
    fn a_repair_that_later_ones_overtake_is_lost() {
        let mut board = board(&[1, 3, 5]);
        [0, 2, 4].into_iter().for_each(|number| board.sent_again(psn(number), psn(10)));
        board.merge(psn(0), &sack(&[1, 2, 3, 5]));
        assert_eq!(board.note_lost_again(), 1);
        assert_eq!(board.due(), Some((psn(0), false)), "4 was sent after 2 and may still come");
    }

    #[test]
    fn a_repair_that_new_packets_overtake_is_lost() {
        let mut board = board(&[1]);
        board.sent_again(psn(0), psn(10));
        board.merge(psn(0), &sack(&[1, 9]));
        assert_eq!(board.note_lost_again(), 0);
        board.merge(psn(0), &sack(&[1, 9, 10]));
        assert_eq!(board.note_lost_again(), 1);
        assert_eq!(board.due(), Some((psn(0), false)));
    }

    #[test]
    fn what_was_sent_before_a_repair_that_arrived_is_missing() {
        let mut board = board(&[1]);
        board.sent_again(psn(0), psn(10));
        assert_eq!(board.end_of_missing(), psn(1));
        board.advance(psn(2));
        assert_eq!(board.end_of_missing(), psn(10), "2 to 9 were sent before it");
        board.advance(psn(10));
        assert_eq!(board.end_of_missing(), psn(10));
    }

    #[test]
    fn nothing_is_sent_again_for_ever() {
        let mut board = board(&[1]);
        let mut times = 0;
        while board.due().is_some() && times < 1000 {
            board.sent_again(psn(0), psn(1));
            board.note_lost_again();
            times += 1;
        }
        assert_eq!(times, i32::from(MAX_TIMES));
    }

    #[test]
    fn what_is_acknowledged_is_no_hole() {
        let mut board = board(&[1, 3, 5]);
        board.advance(psn(4));
        assert!(board.has_arrived(psn(5)) && !board.has_arrived(psn(4)));
        assert_eq!(board.all_due().collect::<Vec<_>>(), [(psn(4), 1)]);
        board.advance(psn(6));
        assert!(board.is_empty());
        board.merge(psn(2), &sack(&[1]));
        assert!(board.is_empty(), "old news");
    }
}
