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
pub(super) fn watch(replication: &Arc<Replication>) {
    if replication.own.as_ref().is_some_and(|own| !own.is_watched.swap(true, Ordering::AcqRel)) {
        Arc::new(OwnLogWatch(Arc::clone(replication))).wake();
    }
}

/// Wakes up in the thread of the log, or in that which begins to watch.
struct OwnLogWatch(Arc<Replication>);

impl Wake for OwnLogWatch {
    fn wake(self: Arc<Self>) {
        let (replication, waker) = (&self.0, Waker::from(Arc::clone(&self)));
        let Some(own) = &replication.own else { return };
        loop {
            let mut sender = replication.sender();
            sender.logged(own.journal.durable());
            let Some(mark) = sender.next_mark() else {
                // Under the lock: the next change finds that nobody watches.
                own.is_watched.store(false, Ordering::Release);
                break;
            };
            drop(sender);
            replication.wake_answers();
            match own.journal.poll_durable(mark, &mut Context::from_waker(&waker)) {
                Poll::Pending => return,
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => {
                    own.has_failed.store(true, Ordering::Release);
                    break;
                }
            }
        }
        replication.wake_answers();
    }
}
