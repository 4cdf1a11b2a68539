//! The last messages of processes that are gone.
//!
//! Some are sent once. The others ask for an answer, and are repeated until it comes or
//! nobody is there to give one. All are paced, so that the end of a process with thousands of
//! connections floods nobody.
//!
//! What this module does not do: it neither sends nor reads a clock.

use crate::mad::{ClosingMessage, MadPacket};
use std::collections::{HashSet, VecDeque};
use std::net::IpAddr;
use std::time::{Duration, Instant};
use wire::mad::{self, Message};

/// How often a message that wants an answer is sent.
const ATTEMPTS: u8 = 5;
/// The time between two of them: 4.096 microseconds times 2 to the power of 18.
const INTERVAL: Duration = Duration::from_micros(1_073_742);
/// Messages that go out at once.
const BURST: usize = 200;
/// The time between two bursts.
const PACE: Duration = Duration::from_millis(10);
/// Most messages that are kept.
const MAX_KEPT: usize = 1 << 18;

/// Messages that are still to be sent.
#[derive(Debug, Default)]
pub(super) struct ClosingQueue {
    /// Those that were not sent yet.
    fresh: VecDeque<ClosingMessage>,
    /// Those that were, with the time of the next attempt and the attempts left, in the order of
    /// that time.
    again: VecDeque<(Instant, u8, MadPacket)>,
    /// Those among them that have no answer yet.
    unanswered: HashSet<Name>,
    next_burst: Option<Instant>,
}

/// What an answer is known by.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Name {
    remote: IpAddr,
    transaction: u64,
    /// The communication id of the process that is gone.
    id: u32,
}

/// What became of messages in one step.
#[derive(Debug, Default)]
pub(super) struct Step {
    /// To be sent now.
    pub(super) send: Vec<MadPacket>,
    /// How many were given up.
    pub(super) unanswered: u64,
}

impl ClosingQueue {
    /// Takes the wills of a process. Returns how many it has no room for.
    pub(super) fn take(&mut self, wills: impl IntoIterator<Item = ClosingMessage>) -> u64 {
        let mut dropped = 0;
        for will in wills {
            if self.fresh.len() + self.again.len() < MAX_KEPT {
                self.fresh.push_back(will);
            } else {
                dropped += 1;
            }
        }
        dropped
    }

    pub(super) fn is_empty(&self) -> bool {
        self.fresh.is_empty() && self.again.is_empty()
    }

    /// An answer arrived. Returns whether it is one to a message of these.
    pub(super) fn answered(&mut self, packet: &MadPacket) -> bool {
        let Ok((header, Message::Drep(drep))) = mad::decode(&packet.mad) else { return false };
        let remote = packet.remote.to_canonical();
        self.unanswered.remove(&Name { remote, transaction: header.transaction_id, id: drep.remote_id })
    }

    /// What is due now.
    pub(super) fn step(&mut self, now: Instant) -> Step {
        let mut step = Step::default();
        if self.next_burst.is_some_and(|at| now < at) {
            return step;
        }
        while step.send.len() < BURST && self.again.front().is_some_and(|(due, ..)| *due <= now) {
            let Some((_, left, packet)) = self.again.pop_front() else { break };
            let Some(name) = name(&packet).filter(|name| self.unanswered.contains(name)) else { continue };
            if left == 0 {
                self.unanswered.remove(&name);
                step.unanswered += 1;
                continue;
            }
            step.send.push(packet.clone());
            self.again.push_back((now + INTERVAL, left - 1, packet));
        }
        while step.send.len() < BURST {
            let Some(ClosingMessage { packet, until_answered }) = self.fresh.pop_front() else { break };
            step.send.push(packet.clone());
            if until_answered && let Some(name) = name(&packet) {
                self.unanswered.insert(name);
                self.again.push_back((now + INTERVAL, ATTEMPTS - 1, packet));
            }
        }
        self.next_burst = (!step.send.is_empty()).then(|| now + PACE);
        step
    }

    /// When [`step`](ClosingQueue::step) has something to do.
    pub(super) fn next_deadline(&self, now: Instant) -> Option<Instant> {
        let due = if self.fresh.is_empty() { self.again.front().map(|(due, ..)| *due)? } else { now };
        Some(self.next_burst.map_or(due, |at| due.max(at)))
    }
}

