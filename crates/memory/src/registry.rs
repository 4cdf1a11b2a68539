//! The registry: creation and end of protection domains and memory regions.

use std::io;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use transport::{Access, LKey, MemoryError, PdId};
use wire::RKey;

use crate::adopt::{self, Adoption, RegistrationHold};
use crate::copies;
use crate::error::MrError;
use crate::far::{self, Backing};
use crate::gate::Pin;
use crate::grant::Grant;
use crate::handlers::CallHandlers;
use crate::keys::{Keys, MAX_SLOTS};
use crate::mirror::{Mirror, is_remote};
use crate::objects::{ObjectRange, ObjectTable};
use crate::pds::Pds;
use crate::probe;
use crate::region::Region;
use crate::secret::SecretStream;
use crate::shared::RemoteKeys;
use crate::slots::{KeySlots, RegionRecord, SlotContents};
use crate::table::GrantTable;
use crate::unmapped::ListedTable;
use crate::windows::TypeTwoBinds;

/// The description of a memory region to register.
#[derive(Clone, Copy, Debug)]
pub struct MrSpec {
    /// Its protection domain.
    pub pd: PdId,
    /// Its first byte.
    pub ptr: *mut u8,
    /// Its length. A region of no bytes is allowed; nothing can be reached through it.
    pub len_bytes: u64,
    /// The address by which lists and peers name the first byte. Ignored with [`Access::ZERO_BASED`]: then
    /// they count from zero.
    pub iova: u64,
    /// The operations that are allowed.
    pub access: Access,
}

impl MrSpec {
    /// A region whose bytes are named by their addresses in this process.
    pub fn new(pd: PdId, ptr: *mut u8, len_bytes: u64, access: Access) -> MrSpec {
        MrSpec { pd, ptr, len_bytes, iova: ptr.addr() as u64, access }
    }
}

/// Identifies a memory region of a registry; never used again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MrId {
    slot: u32,
    serial: u64,
}

/// A registered memory region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MrKeys {
    /// For [`Registry::deregister`].
    pub id: MrId,
    /// For the owner's scatter/gather lists.
    pub lkey: LKey,
    /// For peers.
    pub rkey: RKey,
}

/// The properties of a memory region, as its owner may query them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegionInfo {
    /// Its protection domain.
    pub pd: PdId,
    /// Its remote key.
    pub rkey: RKey,
    /// The address by which the first byte is named.
    pub base: u64,
    /// Its length.
    pub len_bytes: u64,
    /// The operations that are allowed.
    pub access: Access,
}

/// All memory that one device may reach.
///
/// Threads can share it by reference. Accesses by the [`Memory`](transport::Memory) trait take no lock; the
/// methods here share one.
pub struct Registry {
    /// Dropped before the table.
    _listed: ListedTable,
    pub(crate) keys: Keys,
    pub(crate) table: GrantTable,
    pub(crate) control: Mutex<RegistryState>,
    pub(crate) mirror: OnceLock<Arc<dyn Mirror>>,
    adoption: AtomicU8,
    pub(crate) handlers: CallHandlers,
}

/// The state that changes when regions and windows come and go.
pub(crate) struct RegistryState {
    pub(crate) pds: Pds,
    pub(crate) slots: KeySlots,
    pub(crate) type_two: TypeTwoBinds,
    pub(crate) objects: ObjectTable,
}

impl Registry {
    /// The number of memory regions and windows that can exist at once.
    pub const CAPACITY: u32 = MAX_SLOTS;

    /// An empty registry whose keys come from `seed`: the same seed and the same calls give the same keys, as
    /// a simulation needs. Everybody who knows the seed knows the keys; a device that peers can reach uses
    /// [`from_entropy`](Registry::from_entropy).
    pub fn new(seed: u64) -> Registry {
        let mut secret = [0; 8];
        (secret[0], secret[1]) = (seed as u32, (seed >> 32) as u32);
        Registry::with_secret(secret)
    }

    /// An empty registry with unpredictable keys.
    ///
    /// # Errors
    /// If the kernel returns no random numbers.
    pub fn from_entropy() -> io::Result<Registry> {
        Ok(Registry::with_secret(SecretStream::entropy()?))
    }

    fn with_secret(secret: [u32; 8]) -> Registry {
        let mut stream = SecretStream::new(secret);
        let keys = Keys::new(&mut stream);
        copies::prepare();
        let table = GrantTable::new();
        Registry {
            // SAFETY: `_listed` is dropped before the table, and the chunks do not move when the table does.
            _listed: unsafe { ListedTable::new(table.chunks()) },
            keys,
            table,
            control: Mutex::new(RegistryState {
                pds: Pds::default(),
                slots: KeySlots::new(stream),
                type_two: TypeTwoBinds::default(),
                objects: ObjectTable::default(),
            }),
            mirror: OnceLock::new(),
            adoption: AtomicU8::new(Adoption::Never as u8),
            handlers: CallHandlers::default(),
        }
    }

