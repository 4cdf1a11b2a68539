//! Figures of a table and of its server.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// Figures of a table since the server started, and of its server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TableFigures {
    /// Keys now.
    pub keys: u64,
    /// Bytes of the table's memory in use now, and of the server's notes about keys.
    pub used_bytes: u64,
    /// The bound of both.
    pub max_bytes: u64,
    /// Clients now.
    pub clients: u64,
    /// GETs by request.
    pub gets: u64,
    /// GETs by request that found no key.
    pub misses: u64,
    /// Answers to requests for ranges.
    pub ranges: u64,
    /// GETs by READs, as far as clients have reported them.
    pub reported_gets: u64,
    /// PUTs, counters and expiries that changed a key.
    pub puts: u64,
    /// Keys that clients deleted.
    pub deletes: u64,
    /// PUTs and DELETEs that found the key in another state.
    pub conflicts: u64,
    /// Keys that made way for others.
    pub evicted: u64,
    /// Keys whose time was over.
    pub expired: u64,
    /// Requests that were refused because the memory is full.
    pub refused_full: u64,
    /// Locks of clients that were gone, and were ended.
    pub locks_ended: u64,
    /// Keys whose value a client destroyed that broke the rules of PUTs alone.
    pub lost: u64,
    /// Processor time of the server's process, in nanoseconds.
    pub server_cpu_ns: u64,
    /// The server's clock.
    pub server_ns: u64,
}

/// Counts that grow.
#[derive(Debug, Default)]
pub(crate) struct TableCounts {
    pub(crate) gets: AtomicU64,
    pub(crate) misses: AtomicU64,
    pub(crate) ranges: AtomicU64,
    pub(crate) reported_gets: AtomicU64,
    pub(crate) puts: AtomicU64,
    pub(crate) deletes: AtomicU64,
    pub(crate) conflicts: AtomicU64,
    pub(crate) evicted: AtomicU64,
    pub(crate) expired: AtomicU64,
    pub(crate) refused_full: AtomicU64,
    pub(crate) locks_ended: AtomicU64,
    pub(crate) lost: AtomicU64,
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl TableCounts {
    pub(crate) fn fill(&self, figures: &mut TableFigures) {
        let pairs = [
            (&self.gets, &mut figures.gets),
            (&self.misses, &mut figures.misses),
            (&self.ranges, &mut figures.ranges),
            (&self.reported_gets, &mut figures.reported_gets),
            (&self.puts, &mut figures.puts),
            (&self.deletes, &mut figures.deletes),
            (&self.conflicts, &mut figures.conflicts),
            (&self.evicted, &mut figures.evicted),
            (&self.expired, &mut figures.expired),
            (&self.refused_full, &mut figures.refused_full),
            (&self.locks_ended, &mut figures.locks_ended),
            (&self.lost, &mut figures.lost),
        ];
        for (counter, figure) in pairs {
            *figure = counter.load(Ordering::Relaxed);
        }
    }
}
