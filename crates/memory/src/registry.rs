//! The registry: protection domains and memory regions, made and unmade.

use std::io;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use transport::{Access, LKey, MemoryError, PdId};
use wire::RKey;

use crate::adopt::{self, Adoption, Hold};
use crate::copies;
use crate::error::MrError;
use crate::far::{self, Backing};
use crate::gate::Pin;
use crate::grant::Grant;
use crate::keys::{Keys, MAX_SLOTS};
use crate::mirror::{Mirror, is_remote};
use crate::objects::{Lodging, Objects};
use crate::pds::Pds;
use crate::probe;
use crate::region::Region;
use crate::secret::SecretStream;
use crate::shared::RemoteKeys;
use crate::slots::{Holder, RegionRecord, Slots};
use crate::table::Table;
use crate::unmapped::Listed;
use crate::windows::TypeTwoBinds;

/// What a memory region is made from.
#[derive(Clone, Copy, Debug)]
pub struct MrSpec {
    /// Its protection domain.
    pub pd: PdId,
    /// Its first byte.
    pub ptr: *mut u8,
    /// Its length. A region of no bytes is allowed; nothing can be reached through it.
    pub len_bytes: u64,
    /// The address by which lists and peers name the first byte. With
    /// [`Access::ZERO_BASED`] it is not looked at: they count from zero.
    pub iova: u64,
    /// What may be done with it.
    pub access: Access,
}

impl MrSpec {
    /// A region that is named by its addresses in this process.
    pub fn new(pd: PdId, ptr: *mut u8, len_bytes: u64, access: Access) -> MrSpec {
        MrSpec { pd, ptr, len_bytes, iova: ptr.addr() as u64, access }
    }
}

/// Names a memory region of a registry, for good: never used again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MrId {
    slot: u32,
    serial: u64,
}

/// A registered memory region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MrKeys {
    /// To deregister it by.
    pub id: MrId,
    /// For the owner's lists.
    pub lkey: LKey,
    /// For peers.
    pub rkey: RKey,
}

/// What a memory region is, as its owner may ask.
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
    /// What may be done with it.
    pub access: Access,
}

/// All memory that one device may reach.
///
/// Shared between threads as it is. Accesses, by the [`Memory`](transport::Memory)
/// trait, take no lock; the methods here take one among themselves.
pub struct Registry {
    /// Goes before the table.
    _listed: Listed,
    pub(crate) keys: Keys,
    pub(crate) table: Table,
    pub(crate) control: Mutex<Control>,
    pub(crate) mirror: OnceLock<Arc<dyn Mirror>>,
    adoption: AtomicU8,
}

/// Everything that changes when regions and windows come and go.
pub(crate) struct Control {
    pub(crate) pds: Pds,
    pub(crate) slots: Slots,
    pub(crate) type_two: TypeTwoBinds,
    pub(crate) objects: Objects,
}

impl Registry {
    /// Memory regions and windows that can exist at once.
    pub const CAPACITY: u32 = MAX_SLOTS;

    /// An empty registry whose keys come from `seed`: the same seed and the same calls
    /// give the same keys, as a simulation wants it. Who knows the seed knows the keys;
    /// a device that peers can reach uses [`from_entropy`](Registry::from_entropy).
    pub fn new(seed: u64) -> Registry {
        let mut secret = [0; 8];
        (secret[0], secret[1]) = (seed as u32, (seed >> 32) as u32);
        Registry::with_secret(secret)
    }

    /// An empty registry whose keys nobody can foresee.
    ///
    /// # Errors
    /// If the kernel has no random numbers for us.
    pub fn from_entropy() -> io::Result<Registry> {
        Ok(Registry::with_secret(SecretStream::entropy()?))
    }

    fn with_secret(secret: [u32; 8]) -> Registry {
        let mut stream = SecretStream::new(secret);
        let keys = Keys::new(&mut stream);
        copies::prepare();
        let table = Table::new();
        Registry {
            // SAFETY: the table goes later, and its chunks stay where they are.
            _listed: unsafe { Listed::new(table.chunks()) },
            keys,
            table,
            control: Mutex::new(Control {
                pds: Pds::default(),
                slots: Slots::new(stream),
                type_two: TypeTwoBinds::default(),
                objects: Objects::default(),
            }),
            mirror: OnceLock::new(),
            adoption: AtomicU8::new(Adoption::Never as u8),
        }
    }