    /// Selects the memory that later registrations adopt: they move it in place into a file that peers on the
    /// same host can map. The default is none.
    pub fn set_adoption(&self, which: Adoption) {
        self.adoption.store(which as u8, Relaxed);
    }

    fn adoption(&self) -> Adoption {
        match self.adoption.load(Relaxed) {
            which if which == Adoption::Always as u8 => Adoption::Always,
            which if which == Adoption::Safe as u8 => Adoption::Safe,
            _ => Adoption::Never,
        }
    }

    /// Makes a protection domain.
    pub fn alloc_pd(&self) -> PdId {
        self.control.lock().pds.alloc()
    }

    /// Ends a protection domain.
    ///
    /// # Errors
    /// [`MrError::Busy`] while regions, windows or retainers depend on it,
    /// [`MrError::UnknownPd`] if there is none.
    pub fn free_pd(&self, pd: PdId) -> Result<(), MrError> {
        self.control.lock().pds.free(pd)
    }

    /// Adds a dependant of a protection domain that another crate makes: a queue pair, a shared receive
    /// queue, an address handle.
    ///
    /// # Errors
    /// [`MrError::UnknownPd`].
    pub fn pd_retain(&self, pd: PdId) -> Result<(), MrError> {
        self.control.lock().pds.retain(pd)
    }

    /// Removes such a dependant.
    ///
    /// # Panics
    /// If the domain was not retained.
    pub fn pd_release(&self, pd: PdId) {
        self.control.lock().pds.release(pd);
    }

    /// Registers any memory of the process.
    ///
    /// With [`Access::ON_DEMAND`] the range need not be mapped, now or later: an access where nothing is
    /// mapped is refused. A range of `u64::MAX` bytes from the null pointer on is then the whole address
    /// space, named by its addresses.
    ///
    /// # Errors
    /// [`MrError::UnknownPd`], [`MrError::UnknownRights`], [`MrError::NeedsLocalWrite`],
    /// [`MrError::NotPersistent`], [`MrError::Wraps`], [`MrError::Unmapped`], [`MrError::Protected`], [`MrError::Full`],
    /// [`MrError::NoOnDemand`].
    ///
    /// # Safety
    /// The following holds until [`deregister`](Registry::deregister) has returned, or the registry is
    /// dropped:
    /// - All of the range stays mapped, backed and accessible as registered. Of on-demand memory only the
    ///   words of peers' atomics must stay mapped.
    /// - With local write access its contents may change at any time, so nobody holds a reference to them or
    ///   relies on them otherwise.
    /// - Nobody holds a `&mut` to the bytes while the device may read them.
    pub unsafe fn register(&self, spec: &MrSpec) -> Result<MrKeys, MrError> {
        let found = self.examine(spec)?;
        self.enter(spec, found)
    }

    /// Replaces a region's registration under the same keys: other memory, rights or protection domain. On
    /// return no access by the old registration is in progress. If the call is refused, the old registration
    /// stays.
    ///
    /// # Errors
    /// As [`register`](Registry::register), and as [`deregister`](Registry::deregister).
    ///
    /// # Safety
    /// As [`register`](Registry::register); on return the old memory belongs to its owner again.
    pub unsafe fn reregister(&self, keys: &MrKeys, spec: &MrSpec) -> Result<(), MrError> {
        let found = self.examine(spec)?;
        self.control.lock().pds.retain(spec.pd)?;
        let old = match self.withdraw(keys.id) {
            Ok(old) => old,
            Err(error) => {
                self.control.lock().pds.release(spec.pd);
                return Err(error);
            }
        };
        // The slot belongs to this call alone, so the wait needs no lock.
        self.table.make(keys.id.slot).close();
        self.notify_closed(keys.id.slot, old.shared);
        let mut control = self.control.lock();
        control.pds.release(old.pd);
        self.vacate(&mut control, old.object_range.as_ref());
        self.open(&mut control, keys.id.slot, spec, (keys.lkey, keys.rkey), found);
        drop(control);
        drop(old.hold);
        Ok(())
    }

