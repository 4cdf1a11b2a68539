//! The watch over this member's own log: it lets answers leave.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Wake, Waker};

use crate::server::replication::core::Replication;

impl Replication {
    /// Watches the log until all changes so far are safe in it, unless somebody does already.
    ///
    /// The caller has locked a table, and perhaps a session, so it wakes no answers. Those that could leave at once do so when they look, or at the
    /// next look of the steward.
    pub(super) fn watch_own_log(self: &Arc<Self>) {
        if self.own.as_ref().is_some_and(|own| !own.is_watched.swap(true, Ordering::AcqRel)) {
            watch_next(self, &Waker::from(Arc::new(OwnLogWatch(Arc::clone(self)))));
        }
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
