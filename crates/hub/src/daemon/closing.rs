//! The queue of closing messages of dead processes.
//!
//! Some are sent once. The others (DREQ) ask for an answer, and are repeated until it comes or the attempts are
//! used up. All are paced: the end of a process with thousands of connections must not flood a peer.
//!
//! Outside this module: it neither sends nor reads a clock.

use crate::mad::{AddressedMad, ClosingMessage};
use std::collections::{HashSet, VecDeque};
use std::net::IpAddr;
use std::time::{Duration, Instant};
use wire::mad::{self, CmMessage};

/// The number of attempts for a message that asks for an answer.
const ATTEMPTS: u8 = 5;
/// The time between two of them: 4.096 microseconds times 2 to the power of 18.
const INTERVAL: Duration = Duration::from_micros(1_073_742);
/// Messages in one burst.
const BURST: usize = 200;
/// The time between two bursts.
const PACE: Duration = Duration::from_millis(10);
/// Most messages in the queue.
const MAX_QUEUED: usize = 1 << 18;

/// Messages that are still to be sent.
#[derive(Debug, Default)]
pub(super) struct ClosingQueue {
    /// Messages not sent yet.
    unsent: VecDeque<ClosingMessage>,
    /// Messages to repeat: the time of the next attempt, the attempts left, the message. In the order of
    /// that time.
    repeating: VecDeque<(Instant, u8, AddressedMad)>,
    /// The messages among `repeating` without an answer.
    unanswered: HashSet<AnswerKey>,
    next_burst: Option<Instant>,
}

/// Identifies the answer to a message.
#[derive(Debug, PartialEq, Eq, Hash)]
struct AnswerKey {
    remote: IpAddr,
    transaction: u64,
    /// The communication id of the dead process.
    id: u32,
}

/// The outcome of [`ClosingQueue::take_due`].
#[derive(Debug, Default)]
pub(super) struct DueMessages {
    pub(super) send: Vec<AddressedMad>,
    /// The number of messages given up.
    pub(super) unanswered: u64,
}

impl ClosingQueue {
    /// Takes the closing messages of a dead process. Returns how many it has no room for.
    pub(super) fn take(&mut self, messages: impl IntoIterator<Item = ClosingMessage>) -> u64 {
        let mut dropped = 0;
        for message in messages {
            if self.unsent.len() + self.repeating.len() < MAX_QUEUED {
                self.unsent.push_back(message);
            } else {
                dropped += 1;
            }
        }
        dropped
    }

    pub(super) fn is_empty(&self) -> bool {
        self.unsent.is_empty() && self.repeating.is_empty()
    }

    /// A MAD has arrived. Returns whether it answers one of these messages.
    pub(super) fn answered(&mut self, packet: &AddressedMad) -> bool {
        let Ok((header, CmMessage::Drep(drep))) = mad::decode(&packet.mad) else { return false };
        let remote = packet.remote.to_canonical();
        self.unanswered.remove(&AnswerKey { remote, transaction: header.transaction_id, id: drep.remote_id })
    }

    /// Takes the messages that are due.
    pub(super) fn take_due(&mut self, now: Instant) -> DueMessages {
        let mut due = DueMessages::default();
        if self.next_burst.is_some_and(|at| now < at) {
            return due;
        }
        while due.send.len() < BURST && self.repeating.front().is_some_and(|(at, ..)| *at <= now) {
            let (_, left, packet) = self.repeating.pop_front().expect("its front is due");
            let Some(key) = answer_key(&packet).filter(|key| self.unanswered.contains(key)) else { continue };
            if left == 0 {
                self.unanswered.remove(&key);
                due.unanswered += 1;
                continue;
            }
            due.send.push(packet.clone());
            self.repeating.push_back((now + INTERVAL, left - 1, packet));
        }
        while due.send.len() < BURST {
            let Some(ClosingMessage { packet, until_answered }) = self.unsent.pop_front() else { break };
            due.send.push(packet.clone());
            if until_answered && let Some(key) = answer_key(&packet) {
                self.unanswered.insert(key);
                self.repeating.push_back((now + INTERVAL, ATTEMPTS - 1, packet));
            }
        }
        self.next_burst = (!due.send.is_empty()).then(|| now + PACE);
        due
    }

    /// The time of the next [`take_due`](ClosingQueue::take_due).
    pub(super) fn next_deadline(&self, now: Instant) -> Option<Instant> {
        let due = if self.unsent.is_empty() { self.repeating.front().map(|(at, ..)| *at)? } else { now };
        Some(self.next_burst.map_or(due, |burst| due.max(burst)))
    }
}

