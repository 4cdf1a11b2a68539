//! The host of a queue pair whose payload is not checked.

use transport::{
    Accessor, AtomicOp, BindMw, Completion, CqSide, Host, Memory, MemoryError, PdId, QpEvent, Sge, Status,
};
use wire::RKey;

/// Memory that grants every access and keeps nothing.
#[derive(Debug, Default)]
pub(super) struct NullMemory;

impl Memory for NullMemory {
    fn gather(&self, _: PdId, _: &[Sge], _: u64, out: &mut [u8]) -> Result<(), MemoryError> {
        out.fill(0);
        Ok(())
    }

    fn scatter(&self, _: PdId, _: &[Sge], _: u64, _: &[u8]) -> Result<(), MemoryError> {
        Ok(())
    }

    fn check_local(&self, _: PdId, _: &[Sge], _: bool) -> Result<(), MemoryError> {
        Ok(())
    }

    fn check_remote(&self, _: Accessor, _: RKey, _: u64, _: u64, _: transport::Access) -> Result<(), MemoryError> {
        Ok(())
    }

    fn remote_write(&self, _: Accessor, _: RKey, _: u64, _: &[u8]) -> Result<(), MemoryError> {
        Ok(())
    }

    fn remote_read(&self, _: Accessor, _: RKey, _: u64, out: &mut [u8]) -> Result<(), MemoryError> {
        out.fill(0);
        Ok(())
    }

    fn remote_read_object(&self, _: Accessor, _: RKey, _: u64, _: u64, _: &mut [u8]) -> Result<usize, MemoryError> {
        Err(MemoryError::NoPermission)
    }

    fn remote_atomic(&self, _: Accessor, _: RKey, _: u64, _: AtomicOp) -> Result<u64, MemoryError> {
        Err(MemoryError::NoPermission)
    }

    fn remote_atomic_write(&self, _: Accessor, _: RKey, _: u64, _: [u8; 8]) -> Result<(), MemoryError> {
        Err(MemoryError::NoPermission)
    }

    fn remote_flush(
        &self,
        _: Accessor,
        _: RKey,
        _: Option<(u64, u64)>,
        _: transport::Access,
    ) -> Result<(), MemoryError> {
        Ok(())
    }

    fn remote_invalidate(&self, _: Accessor, _: RKey) -> Result<(), MemoryError> {
        Err(MemoryError::NoPermission)
    }

    fn invalidate(&self, _: Accessor, _: RKey) -> Result<(), MemoryError> {
        Err(MemoryError::NoPermission)
    }

    fn bind(&self, _: Accessor, _: &BindMw) -> Result<(), MemoryError> {
        Err(MemoryError::NoPermission)
    }
}

/// Counts what was completed.
#[derive(Debug, Default)]
pub(super) struct IncastHost {
    memory: NullMemory,
    /// Send work requests done.
    pub(super) done: u64,
    /// One of them failed.
    pub(super) failed: bool,
}

impl Host for IncastHost {
    type Memory = NullMemory;
    type Path = transport::shm::path::NoShmPath<NullMemory>;

    fn memory(&self) -> &NullMemory {
        &self.memory
    }

    fn path(&self) -> Option<&Self::Path> {
        None
    }

    fn complete(&mut self, side: CqSide, completion: Completion) {
        if side == CqSide::Send {
            self.done += 1;
            self.failed |= completion.status != Status::Success;
        }
    }

    fn event(&mut self, _: QpEvent) {}
}
