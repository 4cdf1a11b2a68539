//! The events of a completion channel that nobody has fetched, and the descriptor that tells of them.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::objects::signal::PendingSignal;
use crate::objects::users::{Counted, UserCount};

/// A completion channel whose events come from sources of type `T`: the completion queues.
#[derive(Debug)]
pub(crate) struct CompletionEvents<T> {
    signal: PendingSignal,
    pending: Mutex<VecDeque<Arc<T>>>,
    users: UserCount,
}

impl<T> Counted for CompletionEvents<T> {
    const WHAT: &'static str = "completion channel";

    fn users(&self) -> &UserCount {
        &self.users
    }
}

impl<T> CompletionEvents<T> {
    pub(crate) fn new() -> io::Result<CompletionEvents<T>> {
        Ok(CompletionEvents { signal: PendingSignal::new()?, pending: Mutex::default(), users: UserCount::default() })
    }

    /// The descriptor, readable exactly while events are pending.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.signal.as_fd()
    }

    /// Adds an event.
    pub(crate) fn push(&self, source: Arc<T>) {
        let mut pending = self.pending.lock();
        pending.push_back(source);
        self.signal.raise();
    }

    /// Takes the oldest event.
    pub(crate) fn take(&self) -> Option<Arc<T>> {
        let mut pending = self.pending.lock();
        let source = pending.pop_front()?;
        self.signal.lower();
        Some(source)
    }

    /// Drops the pending events of a source that goes away.
    pub(crate) fn forget(&self, source: &T) {
        let mut pending = self.pending.lock();
        let before = pending.len();
        pending.retain(|other| !std::ptr::eq(Arc::as_ptr(other), source));
        for _ in pending.len()..before {
            self.signal.lower();
        }
    }
}