/// The key of the answer to a DREQ. Other messages get no answer.
fn answer_key(packet: &AddressedMad) -> Option<AnswerKey> {
    let Ok((header, CmMessage::Dreq(dreq))) = mad::decode(&packet.mad) else { return None };
    Some(AnswerKey { remote: packet.remote.to_canonical(), transaction: header.transaction_id, id: dreq.local_id })
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Qpn;
    use wire::mad::{Drep, Dreq, MadHeader};

    fn packet(transaction: u8, message: &CmMessage) -> AddressedMad {
        let (local, remote) = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
        let header = MadHeader { transaction_id: transaction.into(), ..MadHeader::default() };
        AddressedMad { local, remote, interface: 0, traffic_class: 0, mad: mad::encode(&header, message) }
    }

    fn dreq(transaction: u8, until_answered: bool) -> ClosingMessage {
        let private_data = [0; Dreq::PRIVATE_LEN];
        let id = 0x0010_0000 + u32::from(transaction);
        let dreq = Dreq { local_id: id, remote_id: 9, remote_qpn: Qpn::new(1), private_data };
        ClosingMessage { packet: packet(transaction, &CmMessage::Dreq(dreq)), until_answered }
    }

    fn answer(transaction: u8) -> AddressedMad {
        let private_data = [0; Drep::PRIVATE_LEN];
        let id = 0x0010_0000 + u32::from(transaction);
        packet(transaction, &CmMessage::Drep(Drep { local_id: 9, remote_id: id, private_data }))
    }

    /// Runs until nothing is left. Returns the messages' transactions with the time of each, and
    /// how many were given up.
    fn run(queue: &mut ClosingQueue, start: Instant) -> (Vec<(u8, Duration)>, u64) {
        let (mut sent, mut unanswered, mut now) = (Vec::new(), 0, start);
        while let Some(at) = queue.next_deadline(now) {
            now = at.max(now);
            let due = queue.take_due(now);
            sent.extend(due.send.iter().map(|packet| (packet.mad[15], now - start)));
            unanswered += due.unanswered;
        }
        assert!(queue.is_empty() && queue.unanswered.is_empty());
        (sent, unanswered)
    }

    #[test]
    fn a_message_that_wants_no_answer_is_sent_once() {
        let mut queue = ClosingQueue::default();
        assert_eq!(queue.take([dreq(1, false)]), 0);
        let (sent, unanswered) = run(&mut queue, Instant::now());
        assert_eq!((sent, unanswered), (vec![(1, Duration::ZERO)], 0));
    }

    #[test]
    fn a_message_that_nobody_answers_is_sent_five_times() {
        let mut queue = ClosingQueue::default();
        queue.take([dreq(1, true)]);
        let (sent, unanswered) = run(&mut queue, Instant::now());
        let expected: Vec<_> = (0..5).map(|i| (1, INTERVAL * i)).collect();
        assert_eq!((sent, unanswered), (expected, 1));
    }

    #[test]
    fn an_answer_ends_it() {
        let mut queue = ClosingQueue::default();
        queue.take([dreq(1, true), dreq(2, true)]);
        let start = Instant::now();
        assert_eq!(queue.take_due(start).send.len(), 2);
        assert!(!queue.answered(&answer(3)), "of somebody else");
        let other_remote = AddressedMad { remote: [192, 0, 2, 3].into(), ..answer(1) };
        assert!(!queue.answered(&other_remote));
        assert!(queue.answered(&answer(1)));
        assert!(!queue.answered(&answer(1)), "once is enough");
        let (sent, unanswered) = run(&mut queue, start);
        assert!(sent.iter().all(|(transaction, _)| *transaction == 2), "{sent:?}");
        assert_eq!((sent.len(), unanswered), (4, 1));
    }

    #[test]
    fn thousands_are_paced() {
        let mut queue = ClosingQueue::default();
        queue.take((0..5000).map(|_| dreq(0, false)));
        let (sent, _) = run(&mut queue, Instant::now());
        assert_eq!(sent.len(), 5000);
        for window in sent.chunks(BURST).collect::<Vec<_>>().windows(2) {
            assert_eq!(window[1][0].1 - window[0][0].1, PACE);
        }
    }

    #[test]
    fn there_is_a_limit() {
        let mut queue = ClosingQueue::default();
        assert_eq!(queue.take((0..MAX_QUEUED + 3).map(|_| dreq(0, false))), 3);
        assert_eq!(queue.take([dreq(1, true)]), 1);
    }
}
