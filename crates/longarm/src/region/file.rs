//! Regions whose memory several processes of one host expose, each under keys of its own.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use memory::Region;
use transport::Access;

use crate::domain::ProtectionDomain;
use crate::error::ResourceError;
use crate::region::MemoryRegion;

impl MemoryRegion {
    /// The file behind the region's memory, for another process of this host that [exposes](ProtectionDomain::expose_file)
    /// the same memory. Every holder of the descriptor can read and write all of it, without any key.
    ///
    /// # Errors
    /// If the program [gave](ProtectionDomain::expose_memory) the memory, or a limit on file sizes prevented a file. Also if the
    /// process has no descriptors left.
    pub fn file(&self) -> io::Result<OwnedFd> {
        let no_file = || io::Error::new(io::ErrorKind::Unsupported, "no file is behind the region's memory");
        self.core.memory.fd().ok_or_else(no_file)?.try_clone_to_owned()
    }
}

impl ProtectionDomain {
    /// Exposes the first `len` bytes of memory that another process has exposed, and whose [`file`](MemoryRegion::file) it has
    /// sent here, by a Unix socket for example. Peers reach it by this process then, also while the other one is stopped.
    /// The memory lives until both regions are gone. The rights are those of [`expose`](ProtectionDomain::expose).
    ///
    /// ```no_run
    /// # use longarm::{Access, Device};
    /// let ours = Device::open()?.protection_domain()?.expose(4096, Access::REMOTE_READ)?;
    /// let file = ours.file()?;                                    // and in the other process:
    /// let theirs = Device::open()?.protection_domain()?.expose_file(file, 4096, Access::REMOTE_READ)?;
    /// ours.store(8, 7)?;
    /// assert_eq!(theirs.load(8)?, 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If `len` is zero, or more than the file has. Also if the file is no such file: it must be a memfd that is sealed against
    /// shrinking, so that nobody cuts it off under its users.
    pub fn expose_file(&self, file: OwnedFd, len: usize, access: Access) -> Result<MemoryRegion, ResourceError> {
        let memory = Region::of_file(file, len as u64).map_err(device::Error::from)?;
        MemoryRegion::register(self, Arc::new(memory), access)
    }
}
