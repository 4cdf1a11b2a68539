//! Withdrawals, as the polling thread hears of them and other threads ask for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// No request: numbers have 32 bits.
const NONE: u64 = u64::MAX;

/// The number of the request of a slot that was withdrawn last, whether it has arrived or not. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Withdrawn(Arc<AtomicU64>);

impl Default for Withdrawn {
    fn default() -> Withdrawn {
        Withdrawn(Arc::new(AtomicU64::new(NONE)))
    }
}

impl Withdrawn {
    /// The request with this number is withdrawn.
    pub(crate) fn set(&self, number: u32) {
        self.0.store(number.into(), Ordering::Relaxed);
    }

    /// True if it is the request with this number.
    pub(crate) fn has(&self, number: u32) -> bool {
        self.0.load(Ordering::Relaxed) == u64::from(number)
    }
}
