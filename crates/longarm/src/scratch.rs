//! Scratch: small pieces of registered memory that work requests need for themselves
//! (an atomic's result, a datagram's GRH), cut from few regions and used again.

use std::fmt;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use transport::Sge;

use crate::buffer::Buffer;

/// Room for the largest use: the 40 bytes of a GRH, on a cache line of its own.
pub(crate) const SCRATCH_BYTES: usize = 64;
/// The size of the registrations that pieces are cut from.
pub(crate) const CHUNK_BYTES: usize = 256 * SCRATCH_BYTES;

/// The scratch pieces of one protection domain that are not in use.
#[derive(Debug, Default)]
pub(crate) struct ScratchPool {
    idle: Mutex<Vec<Buffer>>,
}

/// One piece. Dropping it puts it back.
pub(crate) struct ScratchPiece {
    buffer: Option<Buffer>,
    pool: Weak<ScratchPool>,
}

impl ScratchPool {
    /// Takes a piece; `more` makes a buffer of [`CHUNK_BYTES`] when there is none left.
    pub(crate) fn take<E>(
        self: &Arc<ScratchPool>,
        more: impl FnOnce() -> Result<Buffer, E>,
    ) -> Result<ScratchPiece, E> {
        let idle = self.idle.lock().pop();
        let buffer = match idle {
            Some(buffer) => buffer,
            None => self.grow(more()?),
        };
        Ok(ScratchPiece { buffer: Some(buffer), pool: Arc::downgrade(self) })
    }

    fn grow(&self, chunk: Buffer) -> Buffer {
        let mut pieces = chunk.split_into(SCRATCH_BYTES);
        let first = pieces.swap_remove(0);
        self.idle.lock().extend(pieces);
        first
    }
}

impl ScratchPiece {
    pub(crate) fn bytes(&self) -> &[u8] {
        self.buffer.as_deref().unwrap_or_default()
    }

    /// The word at the start, as an atomic leaves it.
    pub(crate) fn word(&self) -> u64 {
        let first = self.bytes().first_chunk().copied();
        u64::from_ne_bytes(first.unwrap_or_default())
    }

    /// The list entry for the first `len` bytes.
    pub(crate) fn sge(&self, len: u32) -> Sge {
        let sge = self.buffer.as_ref().map(|b| b.sge(len as usize));
        sge.unwrap_or_default()
    }
}

impl Drop for ScratchPiece {
    fn drop(&mut self) {
        if let (Some(buffer), Some(pool)) = (self.buffer.take(), self.pool.upgrade()) {
            pool.idle.lock().push(buffer);
        }
    }
}

impl fmt::Debug for ScratchPiece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scratch")
    }
}
