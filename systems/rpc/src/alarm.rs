//! Waking a thread that sleeps until the device has something.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

/// A descriptor that other threads make readable.
pub(crate) struct Alarm {
    descriptor: OwnedFd,
    rung: AtomicBool,
}

impl Alarm {
    /// # Errors
    /// If the system has no descriptor for it.
    pub(crate) fn new() -> std::io::Result<Arc<Alarm>> {
        let descriptor = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Arc::new(Alarm { descriptor, rung: AtomicBool::new(false) }))
    }

    /// Wakes the thread, now or when it would sleep next.
    pub(crate) fn ring(&self) {
        if !self.rung.swap(true, Ordering::AcqRel) {
            let _ = rustix::io::write(&self.descriptor, &1_u64.to_ne_bytes());
        }
    }

    /// True if it was rung since the last time. The caller looks for work afterwards.
    pub(crate) fn take(&self) -> bool {
        if !self.rung.load(Ordering::Acquire) {
            return false;
        }
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.descriptor, &mut count);
        self.rung.swap(false, Ordering::AcqRel)
    }

    /// Sleeps until it is rung or the time is over.
    pub(crate) fn sleep_alone(&self, longest: Duration) {
        sleep_on(&mut [PollFd::new(&self.descriptor, PollFlags::IN)], longest);
    }

    /// Sleeps until it is rung, one of the other descriptors is readable, or the time is over.
    pub(crate) fn sleep(&self, channel: BorrowedFd<'_>, memory: Option<BorrowedFd<'_>>, longest: Duration) {
        let [ours, channel, memory] = [self.descriptor.as_fd(), channel, memory.unwrap_or(channel)]
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        sleep_on(&mut [ours, channel, memory], longest);
    }
}

fn sleep_on(descriptors: &mut [PollFd<'_>], longest: Duration) {
    let time = Timespec { tv_sec: longest.as_secs() as i64, tv_nsec: i64::from(longest.subsec_nanos()) };
    // A signal ends the sleep early, and the caller looks around.
    let _ = poll(descriptors, Some(&time));
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.ring();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}
