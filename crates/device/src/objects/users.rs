//! Counts the users of an object, for the verbs' rule that a parent with children is busy.
//!
//! Handles keep their parents alive by themselves. This count serves the explicit `destroy` calls: they refuse while
//! children exist. Once they have succeeded, the object admits no new user.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::AcqRel, Ordering::Acquire};

use crate::error::Error;

const CLOSED: u32 = 1 << 31;

/// The number of users of an object, until the object is closed.
#[derive(Debug, Default)]
pub(crate) struct UserCount(AtomicU32);

impl UserCount {
    /// Adds a user. False if the object is closed.
    fn enter(&self) -> bool {
        self.0.fetch_update(AcqRel, Acquire, |n| (n & CLOSED == 0).then_some(n + 1)).is_ok()
    }

    fn leave(&self) {
        let before = self.0.fetch_sub(1, AcqRel);
        debug_assert!(before & !CLOSED > 0, "each lease entered before it leaves");
    }

    /// Closes the object.
    ///
    /// # Errors
    /// [`Error::Busy`] while it has users, [`Error::Destroyed`] if it is closed already.
    pub(crate) fn close(&self, what: &'static str) -> Result<(), Error> {
        match self.0.compare_exchange(0, CLOSED, AcqRel, Acquire) {
            Ok(_) => Ok(()),
            Err(n) if n & CLOSED != 0 => Err(Error::Destroyed(what)),
            Err(users) => Err(Error::Busy { what, users }),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.0.load(Acquire) & CLOSED != 0
    }
}

/// An object that counts its users.
pub(crate) trait Counted {
    /// The kind of object, for error messages.
    const WHAT: &'static str;

    fn users(&self) -> &UserCount;
}

/// One user's hold on an object.
#[derive(Debug)]
pub(crate) struct Lease<T: Counted>(Arc<T>);

impl<T: Counted> Lease<T> {
    /// Holds `object`.
    ///
    /// # Errors
    /// [`Error::Destroyed`] if it was destroyed.
    pub(crate) fn new(object: &Arc<T>) -> Result<Lease<T>, Error> {
        if object.users().enter() { Ok(Lease(object.clone())) } else { Err(Error::Destroyed(T::WHAT)) }
    }

    #[inline]
    pub(crate) fn object(&self) -> &Arc<T> {
        &self.0
    }
}

impl<T: Counted> Deref for Lease<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Counted> Drop for Lease<T> {
    fn drop(&mut self) {
        self.0.users().leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Thing(UserCount);

    impl Counted for Thing {
        const WHAT: &'static str = "thing";

        fn users(&self) -> &UserCount {
            &self.0
        }
    }

    #[test]
    fn an_object_closes_only_without_users() {
        let thing = Arc::new(Thing(UserCount::default()));
        let lease = Lease::new(&thing).unwrap();
        assert!(matches!(thing.0.close("thing"), Err(Error::Busy { users: 1, .. })));
        drop(lease);
        thing.0.close("thing").unwrap();
        assert!(matches!(thing.0.close("thing"), Err(Error::Destroyed("thing"))));
        assert!(matches!(Lease::new(&thing), Err(Error::Destroyed("thing"))));
    }
}
