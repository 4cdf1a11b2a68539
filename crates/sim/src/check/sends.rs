//! Send work requests: each completes exactly once, in order, and says what it was.

use core::fmt;
use std::collections::VecDeque;

use transport::{Completion, CompletionOp, Status, Time};

use super::{Outcome, ensure};
use crate::area::AreaPiece;

const RULE: &str = "every send work request completes exactly once and in order";

/// The check that is due when the work request is done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Effect {
    /// Nothing comes back.
    Plain,
    /// A READ: its bytes land in pieces of a slot.
    Read(Read),
    /// An atomic: the value before it lands in a slot.
    Atomic { slot: usize, piece: AreaPiece, original: Original },
    /// A window of ours is bound, or its key ends.
    Window { window: usize, live: bool },
    /// It asks for what it may not: one of these is its status.
    Refused(&'static [Status]),
}

/// The expected result of a READ.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) slot: usize,
    /// The destination of the bytes.
    pub(crate) pieces: Vec<AreaPiece>,
    /// Their source.
    pub(crate) from: AreaPiece,
    /// The bytes after everything that was posted before.
    pub(crate) expected: Vec<u8>,
    /// Changes that were posted after it: they may show, the order is not promised.
    pub(crate) later: Vec<(usize, Vec<u8>)>,
    /// A fence was posted after it: nothing posted from then on may show.
    pub(crate) fenced: bool,
}

impl fmt::Debug for Read {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "READ from {:?} to slot {}, {} changes later", self.from, self.slot, self.later.len())
    }
}

/// The expected result of an atomic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Original {
    /// This value: no other request uses the word.
    Exactly(u64),
    /// Any value that fits the results of the others: an addition.
    SharedAdd { word: usize },
    /// Likewise, a compare and swap.
    SharedSwap { word: usize },
}

/// A send work request that was posted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Posted {
    pub(crate) number: u64,
    pub(crate) op: CompletionOp,
    pub(crate) signaled: bool,
    pub(crate) len_bytes: u32,
    pub(crate) at: Time,
    pub(crate) effect: Effect,
    /// The peer's window that it goes through.
    pub(crate) through: Option<usize>,
    /// The peer's window whose key it ends.
    pub(crate) invalidates: Option<usize>,
}

/// Its outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    Done,
    Failed(Status),
}

/// The account of one send queue.
#[derive(Debug, Default)]
pub(crate) struct SendLedger {
    outstanding: VecDeque<Posted>,
    done: u64,
    failure: Option<Status>,
    progress: Time,
}

impl SendLedger {
    /// A work request was taken by the queue.
    pub(crate) fn post(&mut self, posted: Posted) {
        if self.outstanding.is_empty() {
            self.progress = posted.at;
        }
        self.outstanding.push_back(posted);
    }

    /// A completion: it stands for its own work request and for unsignaled ones before it.
    pub(crate) fn complete(&mut self, completion: &Completion, now: Time) -> Outcome<Vec<(Posted, Fate)>> {
        let Completion { wr_id, status, .. } = *completion;
        let index = self.outstanding.iter().position(|posted| posted.number == wr_id);
        ensure!(RULE, index.is_some(), "a completion for {wr_id}, which is not outstanding: {completion:?}");
        let before = index.unwrap_or_default();
        let silent = self.outstanding.iter().take(before).find(|posted| posted.signaled);
        ensure!(RULE, silent.is_none(), "{wr_id} completed before {silent:?}");
        let mut retired: Vec<(Posted, Fate)> =
            self.outstanding.drain(..before).map(|posted| (posted, Fate::Done)).collect();
        let Some(posted) = self.outstanding.pop_front() else { return Ok(retired) };
        self.progress = now;
        self.done += before as u64;
        if status == Status::Success {
            self.succeed(&posted, completion)?;
            retired.push((posted, Fate::Done));
        } else {
            ensure!(RULE, before == 0 || self.failure.is_none(), "{wr_id} failed, but {before} before it are silent");
            self.fail(&posted, status)?;
            retired.push((posted, Fate::Failed(status)));
        }
        Ok(retired)
    }

