//! This member's own log on disk, if answers wait for it: it is like one more backup.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use journal::Journal;

/// A log that has made changes safe before their answers leave.
pub(super) struct OwnLog {
    pub(super) journal: Arc<Journal>,
    /// Somebody will hear of the next mark.
    pub(super) is_watched: AtomicBool,
    pub(super) has_failed: AtomicBool,
}

impl OwnLog {
    pub(super) fn new(journal: Arc<Journal>) -> OwnLog {
        OwnLog { journal, is_watched: AtomicBool::new(false), has_failed: AtomicBool::new(false) }
    }

    /// Nobody knows which of the last changes are on disk, and there will be no others.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }
}
