//! A link to another process as queue pairs use it.

use std::collections::HashSet;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::Mutex;
use shm::{Link, Object};

/// The number of objects of one peer that are asked for at most: no honest peer needs more.
const MAX_ASKED: usize = 4096;

/// A link in use.
pub(crate) struct ShmLink {
    link: Link,
    /// Whether this process may access the peer's memory; if not, every request is a frame.
    direct: AtomicBool,
    /// Whether a capture is on. It is next to the flag that every request reads in any case.
    recorded: AtomicBool,
    /// Objects that were missing and asked for.
    asked: Mutex<HashSet<u32>>,
}

impl ShmLink {
    pub(crate) fn new(link: Link, direct: bool, recorded: bool) -> ShmLink {
        ShmLink { link, direct: AtomicBool::new(direct), recorded: AtomicBool::new(recorded), asked: Mutex::default() }
    }

    pub(super) fn set_direct(&self, direct: bool) {
        self.direct.store(direct, Relaxed);
    }

    pub(super) fn set_recorded(&self, recorded: bool) {
        self.recorded.store(recorded, Relaxed);
    }

    /// An object of the peer. If it is missing, the peer is asked for it, once.
    #[inline]
    pub(crate) fn object(&self, object: u32) -> Option<Object> {
        self.peer().object(object).or_else(|| self.ask_for_object(object))
    }

    #[cold]
    fn ask_for_object(&self, object: u32) -> Option<Object> {
        let mut asked = self.asked.lock();
        if asked.contains(&object) || asked.len() >= MAX_ASKED {
            return None;
        }
        let found = self.link.object(object);
        if found.is_none() {
            asked.insert(object);
            self.link.want_object(object);
        }
        found
    }

    #[inline]
    pub(crate) fn is_recorded(&self) -> bool {
        self.recorded.load(Relaxed)
    }

    /// Whether it leads back to this process.
    #[inline]
    pub(crate) fn is_own(&self) -> bool {
        self.link.side() == shm::LinkSide::Both
    }

    #[inline]
    pub(crate) fn is_direct(&self) -> bool {
        self.direct.load(Relaxed)
    }
}

impl Deref for ShmLink {
    type Target = Link;

    #[inline]
    fn deref(&self) -> &Link {
        &self.link
    }
}