/// What the answer will be known by, if there is one: that to a DREQ.
fn name(packet: &MadPacket) -> Option<Name> {
    let Ok((header, Message::Dreq(dreq))) = mad::decode(&packet.mad) else { return None };
    Some(Name { remote: packet.remote.to_canonical(), transaction: header.transaction_id, id: dreq.local_id })
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Qpn;
    use wire::mad::{Drep, Dreq, MadHeader};

    fn packet(transaction: u8, message: &Message) -> MadPacket {
        let (local, remote) = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
        let header = MadHeader { transaction_id: transaction.into(), ..MadHeader::default() };
        MadPacket { local, remote, interface: 0, traffic_class: 0, mad: mad::encode(&header, message) }
    }

    fn will(transaction: u8, until_answered: bool) -> ClosingMessage {
        let private_data = [0; Dreq::PRIVATE_LEN];
        let id = 0x0010_0000 + u32::from(transaction);
        let dreq = Dreq { local_id: id, remote_id: 9, remote_qpn: Qpn::new(1), private_data };
        ClosingMessage { packet: packet(transaction, &Message::Dreq(dreq)), until_answered }
    }

    fn answer(transaction: u8) -> MadPacket {
        let private_data = [0; Drep::PRIVATE_LEN];
        let id = 0x0010_0000 + u32::from(transaction);
        packet(transaction, &Message::Drep(Drep { local_id: 9, remote_id: id, private_data }))
    }

    /// Runs until nothing is left. Returns the messages' transactions with the time of each, and
    /// how many were given up.
    fn run(closing: &mut ClosingQueue, start: Instant) -> (Vec<(u8, Duration)>, u64) {
        let (mut sent, mut unanswered, mut now) = (Vec::new(), 0, start);
        while let Some(at) = closing.next_deadline(now) {
            now = at.max(now);
            let step = closing.step(now);
            sent.extend(step.send.iter().map(|packet| (packet.mad[15], now - start)));
            unanswered += step.unanswered;
        }
        assert!(closing.is_empty() && closing.unanswered.is_empty());
        (sent, unanswered)
    }

    #[test]
    fn a_message_that_wants_no_answer_is_sent_once() {
        let mut closing = ClosingQueue::default();
        assert_eq!(closing.take([will(1, false)]), 0);
        let (sent, unanswered) = run(&mut closing, Instant::now());
        assert_eq!((sent, unanswered), (vec![(1, Duration::ZERO)], 0));
    }

    #[test]
    fn a_message_that_nobody_answers_is_sent_five_times() {
        let mut closing = ClosingQueue::default();
        closing.take([will(1, true)]);
        let (sent, unanswered) = run(&mut closing, Instant::now());
        let expected: Vec<_> = (0..5).map(|i| (1, INTERVAL * i)).collect();
        assert_eq!((sent, unanswered), (expected, 1));
    }

    #[test]
    fn an_answer_ends_it() {
        let mut closing = ClosingQueue::default();
        closing.take([will(1, true), will(2, true)]);
        let start = Instant::now();
        assert_eq!(closing.step(start).send.len(), 2);
        assert!(!closing.answered(&answer(3)), "of somebody else");
        let other_remote = MadPacket { remote: [192, 0, 2, 3].into(), ..answer(1) };
        assert!(!closing.answered(&other_remote));
        assert!(closing.answered(&answer(1)));
        assert!(!closing.answered(&answer(1)), "once is enough");
        let (sent, unanswered) = run(&mut closing, start);
        assert!(sent.iter().all(|(transaction, _)| *transaction == 2), "{sent:?}");
        assert_eq!((sent.len(), unanswered), (4, 1));
    }

    #[test]
    fn thousands_are_paced() {
        let mut closing = ClosingQueue::default();
        closing.take((0..5000).map(|_| will(0, false)));
        let (sent, _) = run(&mut closing, Instant::now());
        assert_eq!(sent.len(), 5000);
        for window in sent.chunks(BURST).collect::<Vec<_>>().windows(2) {
            assert_eq!(window[1][0].1 - window[0][0].1, PACE);
        }
    }

    #[test]
    fn there_is_a_limit() {
        let mut closing = ClosingQueue::default();
        assert_eq!(closing.take((0..MAX_KEPT + 3).map(|_| will(0, false))), 3);
        assert_eq!(closing.take([will(1, true)]), 1);
    }
}
