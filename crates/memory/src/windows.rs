//! Memory windows: remote rights to a part of a region, quickly given and withdrawn (IB specification
//! 10.6.7).
//!
//! A type 1 window is bound under any queue pair of its protection domain. It may be bound again immediately,
//! and is unbound by a bind of no bytes. A type 2 window (of the kind 2B: it belongs to the queue pair that
//! bound it as well as to the protection domain) must be invalidated before it is bound again. For both, the
//! consumer chooses the low byte of the key at each bind; the high 24 bits identify the window.

use std::collections::BTreeSet;

use transport::{Access, Accessor, BindMw, MemoryError, PdId};
use wire::{Qpn, RKey};

use crate::error::MrError;
use crate::grant::{ANY_QP, Grant};
use crate::registry::{Registry, RegistryState};
use crate::slots::{Bound, SlotContents, WindowRecord};

/// The kind of a memory window, numbered as `enum ibv_mw_type`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum MwType {
    /// Serves every queue pair of its protection domain.
    One = 1,
    /// Serves the queue pair that bound it, which (or whose peer) can invalidate it.
    Two = 2,
}

/// Identifies a memory window of a registry; never used again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MwId {
    slot: u32,
    serial: u64,
}

/// An allocated memory window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MwKeys {
    /// For [`Registry::dealloc_mw`].
    pub id: MwId,
    /// Its key until it is first bound. It grants no access yet.
    pub rkey: RKey,
}

/// The present state of a memory window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MwInfo {
    /// Its protection domain.
    pub pd: PdId,
    /// Its kind.
    pub kind: MwType,
    /// Its present key.
    pub rkey: RKey,
    /// True if the window is bound, so that its key grants access.
    pub bound: bool,
}

/// The meaning of an invalidation of a window that is not bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unbound {
    /// The key is invalid already: nothing is left to do.
    IsInvalid,
    /// The key is not valid, so the request fails.
    IsAnError,
}

/// The type 2 windows that each queue pair has bound: pairs of queue pair number and slot.
#[derive(Default)]
pub(crate) struct TypeTwoBinds(BTreeSet<(u32, u32)>);

/// The rights that a window may grant.
const WINDOW_RIGHTS: Access = Access::REMOTE_WRITE
    .union(Access::REMOTE_READ)
    .union(Access::REMOTE_ATOMIC)
    .union(Access::FLUSH_GLOBAL)
    .union(Access::REMOTE_CALL)
    .union(Access::ZERO_BASED);

/// The rights that change memory, and so need a region with local write access.
const WRITING_RIGHTS: Access = Access::REMOTE_WRITE.union(Access::REMOTE_ATOMIC);

impl Registry {
    /// Makes an unbound memory window.
    ///
    /// # Errors
    /// [`MrError::UnknownPd`], [`MrError::Full`].
    pub fn alloc_mw(&self, pd: PdId, kind: MwType) -> Result<MwKeys, MrError> {
        let mut control = self.control.lock();
        control.pds.retain(pd)?;
        let Some(taken) = control.slots.take(&self.keys) else {
            control.pds.release(pd);
            return Err(MrError::Full);
        };
        let window = WindowRecord { pd, kind, rkey: taken.rkey, bound: None };
        control.slots.set(taken.slot, SlotContents::Window(window));
        self.table.make(taken.slot);
        Ok(MwKeys { id: MwId { slot: taken.slot, serial: taken.serial }, rkey: taken.rkey })
    }

    /// Ends a memory window, bound or not. On return no access through it is in progress.
    ///
    /// # Errors
    /// [`MrError::UnknownId`].
    pub fn dealloc_mw(&self, id: MwId) -> Result<(), MrError> {
        let mut control = self.control.lock();
        let pd = self.window(&mut control, id)?.pd;
        self.unbind(&mut control, id.slot);
        control.slots.give_back(id.slot);
        control.pds.release(pd);
        Ok(())
    }

    /// The present state of a window.
    ///
    /// # Errors
    /// [`MrError::UnknownId`].
    pub fn mw_info(&self, id: MwId) -> Result<MwInfo, MrError> {
        let mut control = self.control.lock();
        let window = self.window(&mut control, id)?;
        Ok(MwInfo { pd: window.pd, kind: window.kind, rkey: window.rkey, bound: window.bound.is_some() })
    }

    /// Unbinds every type 2 window that a queue pair has bound. The caller destroys the queue pair; another
    /// may get its number.
    pub fn release_qp(&self, qpn: Qpn) {
        let mut control = self.control.lock();
        for slot in control.type_two.of(qpn) {
            self.unbind(&mut control, slot);
        }
    }

    /// The bind work request: see [`Memory::bind`](transport::Memory::bind).
    pub(crate) fn bind_window(&self, who: Accessor, bind: &BindMw) -> Result<(), MemoryError> {
        let mut control = self.control.lock();
        let slot = self.keys.remote_slot(bind.window);
        let window = control.slots.window(slot).ok_or(MemoryError::BadKey)?;
        check_window(window, who, bind)?;
        let kind = window.kind;
        let grant = match bind.len_bytes {
            0 => None,
            _ => Some(self.window_grant(&mut control, who, kind, bind)?),
        };
        self.unbind(&mut control, slot);
        let window = control.slots.window(slot).expect("it was one, under this lock");
        window.rkey = bind.bound_rkey();
        if let Some(grant) = grant {
            let region = self.keys.local_slot(bind.region);
            let bound = Bound { region, qpn: who.qpn };
            self.put_bound(&mut control, slot, bound, grant);
        }
        Ok(())
    }

