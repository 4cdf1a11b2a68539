//! The lock that only one hub can hold.

use super::{Rendezvous, RendezvousError};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// Proof that this process is the only hub of its rendezvous. The kernel releases the lock
/// when the process ends, however it ends.
#[derive(Debug)]
pub(crate) struct HubLock {
    file: OwnedFd,
}

impl Rendezvous {
    /// Takes the lock, or returns `None` if another process has it.
    ///
    /// A hub that exits removes the file. So this function checks that the locked file
    /// still has its name; if not, it tries again.
    pub(crate) fn lock(&self) -> Result<Option<HubLock>, RendezvousError> {
        loop {
            let file = self.open_lock_file()?;
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Ok(None),
                Err(error) => return Err(self.error("lock the file beside", error)),
            }
            if self.is_lock_file(&file) {
                return Ok(Some(HubLock { file }));
            }
        }
    }

    /// Whether the lock's file still has its name.
    pub(crate) fn same_lock_file(&self, lock: &HubLock) -> bool {
        self.is_lock_file(&lock.file)
    }

    /// Removes this namespace's files, if they still belong to this lock, and then
    /// releases it.
    pub(crate) fn leave(&self, lock: HubLock) {
        if self.same_lock_file(&lock) {
            self.unlink("sock");
            self.unlink("lock");
        }
        drop(lock);
    }

    fn open_lock_file(&self) -> Result<OwnedFd, RendezvousError> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&self.directory, self.file("lock"), flags, Mode::RUSR | Mode::WUSR)
            .map_err(|error| self.error("open the lock beside", error))
    }

    fn is_lock_file(&self, file: &OwnedFd) -> bool {
        let named = rustix::fs::statat(&self.directory, self.file("lock"), AtFlags::SYMLINK_NOFOLLOW);
        match (named, rustix::fs::fstat(file)) {
            (Ok(named), Ok(opened)) => (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino),
            _ => false,
        }
    }
}
