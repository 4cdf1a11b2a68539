//! Registered memory as the memory of a table.

use longarm::{Access, MemoryRegion, ProtectionDomain, RemoteKey, ResourceError};

use crate::memory::WordMemory;

/// Memory that peers reach by its key. Dropping it revokes the key.
#[derive(Debug)]
pub struct TableMemory(MemoryRegion);

impl TableMemory {
    /// Zeroed memory for a table that peers only read.
    ///
    /// # Errors
    /// If there is no memory, or the device refuses it.
    pub fn readable(domain: &ProtectionDomain, len_bytes: usize) -> Result<TableMemory, ResourceError> {
        Ok(TableMemory(domain.expose(len_bytes, Access::REMOTE_READ)?))
    }

    /// Zeroed memory for a table that peers read, and whose owner's device carries out calls: see
    /// [`MemoryRegion::serve_calls`].
    ///
    /// # Errors
    /// If there is no memory, or the device refuses it: those of the system carry out no calls.
    pub fn callable(domain: &ProtectionDomain, len_bytes: usize) -> Result<TableMemory, ResourceError> {
        Ok(TableMemory(domain.expose(len_bytes, Access::REMOTE_READ | Access::REMOTE_CALL)?))
    }

    /// Zeroed memory for a table whose objects peers also update alone. They may write *any* of its bytes: a peer that
    /// breaks the rules breaks the table.
    ///
    /// # Errors
    /// If there is no memory, or the device refuses it. Also if its atomics are not atomic towards this processor's:
    /// then the owner and its peers could take one lock at once.
    pub fn writable(domain: &ProtectionDomain, len_bytes: usize) -> Result<TableMemory, ResourceError> {
        atomics_must_suffice(domain)?;
        let access = Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
        Ok(TableMemory(domain.expose(len_bytes, access)?))
    }

    /// Zeroed memory for a table whose peers get windows alone ([`region`](TableMemory::region)), with the right to update
    /// objects or without it. Its own key opens nothing.
    ///
    /// # Errors
    /// As [`writable`](TableMemory::writable).
    pub fn for_windows(domain: &ProtectionDomain, len_bytes: usize) -> Result<TableMemory, ResourceError> {
        atomics_must_suffice(domain)?;
        Ok(TableMemory(domain.expose(len_bytes, Access::empty())?))
    }

    /// The key for readers.
    pub fn key(&self) -> RemoteKey {
        self.0.key()
    }

    /// The region: for windows, which give narrower rights.
    pub fn region(&self) -> &MemoryRegion {
        &self.0
    }
}

fn atomics_must_suffice(domain: &ProtectionDomain) -> Result<(), ResourceError> {
    if domain.device().capabilities().host_atomics {
        return Ok(());
    }
    Err(ResourceError::Invalid {
        what: "the rights of a table that peers update",
        is: 0,
        rule: "the device's atomics are atomic towards the processor's",
    })
}

/// Owners check all places. One that is out of range all the same reads as zeros, and a store there is nothing.
impl WordMemory for MemoryRegion {
    fn len_bytes(&self) -> u64 {
        MemoryRegion::len_bytes(self)
    }

    fn load(&self, at: u64) -> u64 {
        MemoryRegion::load(self, at).map_or(0, u64::from_le)
    }

    fn store(&self, at: u64, word: u64) {
        let _ = MemoryRegion::store(self, at, word.to_le());
    }

    fn compare_swap(&self, at: u64, compare: u64, swap: u64) -> u64 {
        MemoryRegion::compare_swap(self, at, compare.to_le(), swap.to_le()).map_or(0, u64::from_le)
    }

    fn copy_in(&self, at: u64, bytes: &[u8]) {
        let _ = MemoryRegion::copy_in(self, at, bytes);
    }

    fn copy_out(&self, at: u64, out: &mut [u8]) {
        if MemoryRegion::copy_out(self, at, out).is_err() {
            out.fill(0);
        }
    }
}

impl WordMemory for TableMemory {
    fn len_bytes(&self) -> u64 {
        WordMemory::len_bytes(&self.0)
    }

    fn load(&self, at: u64) -> u64 {
        WordMemory::load(&self.0, at)
    }

    fn store(&self, at: u64, word: u64) {
        WordMemory::store(&self.0, at, word);
    }

    fn compare_swap(&self, at: u64, compare: u64, swap: u64) -> u64 {
        WordMemory::compare_swap(&self.0, at, compare, swap)
    }

    fn copy_in(&self, at: u64, bytes: &[u8]) {
        WordMemory::copy_in(&self.0, at, bytes);
    }

    fn copy_out(&self, at: u64, out: &mut [u8]) {
        WordMemory::copy_out(&self.0, at, out);
    }
}
