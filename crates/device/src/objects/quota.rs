//! How many objects of a kind a process may have: what `query_device` says, no more and no less.

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

/// Objects of one kind.
#[derive(Debug)]
pub(crate) struct Quota {
    what: &'static str,
    most: u32,
    taken: Arc<AtomicU32>,
}

/// One object's place. Dropping it frees the place.
#[derive(Debug)]
pub(crate) struct Place(Arc<AtomicU32>);

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
    fn new(what: &'static str, most: u32) -> Quota {
        Quota { what, most, taken: Arc::default() }
    }

    /// A place for one more.
    pub(crate) fn take(&self) -> Result<Place, Error> {
        let one_more = |taken: u32| (taken < self.most).then(|| taken + 1);
        match self.taken.fetch_update(AcqRel, Acquire, one_more) {
            Ok(_) => Ok(Place(self.taken.clone())),
            Err(_) => Err(Error::Exhausted(self.what)),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_quota_takes_one_more_when_one_has_gone() {
        let quota = Quota::new("thing", 2);
        let places = [quota.take().unwrap(), quota.take().unwrap()];
        assert!(matches!(quota.take(), Err(Error::Exhausted("thing"))));
        drop(places);
        assert!(quota.take().is_ok());
    }
}