    /// Registers no memory at all, for the owner's lists only. At any address, reads return zeros. Writes
    /// vanish; they need [`Access::LOCAL_WRITE`] in `access`.
    ///
    /// # Errors
    /// [`MrError::UnknownPd`], [`MrError::Full`]; [`MrError::UnknownRights`] for any other right.
    pub fn register_null(&self, pd: PdId, access: Access) -> Result<MrKeys, MrError> {
        if !Access::LOCAL_WRITE.contains(access) {
            return Err(MrError::UnknownRights);
        }
        let spec = MrSpec { iova: 0, ..MrSpec::new(pd, core::ptr::null_mut(), u64::MAX, access) };
        self.enter(&spec, RegionMemory::of(Backing::Null))
    }

    /// Registers a [`Region`], which stays mapped until it is deregistered. Its bytes are named from `iova`
    /// on, by default from their address in this process.
    ///
    /// # Errors
    /// As [`register`](Registry::register), but never for unmapped or protected memory.
    pub fn register_region(
        &self,
        pd: PdId,
        region: Arc<Region>,
        iova: Option<u64>,
        access: Access,
    ) -> Result<MrKeys, MrError> {
        let mut spec = MrSpec::new(pd, region.ptr(), region.len_bytes(), access);
        spec.iova = iova.unwrap_or(spec.iova);
        check_spec(&spec)?;
        self.enter(
            &spec,
            RegionMemory { object_range: Some(ObjectRange::whole(region)), ..RegionMemory::of(Backing::Mapped) },
        )
    }

    /// Ends a memory region. Its keys die immediately; on return no access to its memory is in progress and
    /// none will follow.
    ///
    /// # Errors
    /// [`MrError::UnknownId`]; [`MrError::Busy`] while memory windows are bound to it.
    pub fn deregister(&self, id: MrId) -> Result<(), MrError> {
        let region = self.withdraw(id)?;
        // The slot belongs to this call alone, so the wait needs no lock.
        self.table.make(id.slot).close();
        self.notify_closed(id.slot, region.shared);
        let mut control = self.control.lock();
        self.vacate(&mut control, region.object_range.as_ref());
        control.slots.give_back(id.slot);
        control.pds.release(region.pd);
        drop(control);
        drop(region.hold);
        Ok(())
    }

    /// The properties of a local key's region. `None` if no region has this key.
    pub fn region_info(&self, lkey: LKey) -> Option<RegionInfo> {
        let grant = self.pin_local(lkey).ok()?;
        Some(RegionInfo {
            pd: grant.pd,
            rkey: grant.rkey,
            base: grant.base,
            len_bytes: grant.size_bytes(),
            access: grant.access,
        })
    }

    /// The permutation from remote keys of this registry to slots, for a peer that maps this process' memory.
    pub fn remote_keys(&self) -> RemoteKeys {
        self.keys.to_remote()
    }

