//! Memory regions: memory that peers may reach.

mod file;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use memory::{OwnedMemory, Region, Span};
use transport::{Access, AtomicOp, Sge};

use crate::domain::{DomainId, ProtectionDomain};
use crate::error::{KeyError, ReclaimError, ResourceError};
use crate::remote::RemoteKey;

/// Memory that is exposed to peers under a key.
///
/// Peers read and write it at any time, without this process. So there is never a reference to its
/// bytes: they are copied in and out, or loaded and stored as words. Words are 8 bytes at an address that is a
/// multiple of 8, and are never torn. (Memory that the library allocates begins at one.) A reader of a word's value sees everything that was written
/// before the value was stored.
///
/// Dropping the region revokes its key, waits for accesses that are under way, and then frees
/// the memory. While [windows](crate::Window) onto it exist it cannot be dropped.
///
/// ```no_run
/// # use longarm::{Access, Device};
/// # let domain = Device::open()?.protection_domain()?;
/// let counter = domain.expose(8, Access::REMOTE_READ | Access::REMOTE_ATOMIC)?;
/// counter.store(0, 41)?;
/// let key = counter.key().to_bytes();   // send these to the peer, by any means
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MemoryRegion {
    core: Arc<RegionCore>,
}

impl ProtectionDomain {
    /// Allocates `len` zeroed bytes that peers may reach with the rights in `access`: any of
    /// `REMOTE_READ`, `REMOTE_WRITE`, `REMOTE_ATOMIC`, `REMOTE_CALL` and `FLUSH_GLOBAL`, and `ZERO_BASED` to let addresses
    /// count from zero.
    ///
    /// # Errors
    /// If `len` is zero, or the system has no memory for it.
    pub fn expose(&self, len: usize, access: Access) -> Result<MemoryRegion, ResourceError> {
        let memory = Region::allocate(len as u64).map_err(device::Error::from)?;
        MemoryRegion::register(self, Arc::new(memory), access)
    }

    /// Exposes memory that the program gives: a `Vec<u8>`, a `Box<[u8]>`, a mapped file; see [`OwnedMemory`]. It is
    /// freed with the region. The rights are those of [`expose`](ProtectionDomain::expose).
    ///
    /// ```no_run
    /// # use longarm::{Access, Device};
    /// # let domain = Device::open()?.protection_domain()?;
    /// let table: Vec<u8> = std::fs::read("table.bin")?;
    /// let table = domain.expose_memory(table, Access::REMOTE_READ)?;
    /// let key = table.key().to_bytes();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A file that stays a file (feature `memmap2`): peers' WRITEs change it.
    ///
    #[cfg_attr(feature = "memmap2", doc = "```no_run")]
    #[cfg_attr(not(feature = "memmap2"), doc = "```ignore")]
    /// # use longarm::{Access, Device};
    /// # let domain = Device::open()?.protection_domain()?;
    /// let file = std::fs::File::options().read(true).write(true).open("table.bin")?;
    /// // SAFETY: no other program changes or cuts the file meanwhile.
    /// let mapped = unsafe { memmap2::MmapMut::map_mut(&file)? };
    /// let region = domain.expose_memory(mapped, Access::REMOTE_READ | Access::REMOTE_WRITE)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// If another program cuts the file meanwhile, peers read zeros beyond its end. For that Longarm's own device installs
    /// a handler of SIGBUS and SIGSEGV, which passes other faults on. (A network card goes on with the old pages.)
    ///
    /// # Errors
    /// If it has no bytes, or the device refuses to register it; the memory is freed then.
    pub fn expose_memory(&self, memory: impl OwnedMemory, access: Access) -> Result<MemoryRegion, ResourceError> {
        let memory = Region::of_owner(memory).map_err(device::Error::from)?;
        MemoryRegion::register(self, Arc::new(memory), access)
    }
}

/// The part of a region that it shares with the requests that use it.
#[derive(Debug)]
pub(crate) struct RegionCore {
    pub(crate) mr: provider::Mr,
    pub(crate) domain: ProtectionDomain,
    memory: Arc<Region>,
}

impl MemoryRegion {
    pub(crate) fn register(
        domain: &ProtectionDomain,
        memory: Arc<Region>,
        access: Access,
    ) -> Result<MemoryRegion, ResourceError> {
        if access.contains(Access::REMOTE_CALL) && !domain.device().capabilities().calls {
            return Err(device::Error::Invalid("only Longarm's own device carries out calls").into());
        }
        let access = access | Access::LOCAL_WRITE | Access::MW_BIND;
        let mr = domain.device_pd().register_region(&memory, access)?;
        Ok(MemoryRegion { core: Arc::new(RegionCore { mr, domain: domain.clone(), memory }) })
    }

    /// Revokes the key, waits for the accesses of peers that are under way, and gives the memory back to the program: as
    /// the value that it [gave](ProtectionDomain::expose_memory). No slice, window or request may use it.
    ///
    /// # Errors
    /// The region again, if something uses it, or the memory was given as another type or not at all.
    pub fn into_memory<M: OwnedMemory>(self) -> Result<M, ReclaimError<MemoryRegion>> {
        if !self.core.memory.was_given_as::<M>() {
            return Err(ReclaimError::OtherType(self));
        }
        let alone = Arc::try_unwrap(self.core).map_err(|core| ReclaimError::InUse(MemoryRegion { core }))?;
        let RegionCore { mr, memory, .. } = alone;
        drop(mr);
        Region::into_owner(memory).map_err(|_| ReclaimError::Kept)
    }

