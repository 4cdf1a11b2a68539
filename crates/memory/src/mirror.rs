//! What is told outside when keys and the memory under them come and go, for peers on the
//! same host that reach the memory by themselves.
//!
//! The registry checks accesses that come through it. A peer in another process that has
//! mapped the memory does its own, so two things must hold: it learns of a key before the key
//! is handed out, and before memory is given back somebody waits until no peer uses it any
//! more. Both are the business of a [`Mirror`]; without one nothing changes.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use transport::{Access, MemoryError, PdId, Sge};
use wire::Qpn;

use crate::adopt;
use crate::far::Backing;
use crate::grant::{ANY_QP, Grant};
use crate::registry::Registry;
use crate::shared::{Place, SharedKey};

/// Rights by which peers reach memory. A key without any of them is of no use to them.
const REMOTE_RIGHTS: Access =
    Access::REMOTE_WRITE.union(Access::REMOTE_READ).union(Access::REMOTE_ATOMIC).union(Access::FLUSH_GLOBAL);

/// The part of a memfd that an object is.
#[derive(Clone, Debug)]
pub struct ObjectFile {
    /// The memfd, sealed against shrinking.
    pub fd: Arc<OwnedFd>,
    /// Where in it the object begins, in bytes.
    pub start: u64,
    /// Its length.
    pub len_bytes: u64,
}

/// Told of keys that peers can use, and of the memory under keys, as they come and go.
///
/// All calls but `closed` for a memory region are made under the registry's lock, so none may
/// call the registry.
pub trait Mirror: Send + Sync {
    /// Memory that peers can map, told before the first key that lies in it. The number is not
    /// used again in this process.
    fn object_added(&self, object: u32, file: &ObjectFile);

    /// After the last key that lies in it was closed.
    fn object_removed(&self, object: u32);

    /// A key that peers can use, after its gate was opened.
    fn opened(&self, slot: u32, key: &SharedKey);

    /// The key of a slot is dead for users in this process, and no access of theirs is under
    /// way. Returns when the same holds for peers, so it may wait. May be told of a key that
    /// was being closed while the mirror was set, and so was never opened.
    fn closed(&self, slot: u32);

    /// Adopted memory [is given up](crate::is_given_up): the keys that lie in such objects live on, without a place.
    /// Returns when no peer uses that memory any more. Called without the registry's lock, before a fork.
    fn given_up(&self);
}

impl Registry {
    /// Sets who is told. What exists already is told at once.
    ///
    /// # Panics
    /// If it was set before.
    pub fn set_mirror(&self, mirror: Arc<dyn Mirror>) {
        let control = self.control.lock();
        control.objects.each(|number, file| mirror.object_added(number, &file));
        for (slot, grant) in control.slots.open().filter_map(|slot| Some((slot, self.shared_grant(slot)?))) {
            mirror.opened(slot, &grant.to_shared());
        }
        adopt::add_mirror(&mirror);
        let set = self.mirror.set(mirror);
        assert!(set.is_ok(), "a registry has one mirror");
    }

    /// Where the bytes of a list entry lie, if all of them are in one object that peers can map:
    /// its number, and the offset in it.
    ///
    /// # Errors
    /// As [`Memory::gather`](transport::Memory::gather).
    pub fn locate(&self, pd: PdId, sge: &Sge) -> Result<Option<(u32, u64)>, MemoryError> {
        let grant = self.pin_local(sge.lkey)?;
        grant.admit_local(pd, false)?;
        let len_bytes = u64::from(sge.len_bytes);
        grant.first_byte(sge.addr, len_bytes)?;
        let Some(place) = grant.place.filter(|place| !adopt::is_given_up(place.object)) else {
            return Ok(None);
        };
        // In bounds by the range check.
        let from = sge.addr - grant.base;
        let inside = from >= place.skip_front && from + len_bytes <= grant.len_bytes - place.skip_back;
        Ok(inside.then(|| (place.object, place.offset + (from - place.skip_front))))
    }

    /// Tells of a key that was opened. To be called under the lock.
    pub(crate) fn tell_opened(&self, slot: u32, grant: &Grant) {
        if let Some(mirror) = self.mirror.get()
            && grant.is_shared()
        {
            mirror.opened(slot, &grant.to_shared());
        }
    }

    /// Tells of a key whose gate was closed, and waits for peers.
    pub(crate) fn tell_closed(&self, slot: u32, was_shared: bool) {
        if let Some(mirror) = self.mirror.get()
            && was_shared
        {
            mirror.closed(slot);
        }
    }

    /// What a slot grants to peers, if anything.
    fn shared_grant(&self, slot: u32) -> Option<Grant> {
        let grant = *self.table.get(slot)?.pin()?;
        grant.is_shared().then_some(grant)
    }
}

impl Drop for Registry {
    /// Peers stop as well.
    fn drop(&mut self) {
        let Some(mirror) = self.mirror.get() else {
            return;
        };
        let control = self.control.get_mut();
        for slot in control.slots.open() {
            let gate = self.table.make(slot);
            if gate.pin().is_some_and(|grant| grant.is_shared()) {
                gate.close();
                mirror.closed(slot);
            }
        }
        control.objects.each(|number, _| mirror.object_removed(number));
    }
}

/// Whether peers can use a key with these rights.
pub(crate) fn is_remote(access: Access) -> bool {
    access.intersects(REMOTE_RIGHTS)
}

impl Grant {
    /// Whether peers are told of it: they can use it, or it is a window.
    pub(crate) fn is_shared(&self) -> bool {
        is_remote(self.access) || self.is_window()
    }

    /// What peers are told.
    fn to_shared(self) -> SharedKey {
        let on_demand = if self.backing == Backing::OnDemand { Access::ON_DEMAND } else { Access::empty() };
        SharedKey {
            rkey: self.rkey,
            pd: self.pd,
            access: self.access | on_demand,
            only: (self.only != ANY_QP).then(|| Qpn::new(self.only)),
            base: self.base,
            len_bytes: self.size_bytes(),
            start: self.start.addr() as u64,
            place: self.place,
        }
    }
}

impl Place {
    /// The place of `len_bytes` from `from` on within a key's range of `whole_bytes`, all inside.
    /// Nothing if none of them is in the object.
    pub(crate) fn part(self, whole_bytes: u64, from: u64, len_bytes: u64) -> Option<Place> {
        let end = from + len_bytes;
        let (first, last) = (from.max(self.skip_front), end.min(whole_bytes - self.skip_back));
        (first < last).then(|| Place {
            object: self.object,
            offset: self.offset + (first - self.skip_front),
            skip_front: first - from,
            skip_back: end - last,
        })
    }
}

#[cfg(test)]
mod tests;
