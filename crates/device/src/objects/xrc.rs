//! XRC domains: their shared receive queues by number (IB specification, Annex A14).

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::RwLock;

use crate::objects::users::{Counted, UserCount};

/// Numbers of shared receive queues have 24 bits on the wire.
const NUMBER_MASK: u32 = 0xff_ffff;

/// An XRC domain whose shared receive queues have the type `T`.
#[derive(Debug)]
pub(crate) struct XrcDomain<T> {
    users: UserCount,
    /// By number. The queues hold the domain, so it does not hold them.
    srqs: RwLock<HashMap<u32, Weak<T>>>,
}

impl<T> Counted for XrcDomain<T> {
    const WHAT: &'static str = "XRC domain";

    fn users(&self) -> &UserCount {
        &self.users
    }
}

impl<T> XrcDomain<T> {
    pub(crate) fn new() -> XrcDomain<T> {
        XrcDomain { users: UserCount::default(), srqs: RwLock::default() }
    }

    /// Enters the queue that `make` makes for the first number of `next` that is free in this domain.
    pub(crate) fn enter(&self, next: impl Fn() -> u32, make: impl FnOnce(u32) -> T) -> Arc<T> {
        let mut srqs = self.srqs.write();
        let number = loop {
            let number = next() & NUMBER_MASK;
            if number != 0 && !srqs.contains_key(&number) {
                break number;
            }
        };
        let srq = Arc::new(make(number));
        srqs.insert(number, Arc::downgrade(&srq));
        srq
    }

    /// Takes the queue of that number out.
    pub(crate) fn remove(&self, number: u32) {
        self.srqs.write().remove(&number);
    }

    pub(crate) fn find(&self, number: u32) -> Option<Arc<T>> {
        self.srqs.read().get(&number)?.upgrade()
    }

    /// Whether `is_wanted` is true for any of its queues.
    pub(crate) fn any(&self, is_wanted: impl Fn(&T) -> bool) -> bool {
        // The last hold on a queue must not be dropped under the lock: the queue takes the lock when it ends.
        let srqs: Vec<_> = self.srqs.read().values().filter_map(Weak::upgrade).collect();
        srqs.iter().any(|srq| is_wanted(srq))
    }
}
