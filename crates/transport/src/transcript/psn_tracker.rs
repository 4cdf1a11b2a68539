//! PSNs and the MSN of the requests in one direction.

use std::collections::VecDeque;

use wire::Psn;

/// The most requests without an answer that are remembered; older ones are forgotten.
const MAX_OPEN: usize = 1 << 16;

/// The response that a request gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ExpectedResponse {
    Ack,
    /// READ responses of this many bytes.
    Data(u32),
    /// The value before an atomic.
    Value,
    /// A READ response of no bytes (Annex A19).
    Empty,
    /// A reply, to a request of Longarm's own, of at most this many bytes.
    Reply(u32),
}

/// A request that is not answered yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct OpenRequest {
    pub(super) number: u32,
    pub(super) first_psn: Psn,
    pub(super) packets: u32,
    pub(super) answer: ExpectedResponse,
    /// All its packets were written.
    pub(super) whole: bool,
    /// It is sent again for a reason that the wire does not have, and must not appear twice.
    pub(super) shown: bool,
}

#[derive(Debug)]
pub(super) struct PsnTracker {
    next_psn: Psn,
    /// Requests that were carried out.
    msn: u32,
    /// In order.
    open: VecDeque<OpenRequest>,
}

impl PsnTracker {
    pub(super) fn new(first_psn: Psn) -> PsnTracker {
        PsnTracker { next_psn: first_psn, msn: 0, open: VecDeque::new() }
    }

    pub(super) fn next_psn(&self) -> Psn {
        self.next_psn
    }

    pub(super) fn msn(&self) -> u32 {
        self.msn
    }

    /// Takes PSNs that no ACK covers.
    pub(super) fn take(&mut self, packets: u32) -> Psn {
        let first = self.next_psn;
        self.next_psn = first.add(packets);
        first
    }

    /// A request begins; the one with the same number before, again.
    pub(super) fn begin(&mut self, number: u32, packets: u32, answer: ExpectedResponse) -> OpenRequest {
        if let Some(index) = self.index_of(number) {
            let known = self.open[index];
            if (known.packets, known.answer) == (packets, answer) {
                self.open[index].shown = false;
                return known;
            }
            // Another request with the number of one that never came to anything.
            self.next_psn = known.first_psn;
            self.open.truncate(index);
        }
        if self.open.back().is_some_and(|last| number != last.number.wrapping_add(1)) {
            self.open.clear();
        }
        if self.open.len() == MAX_OPEN {
            self.open.pop_front();
        }
        let open = OpenRequest { number, first_psn: self.take(packets), packets, answer, whole: false, shown: false };
        self.open.push_back(open);
        open
    }

    /// Everything before `upto` was executed. Returns the last PSN of that, if it is new.
    pub(super) fn acknowledge(&mut self, upto: u32) -> Option<Psn> {
        let mut last = None;
        while let Some(open) = self.open.front().filter(|open| (open.number.wrapping_sub(upto) as i32) < 0) {
            last = Some(open.first_psn.add(open.packets - 1));
            self.msn = self.msn.wrapping_add(1);
            self.open.pop_front();
        }
        last
    }

    /// A request was carried out that has no number.
    pub(super) fn count(&mut self) {
        self.msn = self.msn.wrapping_add(1);
    }

    pub(super) fn find(&self, number: u32) -> Option<OpenRequest> {
        self.index_of(number).map(|index| self.open[index])
    }

    /// All packets of a request were given.
    pub(super) fn note_whole(&mut self, number: u32) {
        if let Some(index) = self.index_of(number) {
            self.open[index].whole = true;
        }
    }

    /// Open requests will be sent again, for a reason that the wire does not have.
    pub(super) fn will_repeat(&mut self) {
        for open in &mut self.open {
            open.shown = open.whole;
        }
    }

    fn index_of(&self, number: u32) -> Option<usize> {
        let index = number.wrapping_sub(self.open.front()?.number) as usize;
        (index < self.open.len()).then_some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACK: ExpectedResponse = ExpectedResponse::Ack;

    #[test]
    fn psns_follow_each_other_and_come_again_with_their_request() {
        let mut numbers = PsnTracker::new(Psn::new(0xff_fffe));
        let psns: Vec<u32> = [(8, 3), (9, 1), (10, 2)]
            .map(|(number, packets)| numbers.begin(number, packets, ACK).first_psn.get())
            .into();
        assert_eq!(psns, [0xff_fffe, 1, 2]);
        assert_eq!(numbers.begin(9, 1, ACK).first_psn.get(), 1, "it is sent again");
        assert_eq!(numbers.begin(10, 2, ACK).first_psn.get(), 2);
        assert_eq!(numbers.begin(11, 1, ACK).first_psn.get(), 4);
        assert_eq!(numbers.acknowledge(10).map(Psn::get), Some(1));
        assert_eq!((numbers.msn(), numbers.acknowledge(10), numbers.acknowledge(0)), (2, None, None));
    }

    #[test]
    fn another_request_with_the_same_number_takes_its_place() {
        let mut numbers = PsnTracker::new(Psn::new(0));
        numbers.begin(1, 5, ACK);
        numbers.begin(2, 5, ACK);
        assert_eq!(numbers.begin(1, 1, ExpectedResponse::Value).first_psn.get(), 0);
        assert_eq!(numbers.begin(2, 1, ACK).first_psn.get(), 1);
    }

    #[test]
    fn numbers_may_be_anything() {
        let mut numbers = PsnTracker::new(Psn::new(0));
        let mut state = 1u64;
        for _ in 0..100_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let number = (state >> 32) as u32 >> (state & 31);
            numbers.begin(number, 1 + number % 7, ACK);
            assert_eq!(numbers.find(number).map(|open| open.number), Some(number));
            if number.is_multiple_of(5) {
                numbers.acknowledge((state >> 7) as u32);
            }
        }
        assert!(numbers.open.len() <= MAX_OPEN);
    }
}