    /// The key to the whole region, for peers.
    pub fn key(&self) -> RemoteKey {
        let mr = &self.core.mr;
        RemoteKey::from_parts(mr.addr(), mr.rkey(), mr.len_bytes())
    }

    /// Its length.
    pub fn len_bytes(&self) -> u64 {
        self.core.memory.len_bytes()
    }

    /// The rights that peers have.
    pub fn access(&self) -> Access {
        self.core.mr.access()
    }

    /// Copies `bytes` in, from `offset` on. Peers that read meanwhile see old and new bytes mixed,
    /// but see the last word last.
    pub fn copy_in(&self, offset: u64, bytes: &[u8]) -> Result<(), KeyError> {
        self.part(offset, bytes.len() as u64)?.write(bytes);
        Ok(())
    }

    /// Copies bytes out, from `offset` on, into the whole of `out`.
    pub fn copy_out(&self, offset: u64, out: &mut [u8]) -> Result<(), KeyError> {
        self.part(offset, out.len() as u64)?.read(out);
        Ok(())
    }

    /// Loads a word (acquire).
    pub fn load(&self, offset: u64) -> Result<u64, KeyError> {
        let mut bytes = [0; 8];
        self.word(offset)?.read(&mut bytes);
        Ok(u64::from_ne_bytes(bytes))
    }

    /// Stores a word (release).
    pub fn store(&self, offset: u64, value: u64) -> Result<(), KeyError> {
        self.word(offset)?.write(&value.to_ne_bytes());
        Ok(())
    }

    /// Adds to a word, wrapping, and returns the value before. It is atomic towards the atomics of peers (sequentially
    /// consistent).
    ///
    /// # Errors
    /// [`KeyError::NotAtomic`] if that cannot be: peers may do atomics in the region, and those of the device are atomic
    /// among themselves only. [`Capabilities::host_atomics`](crate::Capabilities::host_atomics) tells; Longarm's own devices
    /// have it, and few network cards. There the owner is a peer, too: it does the atomic by a queue pair that is connected
    /// to one of its own.
    pub fn fetch_add(&self, offset: u64, add: u64) -> Result<u64, KeyError> {
        self.atomic(offset, AtomicOp::FetchAdd { add })
    }

    /// Stores `swap` in a word if it holds `compare`, and returns the value before. It is atomic as
    /// [`fetch_add`](MemoryRegion::fetch_add) is.
    ///
    /// # Errors
    /// As [`fetch_add`](MemoryRegion::fetch_add).
    pub fn compare_swap(&self, offset: u64, compare: u64, swap: u64) -> Result<u64, KeyError> {
        self.atomic(offset, AtomicOp::CompareSwap { compare, swap })
    }

    /// Part of the region as the source or target of our own work requests.
    pub fn slice(&self, range: Range<u64>) -> Result<RegionSlice, KeyError> {
        let len_bytes = range.end.saturating_sub(range.start);
        self.part(range.start, len_bytes)?;
        Ok(RegionSlice { core: Arc::clone(&self.core), offset: range.start, len_bytes })
    }

    /// Another handle of the same region.
    pub(crate) fn share(&self) -> MemoryRegion {
        MemoryRegion { core: Arc::clone(&self.core) }
    }

    pub(crate) fn core(&self) -> &Arc<RegionCore> {
        &self.core
    }

    fn word(&self, offset: u64) -> Result<Span<'_>, KeyError> {
        let address = (self.core.memory.ptr().addr() as u64).wrapping_add(offset);
        if !address.is_multiple_of(8) {
            return Err(KeyError::Misaligned { offset });
        }
        self.part(offset, 8)
    }

    fn atomic(&self, offset: u64, op: AtomicOp) -> Result<u64, KeyError> {
        let (misaligned, device) = (KeyError::Misaligned { offset }, self.core.domain.device().capabilities());
        if device.atomics && !device.host_atomics && self.access().contains(Access::REMOTE_ATOMIC) {
            return Err(KeyError::NotAtomic);
        }
        self.word(offset)?.atomic(op).ok_or(misaligned)
    }

    fn part(&self, offset: u64, len_bytes: u64) -> Result<Span<'_>, KeyError> {
        self.core.part(offset, len_bytes)
    }
}

impl RegionCore {
    pub(crate) fn part(&self, offset: u64, len_bytes: u64) -> Result<Span<'_>, KeyError> {
        let wanted = usize::try_from(offset).ok().zip(usize::try_from(len_bytes).ok());
        let part = wanted.and_then(|(offset, len)| self.memory.span().part(offset, len));
        part.ok_or(KeyError::OutOfRange { offset, len_bytes, range_bytes: self.memory.len_bytes() })
    }

    pub(crate) fn domain_id(&self) -> DomainId {
        self.domain.id()
    }
}

impl fmt::Debug for MemoryRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryRegion({:?}, {:?})", self.key(), self.access())
    }
}

/// Part of a [`MemoryRegion`] as the source or target of a work request of our own.
///
/// Unlike a [`Buffer`](crate::Buffer) it gives no access to the bytes, and others may own them as
/// well. It keeps the region registered while it exists.
#[derive(Clone, Debug)]
pub struct RegionSlice {
    core: Arc<RegionCore>,
    offset: u64,
    len_bytes: u64,
}

impl RegionSlice {
    /// Its length.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    pub(crate) fn domain_id(&self) -> DomainId {
        self.core.domain_id()
    }

    pub(crate) fn sge(&self) -> Sge {
        Sge {
            addr: self.core.mr.addr() + self.offset,
            len_bytes: self.len_bytes.try_into().unwrap_or(u32::MAX),
            lkey: self.core.mr.lkey(),
        }
    }
}
