//! Threads that sleep on descriptors until a peer changes this process's memory.
//!
//! A program that polls memory gets no completion for a WRITE. Before such a thread sleeps it arms a watch, looks at the
//! memory once more, and then waits for the watch's descriptor. Three things make that readable:
//!
//! ```text
//!   a peer on this host changes mapped memory ─► the bell, on which the descriptor waits, too
//!   another thread hears that bell first      ─► ring
//!   a thread takes a WRITE out of a socket    ─► ring
//!   or lane
//! ```
//!
//! Both sides store, then load: the one the memory, then the number of armed watches; the other that number, then the
//! memory. So at least one sees the other's store.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed, Ordering::SeqCst, fence};

use parking_lot::Mutex;

use crate::schedule::background::wake_descriptor;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct MemoryWatchers {
    /// A watch was armed at some time: from then on threads that change memory look here.
    are_known: AtomicBool,
    armed: AtomicU32,
    bells: Mutex<Vec<Arc<ChangeBell>>>,
}

/// The descriptor of one watch that other threads of this process make readable.
#[derive(Debug)]
pub(crate) struct ChangeBell {
    pub(crate) descriptor: OwnedFd,
    rung: AtomicBool,
}

impl ChangeBell {
    /// # Errors
    /// If the process has no descriptor left.
    pub(crate) fn new() -> io::Result<Arc<ChangeBell>> {
        Ok(Arc::new(ChangeBell { descriptor: wake_descriptor()?, rung: AtomicBool::new(false) }))
    }

    fn ring(&self) {
        if !self.rung.swap(true, SeqCst) {
            let _ = rustix::io::write(&self.descriptor, &1u64.to_ne_bytes());
        }
    }

    /// Makes the descriptor unreadable. Nobody must be able to ring it: it has [left](MemoryWatchers::leave).
    pub(crate) fn silence(&self) {
        if self.rung.swap(false, SeqCst) {
            let _ = rustix::io::read(&self.descriptor, &mut [0; 8]);
        }
    }
}

impl MemoryWatchers {
    /// Makes threads look here when they change memory. False if they did not until now: they may take a moment to hear it.
    pub(crate) fn announce(&self) -> bool {
        self.are_known.swap(true, SeqCst)
    }

    /// Arms a watch.
    pub(crate) fn enter(&self, bell: &Arc<ChangeBell>) {
        self.bells.lock().push(bell.clone());
        self.armed.fetch_add(1, SeqCst);
    }

    /// Disarms a watch. Its bell does not ring any more.
    pub(crate) fn leave(&self, bell: &Arc<ChangeBell>) {
        self.armed.fetch_sub(1, SeqCst);
        self.bells.lock().retain(|other| !Arc::ptr_eq(other, bell));
    }

    /// Whether a thread sleeps, or is about to.
    pub(crate) fn are_armed(&self) -> bool {
        self.armed.load(SeqCst) > 0
    }

    /// Notes that memory may have changed.
    #[inline]
    pub(crate) fn note_change(&self) {
        if self.are_known.load(Relaxed) {
            self.note_change_now();
        }
    }

    #[cold]
    fn note_change_now(&self) {
        fence(SeqCst);
        if self.are_armed() {
            self.ring();
        }
    }

    /// Rings the bells of all armed watches.
    pub(crate) fn ring(&self) {
        self.bells.lock().iter().for_each(|bell| bell.ring());
    }
}
