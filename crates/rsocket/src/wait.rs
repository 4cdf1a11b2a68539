//! Waiting for sockets, from several threads at once.
//!
//! A waiting thread sleeps on the descriptors of a socket's completions and connection events. But one
//! thread may take the completion that another waits for, or shut the socket down. So each thread also
//! has a bell, which is on the socket's list while it waits. A thread that has changed the socket's
//! state rings the bells of the others.

use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd};

use crate::errno::{Errno, Result};

/// Wakes one thread.
#[derive(Debug)]
pub(crate) struct Bell {
    fd: OwnedFd,
    /// The process that made it: a forked child must not ring its parent's bell.
    process: u32,
}

thread_local! {
    static MINE: RefCell<Weak<Bell>> = const { RefCell::new(Weak::new()) };
}

/// The bells of all threads, for as long as there are sockets.
static KEPT: Mutex<Vec<Arc<Bell>>> = Mutex::new(Vec::new());

/// The last socket is closed: nobody need be woken. A thread that waits nevertheless keeps its bell.
pub(crate) fn forget_bells() {
    let forgotten = std::mem::take(&mut *KEPT.lock());
    drop(forgotten);
}

impl Bell {
    /// This thread's.
    pub(crate) fn mine() -> Result<Arc<Bell>> {
        let process = std::process::id();
        MINE.with_borrow_mut(|mine| match mine.upgrade() {
            Some(bell) if bell.process == process => Ok(bell),
            _ => {
                let bell = Arc::new(Bell::new(process)?);
                *mine = Arc::downgrade(&bell);
                let mut kept = KEPT.lock();
                // Those of threads that have ended.
                kept.retain(|bell| Arc::weak_count(bell) > 0);
                kept.push(Arc::clone(&bell));
                Ok(bell)
            }
        })
    }

    fn new(process: u32) -> Result<Bell> {
        let fd = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Bell { fd: guest::high(fd), process })
    }

    fn is_mine(&self) -> bool {
        MINE.with_borrow(|mine| std::ptr::eq(mine.as_ptr(), self))
    }

    fn ring(&self) {
        let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
    }

    /// Silences it.
    pub(crate) fn hush(&self) {
        let _ = rustix::io::read(&self.fd, &mut [0; 8]);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The bells of the threads that wait for a socket.
#[derive(Debug, Default)]
pub(crate) struct Bells {
    hung: Mutex<Vec<Arc<Bell>>>,
}

/// A bell on that list; removed when this is dropped.
#[derive(Debug)]
pub(crate) struct BellGuard<'a> {
    bells: &'a Bells,
    bell: Arc<Bell>,
}

impl Bells {
    /// Adds a bell.
    pub(crate) fn hang(&self, bell: &Arc<Bell>) -> BellGuard<'_> {
        self.hung.lock().push(Arc::clone(bell));
        BellGuard { bells: self, bell: Arc::clone(bell) }
    }

    /// Rings all but this thread's.
    pub(crate) fn ring(&self) {
        self.hung.lock().iter().filter(|bell| !bell.is_mine()).for_each(|bell| bell.ring());
    }
}

impl Drop for BellGuard<'_> {
    fn drop(&mut self) {
        let mut hung = self.bells.hung.lock();
        if let Some(at) = hung.iter().position(|bell| Arc::ptr_eq(bell, &self.bell)) {
            hung.swap_remove(at);
        }
    }
}

/// The time that a call may wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallPatience {
    until: Until,
}

#[derive(Clone, Copy, Debug)]
enum Until {
    Now,
    Then(Instant),
    Ever,
}

impl CallPatience {
    /// Not at all.
    pub(crate) const NONE: CallPatience = CallPatience { until: Until::Now };
    /// As long as it takes.
    pub(crate) const ENDLESS: CallPatience = CallPatience { until: Until::Ever };

    /// Patience of that length; without a limit if no clock can count it.
    pub(crate) fn of(time: Duration) -> CallPatience {
        CallPatience { until: Instant::now().checked_add(time).map_or(Until::Ever, Until::Then) }
    }

    /// True if the call must not wait.
    pub(crate) fn is_none(self) -> bool {
        matches!(self.until, Until::Now)
    }

    /// The time that is left, if there is an end; nothing left is an error.
    pub(crate) fn left(self) -> Result<Option<Timespec>> {
        match self.until {
            Until::Now => Err(Errno::AGAIN),
            Until::Ever => Ok(None),
            Until::Then(end) => match end.saturating_duration_since(Instant::now()) {
                Duration::ZERO => Err(Errno::AGAIN),
                left => Ok(Timespec::try_from(left).ok()),
            },
        }
    }
}

/// Sleeps until one of the descriptors is readable or the bell rings, and silences the bell.
///
/// # Errors
/// `EAGAIN` when patience ends, `EINTR` after a signal.
pub(crate) fn sleep(fds: &[BorrowedFd<'_>], bell: &Bell, patience: CallPatience) -> Result<()> {
    let left = patience.left()?;
    let mut polled: smallvec::SmallVec<[PollFd<'_>; 4]> =
        fds.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    polled.push(PollFd::new(bell, PollFlags::IN));
    if rustix::event::poll(&mut polled, left.as_ref())? == 0 {
        return Err(Errno::AGAIN);
    }
    if polled.last().is_some_and(|bell| !bell.revents().is_empty()) {
        bell.hush();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bells_of_others_ring() {
        let bells = Bells::default();
        let mine = Bell::mine().unwrap();
        let _hung = bells.hang(&mine);
        std::thread::scope(|scope| {
            scope.spawn(|| bells.ring());
        });
        sleep(&[], &mine, CallPatience::ENDLESS).unwrap();
        bells.ring();
        assert_eq!(sleep(&[], &mine, CallPatience::of(Duration::from_millis(1))), Err(Errno::AGAIN));
    }

    #[test]
    fn a_bell_taken_down_is_silent() {
        let bells = Bells::default();
        let bell = Arc::new(Bell::new(std::process::id()).unwrap());
        drop(bells.hang(&bell));
        bells.ring();
        assert!(bells.hung.lock().is_empty());
        assert!(CallPatience::NONE.is_none() && CallPatience::NONE.left().is_err());
    }
}
