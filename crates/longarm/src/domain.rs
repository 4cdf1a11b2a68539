//! Protection domains: what may be used together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use transport::Access;

use crate::buffer::Buffer;
use crate::context::Context;
use crate::cq::CompletionQueue;
use crate::error::ResourceError;
use crate::qp::{QpBuilder, Rc, Uc, Ud};
use crate::region::MemoryRegion;
use crate::scratch::{CHUNK_BYTES, Scratch, ScratchPool};
use crate::srq::SharedReceiveQueue;

/// A protection domain. Memory and queue pairs work together only within one.
///
/// Cloning names the same domain.
#[derive(Clone, Debug)]
pub struct ProtectionDomain {
    core: Arc<DomainCore>,
}

/// The number of a protection domain, unique within the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DomainId(u64);

static DOMAINS: AtomicU64 = AtomicU64::new(0);

#[derive(Debug)]
struct DomainCore {
    id: DomainId,
    context: Context,
    pd: device::Pd,
    scratch: Arc<ScratchPool>,
}

impl ProtectionDomain {
    pub(crate) fn new(context: Context) -> Result<ProtectionDomain, ResourceError> {
        let pd = context.device().alloc_pd()?;
        Ok(ProtectionDomain {
            core: Arc::new(DomainCore {
                id: DomainId(DOMAINS.fetch_add(1, Relaxed)),
                context,
                pd,
                scratch: Arc::default(),
            }),
        })
    }

    /// The context that it belongs to.
    pub fn context(&self) -> &Context {
        &self.core.context
    }

    /// Allocates a buffer of `len` zeroed bytes, for our own use only.
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

    /// Allocates `len` zeroed bytes that peers may reach with the rights in `access`
    /// (`REMOTE_READ`, `REMOTE_WRITE`, `REMOTE_ATOMIC`, any of them; `ZERO_BASED` to let
    /// addresses count from zero).
    ///
    /// # Errors
    /// If `len` is zero, or the system has no memory for it.
    pub fn expose(&self, len: usize, access: Access) -> Result<MemoryRegion, ResourceError> {
        let memory = memory::Region::allocate(len as u64).map_err(device::Error::from)?;
        let memory = Arc::new(memory);
        let access = access | Access::LOCAL_WRITE | Access::MW_BIND;
        let mr = self.core.pd.register_region(&memory, access)?;
        Ok(MemoryRegion::new(mr, self.clone(), memory))
    }

    /// Starts a queue pair for reliable connections, with its completions in `cq`.
    pub fn rc(&self, cq: &CompletionQueue) -> QpBuilder<Rc> {
        QpBuilder::new(self, cq)
    }

    /// Starts a queue pair for unreliable connections.
    pub fn uc(&self, cq: &CompletionQueue) -> QpBuilder<Uc> {
        QpBuilder::new(self, cq)
    }

    /// Starts an endpoint for unreliable datagrams.
    pub fn ud(&self, cq: &CompletionQueue) -> QpBuilder<Ud> {
        QpBuilder::new(self, cq)
    }

    /// Makes a shared receive queue for `depth` buffers. Its completions, and so those of all
    /// receives of the queue pairs that use it, come to `cq`.
    ///
    /// # Errors
    /// If the depth is zero or more than the device's limit.
    pub fn shared_receive_queue(&self, cq: &CompletionQueue, depth: u32) -> Result<SharedReceiveQueue, ResourceError> {
        SharedReceiveQueue::new(self, cq, depth)
    }

    pub(crate) fn id(&self) -> DomainId {
        self.core.id
    }

    pub(crate) fn device_pd(&self) -> &device::Pd {
        &self.core.pd
    }

    /// A piece of scratch memory.
    pub(crate) fn scratch(&self) -> Result<Scratch, device::Error> {
        self.core.scratch.take(|| {
            let (piece, mr) = self.core.pd.allocate_private(CHUNK_BYTES)?;
            Ok(Buffer::new(piece, mr, self.id()))
        })
    }
}
