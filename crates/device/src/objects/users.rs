//! Who still uses an object: the verbs' rule that a parent with children is busy.
//!
//! Handles keep their parents alive by themselves. This count is for the explicit `destroy`
//! calls, which must refuse while children exist and, once they have succeeded, let nobody in.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::AcqRel, Ordering::Acquire};

use crate::error::Error;

const CLOSED: u32 = 1 << 31;

/// The number of users of an object, until it is closed.
#[derive(Debug, Default)]
pub(crate) struct Users(AtomicU32);

impl Users {
    /// One more, unless the object is closed.
    fn enter(&self) -> bool {
        self.0.fetch_update(AcqRel, Acquire, |n| (n & CLOSED == 0).then_some(n + 1)).is_ok()
    }

    fn leave(&self) {
        self.0.fetch_sub(1, AcqRel);
    }

    /// Closes the object if nobody uses it and it is not closed.
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
    /// What it is, for error messages.
    const WHAT: &'static str;

    fn users(&self) -> &Users;
}

/// One user's hold on an object.
#[derive(Debug)]
pub(crate) struct Lease<T: Counted>(Arc<T>);

impl<T: Counted> Lease<T> {
    /// Holds `object`, unless it was destroyed.
    pub(crate) fn new(object: &Arc<T>) -> Result<Lease<T>, Error> {
        if object.users().enter() { Ok(Lease(object.clone())) } else { Err(Error::Destroyed(T::WHAT)) }
    }

    pub(crate) fn shared(&self) -> &Arc<T> {
        &self.0
    }
}

impl<T: Counted> Deref for Lease<T> {
    type Target = T;

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

    struct Object(Users);

    impl Counted for Object {
        const WHAT: &'static str = "object";

        fn users(&self) -> &Users {
            &self.0
        }
    }

    #[test]
    fn an_object_closes_only_when_nobody_uses_it() {
        let object = Arc::new(Object(Users::default()));
        let lease = Lease::new(&object).unwrap();
        assert!(matches!(object.0.close("object"), Err(Error::Busy { users: 1, .. })));
        drop(lease);
        object.0.close("object").unwrap();
        assert!(matches!(object.0.close("object"), Err(Error::Destroyed("object"))));
        assert!(matches!(Lease::new(&object), Err(Error::Destroyed("object"))));
    }
}
