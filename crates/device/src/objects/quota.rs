//! The number of objects of a kind that one process may have: exactly what `query_device` reports.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::AcqRel, Ordering::Acquire};

use crate::error::Error;
use crate::objects::limits::LIMITS;

/// The quotas of one process.
#[derive(Debug)]
pub(crate) struct Quotas {
    pub(crate) pds: Quota,
    pub(crate) cqs: Quota,
    pub(crate) srqs: Quota,
}

/// The quota for objects of one kind.
#[derive(Debug)]
pub(crate) struct Quota {
    what: &'static str,
    max: u32,
    used: Arc<AtomicU32>,
}

/// One object's part of a quota. Dropping it frees that part.
#[derive(Debug)]
pub(crate) struct QuotaPermit(Arc<AtomicU32>);

impl Default for Quotas {
    fn default() -> Quotas {
        Quotas {
            pds: Quota::new("protection domain", LIMITS.max_pd),
            cqs: Quota::new("completion queue", LIMITS.max_cq),
            srqs: Quota::new("shared receive queue", LIMITS.max_srq),
        }
    }
}

impl Quota {
    pub(crate) fn new(what: &'static str, max: u32) -> Quota {
        Quota { what, max, used: Arc::default() }
    }

    /// Permits one more object.
    ///
    /// # Errors
    /// [`Error::Exhausted`] if the quota is used up.
    pub(crate) fn take(&self) -> Result<QuotaPermit, Error> {
        let one_more = |used: u32| (used < self.max).then(|| used + 1);
        match self.used.fetch_update(AcqRel, Acquire, one_more) {
            Ok(_) => Ok(QuotaPermit(self.used.clone())),
            Err(_) => Err(Error::Exhausted(self.what)),
        }
    }
}

impl Drop for QuotaPermit {
    fn drop(&mut self) {
        let used = self.0.fetch_sub(1, AcqRel);
        debug_assert!(used > 0, "each permit was counted when it was given");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_quota_permits_one_more_after_one_is_freed() {
        let quota = Quota::new("thing", 2);
        let permits = [quota.take().unwrap(), quota.take().unwrap()];
        assert!(matches!(quota.take(), Err(Error::Exhausted("thing"))));
        drop(permits);
        assert!(quota.take().is_ok());
    }
}
