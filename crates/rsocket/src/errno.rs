//! Error numbers: the errno of refused calls.

use std::fmt;

/// An error number of the system's.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

/// The result of the calls of this crate.
pub type Result<T> = std::result::Result<T, Errno>;

impl Errno {
    /// The call would block.
    pub const AGAIN: Errno = Errno(libc::EAGAIN);
    /// The descriptor is not open.
    pub const BADF: Errno = Errno(libc::EBADF);
    /// An argument is invalid.
    pub const INVAL: Errno = Errno(libc::EINVAL);
    /// The object named does not exist.
    pub const NOENT: Errno = Errno(libc::ENOENT);
    /// Memory or another resource is used up.
    pub const NOMEM: Errno = Errno(libc::ENOMEM);
    /// This device or socket does not support the call (`EOPNOTSUPP`).
    pub const NOT_SUPPORTED: Errno = Errno(libc::EOPNOTSUPP);

    /// The errno of the last system call of this thread that failed.
    pub fn last() -> Errno {
        std::io::Error::last_os_error().into()
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        std::io::Error::from_raw_os_error(self.0).fmt(f)
    }
}

impl std::error::Error for Errno {}

impl From<std::io::Error> for Errno {
    fn from(error: std::io::Error) -> Errno {
        Errno(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

impl From<rustix::io::Errno> for Errno {
    fn from(error: rustix::io::Errno) -> Errno {
        Errno(error.raw_os_error())
    }
}

impl From<connect::Error> for Errno {
    fn from(error: connect::Error) -> Errno {
        log::debug!("{error}");
        Errno(error.errno())
    }
}

impl From<device::Error> for Errno {
    fn from(error: device::Error) -> Errno {
        log::debug!("{error}");
        Errno(error.errno())
    }
}

impl From<device::OpenError> for Errno {
    fn from(error: device::OpenError) -> Errno {
        log::debug!("{error}");
        Errno(error.errno())
    }
}

impl From<device::PostFailure> for Errno {
    fn from(error: device::PostFailure) -> Errno {
        log::debug!("{error}");
        Errno(error.errno())
    }
}