    /// Which memory that is registered from now on is moved to where peers on the same host can
    /// map it, in place. The default is none.
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

    /// Counts a dependant of a protection domain that is made elsewhere: a queue pair,
    /// a shared receive queue, an address handle.
    ///
    /// # Errors
    /// [`MrError::UnknownPd`].
    pub fn pd_retain(&self, pd: PdId) -> Result<(), MrError> {
        self.control.lock().pds.retain(pd)
    }

    /// Counts it off.
    ///
    /// # Panics
    /// If it was not retained.
    pub fn pd_release(&self, pd: PdId) {
        self.control.lock().pds.release(pd);
    }

    /// Registers memory of anybody's.
    ///
    /// With [`Access::ON_DEMAND`] the range need not be mapped, now or later: an access where
    /// nothing is mapped is refused. A range of `u64::MAX` bytes from the null pointer on is then
    /// the whole address space, named by its addresses.
    ///
    /// # Errors
    /// [`MrError::UnknownPd`], [`MrError::UnknownRights`], [`MrError::NeedsLocalWrite`],
    /// [`MrError::NotPersistent`], [`MrError::Wraps`], [`MrError::Unmapped`], [`MrError::Protected`], [`MrError::Full`],
    /// [`MrError::NoOnDemand`].
    ///
    /// # Safety
    /// Until [`deregister`](Registry::deregister) has returned, or the registry is
    /// dropped: all of the range stays mapped, backed and accessible as registered, unless it is
    /// on-demand memory, of which only what peers do atomics on must not be unmapped meanwhile;
    /// with local write access its contents may change at any time, so that nobody
    /// holds a reference to them or relies on them otherwise; and nobody holds a `&mut`
    /// to them while the device may read them.
    pub unsafe fn register(&self, spec: &MrSpec) -> Result<MrKeys, MrError> {
        let found = self.examine(spec)?;
        self.enter(spec, found)
    }

