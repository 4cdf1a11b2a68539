//! Why a call was refused: errno, as the socket calls have it.

use std::fmt;

/// An error number of the system's.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

/// What the calls of this crate return.
pub type Result<T> = std::result::Result<T, Errno>;

impl Errno {
    pub(crate) const AGAIN: Errno = Errno(libc::EAGAIN);
    pub(crate) const BADF: Errno = Errno(libc::EBADF);
    pub(crate) const INVAL: Errno = Errno(libc::EINVAL);
    pub(crate) const NOTSUP: Errno = Errno(libc::ENOTSUP);
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
