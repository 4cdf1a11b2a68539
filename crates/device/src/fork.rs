//! Whether this process is a fork of the one that made something.
//!
//! A fork copies our memory but not our background thread, and shares our sockets: a child
//! that went on with its parent's engine would steal its packets and wait for locks that
//! nobody will release. So everything asks here first. Asking costs one relaxed load.
#![allow(unsafe_code)]

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

static GENERATION: AtomicU32 = AtomicU32::new(0);

/// How many forks lie between this process and the first that called [`watch`].
#[inline]
pub(crate) fn generation() -> u32 {
    GENERATION.load(Relaxed)
}

/// Begins to count. Every later fork through the C library is noticed.
pub(crate) fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler only adds to an atomic, which is allowed in a child of a
        // process with many threads, and it lives as long as the program.
        let refused = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        if refused != 0 {
            log::warn!("forks will go unnoticed: pthread_atfork failed with error {refused}");
        }
    });
}

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Relaxed);
}
