//! Numbers of protection domains.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The number of a protection domain, unique within the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DomainId(u64);

impl DomainId {
    /// A number that no other domain of this process has.
    pub(super) fn next() -> DomainId {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        DomainId(NEXT.fetch_add(1, Relaxed))
    }
}