    /// Makes another registration of a region's keys: other memory, rights or protection domain.
    /// On return no access by the old one is under way. If it is refused the old one stands.
    ///
    /// # Errors
    /// As [`register`](Registry::register), and as [`deregister`](Registry::deregister).
    ///
    /// # Safety
    /// As [`register`](Registry::register); and the old memory is the owner's again.
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
        // The slot is ours alone now, so the wait needs no lock.
        self.table.make(keys.id.slot).close();
        self.tell_closed(keys.id.slot, old.shared);
        let mut control = self.control.lock();
        control.pds.release(old.pd);
        self.vacate(&mut control, old.lodging.as_ref());
        self.open(&mut control, keys.id.slot, spec, (keys.lkey, keys.rkey), found);
        drop(control);
        drop(old.hold);
        Ok(())
    }

    /// Registers no memory at all, for the owner's lists only: whatever the address, reads
    /// give zeros, and writes, if `access` is [`Access::LOCAL_WRITE`], vanish.
    ///
    /// # Errors
    /// [`MrError::UnknownPd`], [`MrError::Full`]; [`MrError::UnknownRights`] for any other right.
    pub fn register_null(&self, pd: PdId, access: Access) -> Result<MrKeys, MrError> {
        if !Access::LOCAL_WRITE.contains(access) {
            return Err(MrError::UnknownRights);
        }
        let spec = MrSpec { iova: 0, ..MrSpec::new(pd, core::ptr::null_mut(), u64::MAX, access) };
        self.enter(&spec, Found::of(Backing::Null))
    }

    /// Registers a [`Region`], which is kept mapped until it is deregistered. Its bytes
    /// are named from `iova` on, by default from their address in this process.
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
        self.enter(&spec, Found { lodging: Some(Lodging::whole(region)), ..Found::of(Backing::Mapped) })
    }

    /// Ends a memory region. Its keys are dead at once; on return no access to its
    /// memory is under way and none will come.
    ///
    /// # Errors
    /// [`MrError::UnknownId`]; [`MrError::Busy`] while memory windows are bound to it.
    pub fn deregister(&self, id: MrId) -> Result<(), MrError> {
        let region = self.withdraw(id)?;
        // The slot is nobody's now, so the wait needs no lock.
        self.table.make(id.slot).close();
        self.tell_closed(id.slot, region.shared);
        let mut control = self.control.lock();
        self.vacate(&mut control, region.lodging.as_ref());
        control.slots.give_back(id.slot);
        control.pds.release(region.pd);
        drop(control);
        drop(region.hold);
        Ok(())
    }

    /// What the region of a local key is. Nothing for a key that names none.
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

    /// What leads from a remote key of ours to its slot, for a peer that maps our memory.
    pub fn remote_keys(&self) -> RemoteKeys {
        self.keys.to_remote()
    }

    /// The grant of a local key, held until the pin is dropped.
    #[inline(always)]
    pub(crate) fn pin_local(&self, lkey: LKey) -> Result<Pin<'_, Grant>, MemoryError> {
        let pin = self.pin_slot(self.keys.local_slot(lkey))?;
        if pin.lkey != lkey || lkey == LKey(0) {
            return Err(MemoryError::BadKey);
        }
        Ok(pin)
    }

    /// The grant of a remote key, held until the pin is dropped.
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

    /// Gives a checked region a slot and opens it.
    fn enter(&self, spec: &MrSpec, found: Found) -> Result<MrKeys, MrError> {
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

    /// How the memory will be reached, if it may be registered so, and where peers find it.
    fn examine(&self, spec: &MrSpec) -> Result<Found, MrError> {
        check_spec(spec)?;
        let on_demand = spec.access.contains(Access::ON_DEMAND);
        let (start, len_bytes) = (spec.ptr.addr(), usize::try_from(spec.len_bytes).unwrap_or(usize::MAX));
        let range = start..start.saturating_add(len_bytes);
        let plain = match on_demand {
            true if far::is_supported() => false,
            true => return Err(MrError::NoOnDemand),
            false => probe::survey(start, len_bytes, spec.access.contains(Access::LOCAL_WRITE))?.plain,
        };
        // SAFETY: the owner of the memory lends it to us until it is deregistered.
        let (lodging, hold) = unsafe { adopt::lodge(range, plain, self.adoption()) };
        let backing = if on_demand { Backing::OnDemand } else { Backing::Mapped };
        Ok(Found { backing, lodging: lodging.filter(|_| !on_demand), hold })
    }

    /// Opens the gate of a slot that belongs to the caller, and tells of it.
    fn open(
        &self,
        control: &mut Control,
        slot: u32,
        spec: &MrSpec,
        keys: (LKey, RKey),
        Found { backing, lodging, hold }: Found,
    ) {
        let mirror = self.mirror.get().map(|mirror| &**mirror);
        let place = lodging.as_ref().and_then(|lodging| control.objects.enter(lodging, mirror));
        let record = RegionRecord { pd: spec.pd, windows: 0, shared: is_remote(spec.access), lodging, hold };
        control.slots.set(slot, Holder::Region(record));
        let grant = Grant { place, ..grant(spec, keys, backing) };
        self.table.make(slot).open(grant);
        self.tell_opened(slot, &grant);
    }

    /// Counts off a key that was closed.
    fn vacate(&self, control: &mut Control, lodging: Option<&Lodging>) {
        if let Some(lodging) = lodging {
            control.objects.leave(lodging, self.mirror.get().map(|mirror| &**mirror));
        }
    }

    /// Takes a region away from its slot, which then belongs to the caller.
    fn withdraw(&self, id: MrId) -> Result<RegionRecord, MrError> {
        let slots = &mut self.control.lock().slots;
        if !slots.is_current(id.slot, id.serial) {
            return Err(MrError::UnknownId);
        }
        match slots.region(id.slot) {
            None => Err(MrError::UnknownId),
            Some(region) if region.windows > 0 => Err(MrError::Busy),
            Some(_) => match slots.unset(id.slot) {
                Holder::Region(region) => Ok(region),
                _ => unreachable!("it was a region a moment ago, under the same lock"),
            },
        }
    }
}

/// What is known of the memory of a region.
struct Found {
    backing: Backing,
    lodging: Option<Lodging>,
    hold: Option<Hold>,
}

impl Found {
    /// Memory that is nobody's, or ours.
    fn of(backing: Backing) -> Found {
        Found { backing, lodging: None, hold: None }
    }
}

/// What is opened for a region.
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

/// How the first byte is named.
fn base(spec: &MrSpec) -> u64 {
    match spec.access.contains(Access::ZERO_BASED) {
        true => 0,
        false => spec.iova,
    }
}

/// What can be said without looking at the memory.
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
