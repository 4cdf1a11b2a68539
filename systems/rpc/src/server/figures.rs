//! Figures of a polling thread.

use std::sync::atomic::AtomicU64;

/// Figures of a worker, for other threads.
#[derive(Debug, Default)]
pub(crate) struct WorkerFigures {
    pub(crate) sessions: AtomicU64,
    pub(crate) accepted: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) repeated: AtomicU64,
    pub(crate) malformed: AtomicU64,
    pub(crate) unauthenticated: AtomicU64,
    pub(crate) late: AtomicU64,
    pub(crate) cancelled: AtomicU64,
    pub(crate) dropped: AtomicU64,
}
