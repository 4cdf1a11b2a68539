//! Borrowed memory that peers may reach, until a scope ends.

use std::fmt;
use std::sync::Arc;

use memory::Region;
use transport::Access;

use crate::domain::ProtectionDomain;
use crate::error::{KeyError, ResourceError};
use crate::region::MemoryRegion;
use crate::remote::RemoteKey;

/// Borrowed memory that is exposed to peers while a scope lasts; see [`ProtectionDomain::expose_scoped`].
///
/// It has the key and the copies of a [`MemoryRegion`], but neither slices nor windows: nothing that could keep the
/// memory registered beyond the scope.
pub struct ScopedRegion {
    region: MemoryRegion,
}

impl ProtectionDomain {
    /// Exposes `bytes` to peers with the rights in `access` while `body` runs. When this returns, also by a panic, the
    /// key is revoked, no access is under way, and the bytes are the caller's alone again.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use longarm::{Access, Device};
    /// # const SECOND: Duration = Duration::from_secs(10);
    /// # let device = Device::open()?;
    /// # let (domain, cq) = (device.protection_domain()?, device.completion_queue()?);
    /// # let (a, b) = (domain.rc(&cq).build()?, domain.rc(&cq).build()?);
    /// # let (to_a, to_b) = (a.connection_info(), b.connection_info());
    /// # let (qp, _peer) = (a.connect(&to_b)?, b.connect(&to_a)?);
    /// let mut table = [0; 64];
    /// let peers_turn = domain.expose_scoped(&mut table, Access::REMOTE_WRITE, |region| {
    ///     let key = region.key();                                  // tell the peer, and wait for it …
    ///     qp.write_inline(b"from a peer", &key).wait(SECOND)       // … here the peer is this program
    /// })?;
    /// peers_turn?;
    /// assert!(table.starts_with(b"from a peer"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If there are no bytes, or the device refuses to register them. Then `body` does not run.
    pub fn expose_scoped<R>(
        &self,
        bytes: &mut [u8],
        access: Access,
        body: impl FnOnce(&ScopedRegion) -> R,
    ) -> Result<R, ResourceError> {
        let lent = Region::lend(bytes, |memory| {
            let region = MemoryRegion::register(self, Arc::clone(memory), access)?;
            Ok(body(&ScopedRegion { region }))
        });
        lent.map_err(device::Error::from)?
    }
}

impl ScopedRegion {
    /// The key to all of it, for peers. It is good for nothing after the scope.
    pub fn key(&self) -> RemoteKey {
        self.region.key()
    }

    /// Its length.
    pub fn len_bytes(&self) -> u64 {
        self.region.len_bytes()
    }

    /// Copies `bytes` in; see [`MemoryRegion::copy_in`].
    ///
    /// # Errors
    /// As there.
    pub fn copy_in(&self, offset: u64, bytes: &[u8]) -> Result<(), KeyError> {
        self.region.copy_in(offset, bytes)
    }

    /// Copies bytes out; see [`MemoryRegion::copy_out`].
    ///
    /// # Errors
    /// As there.
    pub fn copy_out(&self, offset: u64, out: &mut [u8]) -> Result<(), KeyError> {
        self.region.copy_out(offset, out)
    }

    /// Loads a word (acquire); see [`MemoryRegion::load`].
    ///
    /// # Errors
    /// As there.
    pub fn load(&self, offset: u64) -> Result<u64, KeyError> {
        self.region.load(offset)
    }

    /// Stores a word (release); see [`MemoryRegion::store`].
    ///
    /// # Errors
    /// As there.
    pub fn store(&self, offset: u64, value: u64) -> Result<(), KeyError> {
        self.region.store(offset, value)
    }
}

impl fmt::Debug for ScopedRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScopedRegion({:?})", self.region)
    }
}
