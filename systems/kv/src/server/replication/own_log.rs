//! This member's own log on disk, if answers wait for it: it is like one more backup.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use journal::Journal;

use crate::server::replication::core::Replication;

/// A log that has made changes safe before their answers leave.
pub(super) struct OwnLog {
    pub(super) journal: Arc<Journal>,
    /// Somebody will hear of the next mark.
    is_watched: AtomicBool,
    has_failed: AtomicBool,
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

/// Watches the log until all changes so far are safe in it, unless somebody does already.
///
/// The caller has locked a table, and perhaps a session, so it wakes no answers. Those that could leave at once do so when they look, or at the
/// next look of the steward.
pub(super) fn watch(replication: &Arc<Replication>) {
    if replication.own.as_ref().is_some_and(|own| !own.is_watched.swap(true, Ordering::AcqRel)) {
        watch_next(replication, &Waker::from(Arc::new(OwnLogWatch(Arc::clone(replication)))));
    }
}

/// Asks to be woken at the next mark that is not safe. Returns true if some became safe meanwhile, or never will.
fn watch_next(replication: &Replication, waker: &Waker) -> bool {
    let Some(own) = &replication.own else { return false };
    let mut is_news = false;
    loop {
        let sender = replication.sender();
        let Some(mark) = sender.next_mark() else {
            // Under the lock: the next change finds that nobody watches.
            own.is_watched.store(false, Ordering::Release);
            return is_news;
        };
        drop(sender);
        match own.journal.poll_durable(mark, &mut Context::from_waker(waker)) {
            Poll::Pending => return is_news,
            Poll::Ready(Ok(())) => replication.sender().logged(own.journal.durable()),
            Poll::Ready(Err(_)) => {
                own.has_failed.store(true, Ordering::Release);
                return true;
            }
        }
        is_news = true;
    }
}

/// Wakes up in the thread of the log.
struct OwnLogWatch(Arc<Replication>);

impl Wake for OwnLogWatch {
    fn wake(self: Arc<Self>) {
        if watch_next(&self.0, &Waker::from(Arc::clone(&self))) {
            self.0.wake_answers();
        }
    }
}
