//! Receive work requests: each completes exactly once, in the order of its queue.

use std::collections::{BTreeMap, VecDeque};

use transport::Completion;

use super::{Outcome, ensure};
use crate::area::AreaPiece;

const RULE: &str = "every receive work request completes exactly once and in order";

/// A receive work request that was posted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PostedRecv {
    pub(crate) slot: usize,
    pub(crate) pieces: Vec<AreaPiece>,
}

/// The account of one receive queue, shared or not.
#[derive(Debug, Default)]
pub(crate) struct RecvLedger {
    next: u64,
    outstanding: BTreeMap<u64, PostedRecv>,
}

impl RecvLedger {
    /// The number of the next work request.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// It was taken by the queue.
    pub(crate) fn post(&mut self, posted: PostedRecv) {
        self.outstanding.insert(self.next, posted);
        self.next += 1;
    }

    /// A completion from a queue pair's own queue: the oldest.
    pub(crate) fn complete_oldest(&mut self, completion: &Completion) -> Outcome<PostedRecv> {
        let oldest = self.outstanding.first_key_value().map(|(number, _)| *number);
        let wr_id = completion.wr_id;
        ensure!(RULE, oldest == Some(wr_id), "{wr_id} completed, but the oldest is {oldest:?}: {completion:?}");
        self.complete(completion)
    }

    /// A completion from a shared queue: the oldest that the queue pair has taken.
    pub(crate) fn complete_taken(&mut self, completion: &Completion, taken: &mut VecDeque<u64>) -> Outcome<PostedRecv> {
        let (wr_id, oldest) = (completion.wr_id, taken.pop_front());
        ensure!(RULE, oldest == Some(wr_id), "{wr_id} completed, but the oldest taken is {oldest:?}: {completion:?}");
        self.complete(completion)
    }

    fn complete(&mut self, completion: &Completion) -> Outcome<PostedRecv> {
        let posted = self.outstanding.remove(&completion.wr_id);
        ensure!(RULE, posted.is_some(), "{} is not outstanding: {completion:?}", completion.wr_id);
        Ok(posted.expect("checked"))
    }

    /// Work requests without a completion.
    pub(crate) fn outstanding(&self) -> impl ExactSizeIterator<Item = &PostedRecv> {
        self.outstanding.values()
    }
}
