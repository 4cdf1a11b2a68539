//! Areas as regions of registered memory.

use longarm::{Access, MemoryRegion, ProtectionDomain, RemoteKey, ResourceError};

use crate::link::PeerArea;

/// Memory of ours that one peer writes, or reads.
pub(crate) struct VerbsArea(MemoryRegion);

impl VerbsArea {
    /// Zeroed memory for WRITEs of the peer.
    pub(crate) fn written(domain: &ProtectionDomain, len_bytes: u64) -> Result<VerbsArea, ResourceError> {
        Ok(VerbsArea(domain.expose(len_bytes as usize, Access::REMOTE_WRITE)?))
    }

    /// Zeroed memory for READs of the peer.
    pub(crate) fn read(domain: &ProtectionDomain, len_bytes: u64) -> Result<VerbsArea, ResourceError> {
        Ok(VerbsArea(domain.expose(len_bytes as usize, Access::REMOTE_READ)?))
    }

    pub(crate) fn key(&self) -> RemoteKey {
        self.0.key()
    }
}

/// The sessions check all places. One that is out of range all the same reads as zeros, and a WRITE there is nothing.
impl PeerArea for VerbsArea {
    fn len_bytes(&self) -> u64 {
        self.0.len_bytes()
    }

    fn load(&self, at: u64) -> u64 {
        self.0.load(at).unwrap_or_default()
    }

    fn store(&self, at: u64, word: u64) {
        let _ = self.0.store(at, word);
    }

    fn copy_out(&self, at: u64, out: &mut [u8]) {
        if self.0.copy_out(at, out).is_err() {
            out.fill(0);
        }
    }

    fn copy_in(&self, at: u64, bytes: &[u8]) {
        let _ = self.0.copy_in(at, bytes);
    }
}
