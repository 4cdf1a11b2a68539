//! Protection domains: memory and queue pairs that may be used together.

mod id;

use std::sync::Arc;

use memory::{OwnedMemory, Piece};

use crate::buffer::Buffer;
use crate::error::ResourceError;
use crate::open_device::Device;
pub(crate) use id::DomainId;

use crate::scratch::{CHUNK_BYTES, ScratchPiece, ScratchPool};

/// A protection domain. Memory and queue pairs work together only within one.
///
/// A clone names the same domain.
#[derive(Clone, Debug)]
pub struct ProtectionDomain {
    core: Arc<DomainCore>,
}

#[derive(Debug)]
struct DomainCore {
    id: DomainId,
    device: Device,
    pd: provider::Pd,
    scratch: Arc<ScratchPool>,
}

impl PartialEq for ProtectionDomain {
    /// Whether both name the same domain.
    fn eq(&self, other: &ProtectionDomain) -> bool {
        self.core.id == other.core.id
    }
}

impl Eq for ProtectionDomain {}

impl Device {
    /// Makes a protection domain.
    ///
    /// # Errors
    /// If there are too many.
    pub fn protection_domain(&self) -> Result<ProtectionDomain, ResourceError> {
        ProtectionDomain::new(self.clone())
    }
}

impl ProtectionDomain {
    pub(crate) fn new(device: Device) -> Result<ProtectionDomain, ResourceError> {
        let pd = device.handle().alloc_pd()?;
        Ok(ProtectionDomain {
            core: Arc::new(DomainCore { id: DomainId::next(), device, pd, scratch: Arc::default() }),
        })
    }

    /// The device that it belongs to.
    pub fn device(&self) -> &Device {
        &self.core.device
    }

    /// Allocates a buffer of `len` zeroed bytes, for our own use only. From 2 MiB on it lies on huge pages, if the
    /// machine has enough of them reserved (`vm.nr_hugepages`), or on transparent ones.
    ///
    /// Each call makes a registration; for many small buffers take one large one and
    /// [cut it up](Buffer::split_into), as [`allocate_many`](ProtectionDomain::allocate_many) does.
    ///
    /// # Errors
    /// If `len` is zero, or the system has no memory for it.
    pub fn allocate(&self, len: usize) -> Result<Buffer, ResourceError> {
        let (piece, mr) = self.core.pd.allocate_private(len)?;
        Ok(Buffer::new(piece, mr, self.id()))
    }

    /// Makes a buffer of memory that the program gives: a `Vec<u8>`, a `Box<[u8]>`, a mapped file; see
    /// [`OwnedMemory`]. Its contents stay, nothing is copied, and it is freed with the last buffer cut from it.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # fn example(domain: longarm::ProtectionDomain, qp: longarm::QueuePair) -> Result<(), Box<dyn std::error::Error>> {
    /// let page: Vec<u8> = std::fs::read("page.html")?;
    /// let page = qp.send(domain.register(page)?).wait(Duration::from_secs(5))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If it has no bytes, or the device refuses to register it; the memory is freed then.
    pub fn register(&self, memory: impl OwnedMemory) -> Result<Buffer, ResourceError> {
        let piece = Piece::of_owner(memory).map_err(device::Error::from)?;
        let (piece, mr) = self.core.pd.register_private(piece)?;
        Ok(Buffer::new(piece, mr, self.id()))
    }

    /// Allocates `count` buffers of `len` bytes in one registration.
    ///
    /// # Errors
    /// As [`allocate`](ProtectionDomain::allocate), and if the sum overflows.
    pub fn allocate_many(&self, count: usize, len: usize) -> Result<Vec<Buffer>, ResourceError> {
        let total = count.checked_mul(len).filter(|total| *total > 0);
        let total = total.ok_or(ResourceError::Invalid {
            what: "the number of buffers",
            is: count as u64,
            rule: "their total length is at least one byte, and fits the address space",
        })?;
        Ok(self.allocate(total)?.split_into(len))
    }

    pub(crate) fn id(&self) -> DomainId {
        self.core.id
    }

    pub(crate) fn device_pd(&self) -> &provider::Pd {
        &self.core.pd
    }

    /// A piece of scratch memory.
    pub(crate) fn scratch(&self) -> Result<ScratchPiece, device::Error> {
        self.core.scratch.take(|| {
            let (piece, mr) = self.core.pd.allocate_private(CHUNK_BYTES)?;
            Ok(Buffer::new(piece, mr, self.id()))
        })
    }
}