    /// The grant of a local key, pinned until the pin is dropped.
    #[inline(always)]
    pub(crate) fn pin_local(&self, lkey: LKey) -> Result<Pin<'_, Grant>, MemoryError> {
        let pin = self.pin_slot(self.keys.local_slot(lkey))?;
        if pin.lkey != lkey || lkey == LKey(0) {
            return Err(MemoryError::BadKey);
        }
        Ok(pin)
    }

    /// The grant of a remote key, pinned until the pin is dropped.
    #[inline(always)]
    pub(crate) fn pin_remote(&self, rkey: RKey) -> Result<Pin<'_, Grant>, MemoryError> {
        let pin = self.pin_slot(self.keys.remote_slot(rkey))?;
        if pin.rkey != rkey {
            return Err(MemoryError::BadKey);
        }
        Ok(pin)
    }

    #[inline(always)]
    fn pin_slot(&self, slot: u32) -> Result<Pin<'_, Grant>, MemoryError> {
        let gate = self.table.get(slot).ok_or(MemoryError::BadKey)?;
        gate.pin().ok_or(MemoryError::BadKey)
    }

    /// Takes a slot for a checked region and opens its gate.
    fn enter(&self, spec: &MrSpec, found: RegionMemory) -> Result<MrKeys, MrError> {
        let mut control = self.control.lock();
        control.pds.retain(spec.pd)?;
        let Some(taken) = control.slots.take(&self.keys) else {
            control.pds.release(spec.pd);
            return Err(MrError::Full);
        };
        self.open(&mut control, taken.slot, spec, (taken.lkey, taken.rkey), found);
        let id = MrId { slot: taken.slot, serial: taken.serial };
        Ok(MrKeys { id, lkey: taken.lkey, rkey: taken.rkey })
    }

    /// Checks that the memory may be registered as specified; finds its kind and the place where peers can
    /// map it.
    fn examine(&self, spec: &MrSpec) -> Result<RegionMemory, MrError> {
        check_spec(spec)?;
        let on_demand = spec.access.contains(Access::ON_DEMAND);
        let (start, len_bytes) = (spec.ptr.addr(), usize::try_from(spec.len_bytes).unwrap_or(usize::MAX));
        let range = start..start.saturating_add(len_bytes);
        let plain = match on_demand {
            true if far::is_supported() => false,
            true => return Err(MrError::NoOnDemand),
            false => probe::survey(start, len_bytes, spec.access.contains(Access::LOCAL_WRITE))?.plain,
        };
        // SAFETY: the contract of `register`: the owner lends the memory to the registry until it is
        // deregistered; `survey` has found `plain`.
        let (object_range, hold) = unsafe { adopt::enter_range(range, plain, self.adoption()) };
        let backing = if on_demand { Backing::OnDemand } else { Backing::Mapped };
        Ok(RegionMemory { backing, object_range: object_range.filter(|_| !on_demand), hold })
    }

    /// Opens the gate of a slot that belongs to the caller, and notifies the mirror.
    fn open(
        &self,
        control: &mut RegistryState,
        slot: u32,
        spec: &MrSpec,
        keys: (LKey, RKey),
        RegionMemory { backing, object_range, hold }: RegionMemory,
    ) {
        let mirror = self.mirror.get().map(|mirror| &**mirror);
        let place = object_range.as_ref().and_then(|object_range| control.objects.enter(object_range, mirror));
        let record = RegionRecord { pd: spec.pd, windows: 0, shared: is_remote(spec.access), object_range, hold };
        control.slots.set(slot, SlotContents::Region(record));
        let grant = Grant { place, ..grant(spec, keys, backing) };
        self.table.make(slot).open(grant);
        self.notify_opened(slot, &grant);
    }

    /// Removes a closed key from its object's count.
    fn vacate(&self, control: &mut RegistryState, object_range: Option<&ObjectRange>) {
        if let Some(object_range) = object_range {
            control.objects.leave(object_range, self.mirror.get().map(|mirror| &**mirror));
        }
    }

    /// Takes a region out of its slot, which then belongs to the caller.
    fn withdraw(&self, id: MrId) -> Result<RegionRecord, MrError> {
        let slots = &mut self.control.lock().slots;
        if !slots.is_current(id.slot, id.serial) {
            return Err(MrError::UnknownId);
        }
        match slots.region(id.slot) {
            None => Err(MrError::UnknownId),
            Some(region) if region.windows > 0 => Err(MrError::Busy),
            Some(_) => match slots.unset(id.slot) {
                SlotContents::Region(region) => Ok(region),
                _ => unreachable!("it was a region a moment ago, under the same lock"),
            },
        }
    }
}

/// The kind and place of a region's memory.
struct RegionMemory {
    backing: Backing,
    object_range: Option<ObjectRange>,
    hold: Option<RegistrationHold>,
}

impl RegionMemory {
    /// Memory that is not adopted: none at all, or this library's own.
    fn of(backing: Backing) -> RegionMemory {
        RegionMemory { backing, object_range: None, hold: None }
    }
}

/// The grant of a region.
fn grant(spec: &MrSpec, (lkey, rkey): (LKey, RKey), backing: Backing) -> Grant {
    let grant = Grant {
        lkey,
        rkey,
        start: spec.ptr,
        base: base(spec),
        pd: spec.pd,
        access: spec.access,
        backing,
        ..Grant::NONE
    };
    grant.sized(spec.len_bytes)
}

/// On-demand memory from the first address to the last.
fn is_whole_space(spec: &MrSpec) -> bool {
    let on_demand = spec.access.contains(Access::ON_DEMAND);
    on_demand && spec.ptr.is_null() && spec.len_bytes == u64::MAX && base(spec) == 0
}

/// The number of the first byte in lists and peers' requests.
fn base(spec: &MrSpec) -> u64 {
    match spec.access.contains(Access::ZERO_BASED) {
        true => 0,
        false => spec.iova,
    }
}

/// The checks that do not need the mappings.
fn check_spec(spec: &MrSpec) -> Result<(), MrError> {
    let writes = Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
    if !Access::all().contains(spec.access) {
        return Err(MrError::UnknownRights);
    }
    if spec.access.intersects(writes) && !spec.access.contains(Access::LOCAL_WRITE) {
        return Err(MrError::NeedsLocalWrite);
    }
    if spec.access.contains(Access::FLUSH_PERSISTENT) {
        return Err(MrError::NotPersistent);
    }
    if is_whole_space(spec) {
        return Ok(());
    }
    let address = spec.ptr.addr() as u64;
    let wraps = spec.len_bytes > isize::MAX as u64
        || address.checked_add(spec.len_bytes).is_none()
        || base(spec).checked_add(spec.len_bytes).is_none();
    match wraps {
        true => Err(MrError::Wraps),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests;