    fn succeed(&mut self, posted: &Posted, completion: &Completion) -> Outcome {
        let number = posted.number;
        ensure!(RULE, self.failure.is_none(), "{number} succeeded after a failure ({:?})", self.failure);
        ensure!(RULE, posted.signaled, "{number} is unsignaled and succeeded, but was reported");
        ensure!(RULE, completion.op == posted.op, "{number} is a {:?}: {completion:?}", posted.op);
        let counts = matches!(posted.op, CompletionOp::Read | CompletionOp::FetchAdd | CompletionOp::CompareSwap);
        ensure!(
            RULE,
            !counts || completion.byte_len == posted.len_bytes,
            "{number} has {} bytes: {completion:?}",
            posted.len_bytes
        );
        let refused = matches!(posted.effect, Effect::Refused(_));
        ensure!("nothing is done without a right", !refused, "{number} was to be refused, but succeeded: {posted:?}");
        self.done += 1;
        Ok(())
    }

    fn fail(&mut self, posted: &Posted, status: Status) -> Outcome {
        let number = posted.number;
        match (self.failure, status) {
            (Some(_), Status::WorkRequestFlushed) => {}
            (Some(first), _) => ensure!(RULE, false, "{number} failed with {status:?} after {first:?}, not flushed"),
            (None, _) => {
                self.failure = Some(status);
                let refusal = matches!(
                    status,
                    Status::RemoteAccess
                        | Status::RemoteInvalidRequest
                        | Status::RemoteOperation
                        | Status::LocalProtection
                        | Status::MwBind
                        | Status::LocalLength
                        | Status::BadResponse
                        | Status::General
                );
                let expected = matches!(&posted.effect, Effect::Refused(statuses) if statuses.contains(&status));
                ensure!("a request fails for its own fault only", !refusal || expected, "{status:?}: {posted:?}");
            }
        }
        Ok(())
    }

    /// Work requests without a completion, oldest first.
    pub(crate) fn outstanding(&self) -> &VecDeque<Posted> {
        &self.outstanding
    }

    /// The same, to add to what READs may bring.
    pub(crate) fn outstanding_mut(&mut self) -> &mut VecDeque<Posted> {
        &mut self.outstanding
    }

    /// Work requests that succeeded.
    pub(crate) fn done(&self) -> u64 {
        self.done
    }

    /// When something last happened to the oldest one.
    pub(crate) fn progress(&self) -> Time {
        self.progress
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Qpn;

    fn posted(number: u64, signaled: bool) -> Posted {
        Posted {
            number,
            op: CompletionOp::Send,
            signaled,
            len_bytes: 4,
            at: Time(0),
            effect: Effect::Plain,
            through: None,
            invalidates: None,
        }
    }

    fn ledger(signaled: &[bool]) -> SendLedger {
        let mut ledger = SendLedger::default();
        for (number, signaled) in signaled.iter().enumerate() {
            ledger.post(posted(number as u64, *signaled));
        }
        ledger
    }

    fn success(number: u64) -> Completion {
        Completion::success(number, Qpn::new(1), CompletionOp::Send, 4)
    }

    fn failure(number: u64, status: Status) -> Completion {
        Completion::failure(number, Qpn::new(1), CompletionOp::Send, status)
    }

    #[test]
    fn unsignaled_ones_are_silent() {
        let mut ledger = ledger(&[false, false, true]);
        let retired = ledger.complete(&success(2), Time(1)).expect("in order");
        assert_eq!(retired.len(), 3);
        assert_eq!(ledger.done(), 3);
        ledger.complete(&success(2), Time(1)).expect_err("twice");
    }

    #[test]
    fn order_and_silence_are_checked() {
        ledger(&[true, true]).complete(&success(1), Time(1)).expect_err("overtakes");
        ledger(&[false]).complete(&success(0), Time(1)).expect_err("should be silent");
        ledger(&[true]).complete(&success(7), Time(1)).expect_err("invented");
    }

    #[test]
    fn after_a_failure_all_are_flushed_one_by_one() {
        let mut ledger = ledger(&[true, false, true]);
        ledger.complete(&failure(0, Status::RetryExceeded), Time(1)).expect("the first");
        let mut other = SendLedger { failure: ledger.failure, ..SendLedger::default() };
        other.post(posted(1, true));
        other.complete(&success(1), Time(1)).expect_err("success after failure");
        ledger.complete(&failure(1, Status::WorkRequestFlushed), Time(1)).expect("reported though unsignaled");
        ledger.complete(&failure(2, Status::RetryExceeded), Time(1)).expect_err("must be flushed");
    }

    #[test]
    fn refusals_need_a_reason() {
        ledger(&[true]).complete(&failure(0, Status::RemoteAccess), Time(1)).expect_err("it did nothing wrong");
        let mut ledger = SendLedger::default();
        ledger.post(Posted { effect: Effect::Refused(&[Status::RemoteAccess]), ..posted(0, true) });
        ledger.complete(&failure(0, Status::RemoteAccess), Time(1)).expect("as it should be");
    }
}
