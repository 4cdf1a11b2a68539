//! The sleep of a thread that polls memory: requests or replies that peers WRITE, and no completion tells.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use longarm::{Device, MemoryWatch};

/// Naps on devices that do not tell of changes, from the first to the longest.
const NAPS: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(1));

/// See the module.
#[derive(Debug)]
pub(crate) struct MemorySleep {
    /// `None` for devices of the system, and where the process has no descriptor left.
    watch: Option<MemoryWatch>,
    is_armed: bool,
    nap: Duration,
}

impl MemorySleep {
    pub(crate) fn new(device: &Device) -> MemorySleep {
        MemorySleep { watch: device.memory_watch().ok(), is_armed: false, nap: NAPS.0 }
    }

    /// The thread has found something: it will be back soon.
    pub(crate) fn found(&mut self) {
        self.nap = NAPS.0;
    }

    /// The thread is about to sleep, and would for `longest`. Returns the time for which it may, after it has looked at
    /// the memory once more.
    pub(crate) fn begin(&mut self, longest: Duration) -> Duration {
        self.is_armed = self.watch.as_mut().is_some_and(MemoryWatch::arm);
        if self.is_armed {
            return longest;
        }
        self.nap().min(longest)
    }

    /// The time of a nap, for a thread that nothing wakes: longer each time.
    pub(crate) fn nap(&mut self) -> Duration {
        let nap = self.nap;
        self.nap = (nap * 2).min(NAPS.1);
        nap
    }

    /// The thread is awake again.
    pub(crate) fn end(&mut self) {
        if let (true, Some(watch)) = (std::mem::take(&mut self.is_armed), &mut self.watch) {
            watch.disarm();
        }
    }

    /// The descriptor that is readable after a change, while a watch is armed. Otherwise it may be so all the time.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.watch.as_ref().filter(|_| self.is_armed).map(MemoryWatch::as_fd)
    }
}