    /// See [`Memory::invalidate`](transport::Memory::invalidate) and
    /// [`Memory::remote_invalidate`](transport::Memory::remote_invalidate).
    pub(crate) fn invalidate_window(&self, who: Accessor, rkey: RKey, unbound: Unbound) -> Result<(), MemoryError> {
        let mut control = self.control.lock();
        let slot = self.keys.remote_slot(rkey);
        let Some(window) = control.slots.window(slot) else {
            // Regions made by verbs cannot be invalidated, only those of fast registration.
            drop(control);
            let region = self.pin_remote(rkey)?;
            region.admit_remote(who, Access::empty())?;
            return Err(MemoryError::NoPermission);
        };
        if window.rkey != rkey {
            return Err(MemoryError::BadKey);
        }
        let foreign = window.bound.is_some_and(|bound| bound.qpn != who.qpn);
        if window.pd != who.pd || (window.kind == MwType::Two && foreign) {
            return Err(MemoryError::WrongDomain);
        }
        if window.kind == MwType::One {
            return Err(MemoryError::NoPermission);
        }
        if window.bound.is_none() && unbound == Unbound::IsAnError {
            return Err(MemoryError::BadKey);
        }
        self.unbind(&mut control, slot);
        Ok(())
    }

    /// The grant of the window after the bind, if the bind is allowed.
    fn window_grant(
        &self,
        control: &mut RegistryState,
        who: Accessor,
        kind: MwType,
        bind: &BindMw,
    ) -> Result<Grant, MemoryError> {
        // A region that is being deregistered has left its slot already, though its gate may still be open.
        let slot = self.keys.local_slot(bind.region);
        control.slots.region(slot).ok_or(MemoryError::BadKey)?;
        let region = *self.pin_local(bind.region)?;
        check_region(&region, who, bind)?;
        let start = region.first_byte(bind.addr, bind.len_bytes)?;
        // Bind and region use the same numbering, so the difference is the offset in the region.
        let from = bind.addr - region.base;
        let place = region.place.and_then(|place| place.part(region.size_bytes(), from, bind.len_bytes));
        let grant = Grant {
            lkey: transport::LKey(0),
            rkey: bind.bound_rkey(),
            start,
            place,
            base: match bind.access.contains(Access::ZERO_BASED) {
                true => 0,
                false => bind.addr,
            },
            pd: who.pd,
            access: bind.access,
            only: if kind == MwType::Two { who.qpn.get() } else { ANY_QP },
            ..region
        };
        Ok(grant.sized(bind.len_bytes))
    }

    fn put_bound(&self, control: &mut RegistryState, slot: u32, bound: Bound, grant: Grant) {
        let region = control.slots.region(bound.region);
        region.expect("it was found under this lock").windows += 1;
        let window = control.slots.window(slot);
        window.expect("it was found under this lock").bound = Some(bound);
        if grant.only != ANY_QP {
            control.type_two.insert(bound.qpn, slot);
        }
        self.table.make(slot).open(grant);
        self.notify_opened(slot, &grant);
    }

    /// Unbinds a window, if it is bound, and waits for accesses in progress. It waits under the lock. The
    /// wait lasts one copy. If the copying thread (here or in a peer on the same host) has lost its
    /// processor, it lasts until that thread runs again.
    fn unbind(&self, control: &mut RegistryState, slot: u32) {
        let window = control.slots.window(slot);
        let Some(bound) = window.and_then(|window| window.bound.take()) else {
            return;
        };
        self.table.make(slot).close();
        self.notify_closed(slot, true);
        control.type_two.remove(bound.qpn, slot);
        let region = control.slots.region(bound.region);
        region.expect("a region outlives its windows").windows -= 1;
    }

    fn window<'a>(&self, control: &'a mut RegistryState, id: MwId) -> Result<&'a mut WindowRecord, MrError> {
        if !control.slots.is_current(id.slot, id.serial) {
            return Err(MrError::UnknownId);
        }
        control.slots.window(id.slot).ok_or(MrError::UnknownId)
    }
}

/// Checks that this window may be bound as requested.
fn check_window(window: &WindowRecord, who: Accessor, bind: &BindMw) -> Result<(), MemoryError> {
    if window.rkey.0 >> 8 != bind.window.0 >> 8 {
        return Err(MemoryError::BadKey);
    }
    if window.pd != who.pd {
        return Err(MemoryError::WrongDomain);
    }
    if !WINDOW_RIGHTS.contains(bind.access) {
        return Err(MemoryError::NoPermission);
    }
    match window.kind {
        MwType::One if bind.access.contains(Access::ZERO_BASED) => Err(MemoryError::NoPermission),
        MwType::Two if window.bound.is_some() => Err(MemoryError::NoPermission),
        MwType::Two if bind.len_bytes == 0 => Err(MemoryError::OutOfBounds),
        _ => Ok(()),
    }
}

/// Checks that a window may be bound to this region as requested.
fn check_region(region: &Grant, who: Accessor, bind: &BindMw) -> Result<(), MemoryError> {
    region.admit_local(who.pd, bind.access.intersects(WRITING_RIGHTS))?;
    match region.access.contains(Access::MW_BIND) {
        true => Ok(()),
        false => Err(MemoryError::NoPermission),
    }
}

impl TypeTwoBinds {
    fn insert(&mut self, qpn: Qpn, slot: u32) {
        self.0.insert((qpn.get(), slot));
    }

    fn remove(&mut self, qpn: Qpn, slot: u32) {
        self.0.remove(&(qpn.get(), slot));
    }

    fn of(&self, qpn: Qpn) -> Vec<u32> {
        let all = (qpn.get(), 0)..=(qpn.get(), u32::MAX);
        self.0.range(all).map(|(_, slot)| *slot).collect()
    }
}

#[cfg(test)]
mod tests;
