//! The doorbells of one queue pair: whether the application fills a pipeline, so that a small request can wait.

/// The number of doorbells, rung while requests were outstanding, after which the application counts as filling a
/// pipeline.
const PIPELINE_DOORBELLS: u32 = 8;
/// The most requests, or bytes, that are deferred: a full group of packets, or enough for a system call.
const MAX_DEFERRED_REQUESTS: u32 = 32;
const MAX_DEFERRED_BYTES: u64 = 8 << 10;

/// A doorbell that is being rung.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RungDoorbell {
    /// Whether requests before it are outstanding.
    pub(crate) outstanding: bool,
    /// Whether the application says that another follows.
    pub(crate) more: bool,
    /// Its requests and their bytes.
    pub(crate) requests: u32,
    pub(crate) bytes: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Doorbells {
    /// Doorbells in a row that were rung while requests were outstanding.
    busy: u32,
    /// Requests and bytes since packets were last built.
    requests: u32,
    bytes: u64,
}

impl Doorbells {
    /// Counts one doorbell. True if the application is filling a pipeline, or says that more follows, and this doorbell
    /// can wait for the next.
    #[inline]
    pub(crate) fn ring(&mut self, rung: RungDoorbell) -> bool {
        self.busy = if rung.outstanding { self.busy.saturating_add(1) } else { 0 };
        self.requests += rung.requests;
        self.bytes += rung.bytes;
        (rung.more || self.busy > PIPELINE_DOORBELLS) && self.is_small()
    }

    /// Whether the last of `succession` doorbells, of any queue pairs, was small. Then the application is filling many
    /// queue pairs, and this doorbell can wait for the others.
    #[inline]
    pub(crate) fn is_one_of_many(&self, succession: u32) -> bool {
        succession > PIPELINE_DOORBELLS && self.is_small()
    }

    #[inline]
    fn is_small(&self) -> bool {
        self.requests < MAX_DEFERRED_REQUESTS && self.bytes < MAX_DEFERRED_BYTES
    }

    /// Packets of all requests are built.
    #[inline]
    pub(crate) fn answered(&mut self) {
        (self.requests, self.bytes) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rung(outstanding: bool, requests: u32, bytes: u64) -> RungDoorbell {
        RungDoorbell { outstanding, more: false, requests, bytes }
    }

    #[test]
    fn only_a_pipeline_waits() {
        let mut doorbells = Doorbells::default();
        assert!((0..100).all(|_| !doorbells.ring(rung(false, 1, 64))), "nothing is outstanding");
        assert!((0..PIPELINE_DOORBELLS).all(|_| !doorbells.ring(rung(true, 1, 64))));
        doorbells.answered();
        assert!(doorbells.ring(rung(true, 1, 64)));
        assert!(!doorbells.ring(rung(false, 1, 64)));
        assert!(!doorbells.ring(rung(true, 1, 64)), "the count starts again");
    }

    #[test]
    fn much_does_not_wait() {
        let mut doorbells = Doorbells::default();
        assert!((0..PIPELINE_DOORBELLS).all(|_| !doorbells.ring(rung(true, 1, 64))));
        doorbells.answered();
        assert!((1..MAX_DEFERRED_REQUESTS).all(|_| doorbells.ring(rung(true, 1, 64))));
        assert!(!doorbells.ring(rung(true, 1, 64)));
        doorbells.answered();
        assert!(!doorbells.ring(rung(true, 1, MAX_DEFERRED_BYTES)), "large ones are worth a call each");
    }

    #[test]
    fn one_of_many_waits_unless_it_is_large() {
        let mut doorbells = Doorbells::default();
        assert!(!doorbells.ring(rung(false, 4, 256)));
        assert!(!doorbells.is_one_of_many(PIPELINE_DOORBELLS));
        assert!(doorbells.is_one_of_many(PIPELINE_DOORBELLS + 1));
        doorbells.ring(rung(false, 4, MAX_DEFERRED_BYTES));
        assert!(!doorbells.is_one_of_many(PIPELINE_DOORBELLS + 1));
    }

    #[test]
    fn a_doorbell_waits_for_more_unless_it_is_large() {
        let mut doorbells = Doorbells::default();
        let more = |bytes| RungDoorbell { more: true, ..rung(false, 1, bytes) };
        assert!(doorbells.ring(more(64)));
        assert!(!doorbells.ring(rung(false, 1, 64)), "nothing follows");
        doorbells.answered();
        assert!(!doorbells.ring(more(MAX_DEFERRED_BYTES)));
        doorbells.answered();
        assert!((1..MAX_DEFERRED_REQUESTS).all(|_| doorbells.ring(more(64))));
        assert!(!doorbells.ring(more(64)), "a full group");
    }
}
