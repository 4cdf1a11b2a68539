//! The process that an object belongs to. A child that it forks must not use the object.

use guest::fork;

use crate::error::Error;

/// The process that made an object, by the number of forks that led to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OwnerProcess(u32);

impl OwnerProcess {
    /// The calling process.
    pub(crate) fn this() -> OwnerProcess {
        OwnerProcess(fork::generation())
    }

    /// Whether the calling process is the owner.
    #[inline]
    pub(crate) fn is_this(self) -> bool {
        self.0 == fork::generation()
    }

    /// Refuses a forked child of the owner.
    #[inline]
    pub(crate) fn check(self) -> Result<(), Error> {
        if self.is_this() { Ok(()) } else { Err(Error::Forked) }
    }
}
