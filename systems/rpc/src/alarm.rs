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
        if !self.rung.load(Ordering::Acquire) {
            // The mark comes last: who takes it finds the descriptor written. A descriptor that is written behind the mark would stay
            // readable, and the thread would not sleep any more.
            let _ = rustix::io::write(&self.descriptor, &1_u64.to_ne_bytes());
            self.rung.store(true, Ordering::Release);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// True if a thread would sleep.
    fn is_silent(alarm: &Alarm) -> bool {
        let mut descriptors = [PollFd::new(&alarm.descriptor, PollFlags::IN)];
        poll(&mut descriptors, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 0
    }

    #[test]
    fn an_alarm_that_was_taken_is_silent() {
        let alarm = Alarm::new().unwrap();
        for _ in 0..2000 {
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| (0..20).for_each(|_| alarm.ring()));
                }
                let mut taken = 0;
                while taken == 0 {
                    taken += u32::from(alarm.take());
                }
            });
            alarm.take();
            assert!(is_silent(&alarm) && !alarm.take());
        }
        alarm.ring();
        assert!(!is_silent(&alarm) && alarm.take() && is_silent(&alarm));
    }
}
