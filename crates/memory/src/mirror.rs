//! Notifications about keys and the memory under them, for peers on the same host that access the memory
//! themselves.
//!
//! The registry checks accesses that come through it. A peer in another process that has mapped the memory
//! checks its own accesses, so two things must hold. The peer learns of a key before the key is handed out.
//! Before memory is given back, the registry waits until no peer uses it any more. A [`Mirror`] does both;
//! without one nothing changes.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use transport::{Access, MemoryError, PdId, Sge};
use wire::Qpn;

use crate::adopt;
use crate::far::Backing;
use crate::grant::{ANY_QP, Grant};
use crate::registry::Registry;
use crate::shared::{ObjectPlace, SharedKey};

/// Rights by which peers reach memory. A key without any of them is useless to peers.
const REMOTE_RIGHTS: Access =
    Access::REMOTE_WRITE.union(Access::REMOTE_READ).union(Access::REMOTE_ATOMIC).union(Access::FLUSH_GLOBAL);

/// An object's part of a memfd.
#[derive(Clone, Debug)]
pub struct ObjectFile {
    /// The memfd, sealed against shrinking.
    pub fd: Arc<OwnedFd>,
    /// The offset of the object in the memfd, in bytes.
    pub start: u64,
    /// Its length.
    pub len_bytes: u64,
}

/// Receives notifications of keys that peers can use, and of the memory under them.
///
/// All calls except `closed` for a memory region are made under the registry's lock, so no implementation may
/// call the registry.
pub trait Mirror: Send + Sync {
    /// Memory that peers can map; called before the first key in it. The number is not used again in this
    /// process.
    fn object_added(&self, object: u32, file: &ObjectFile);

    /// Called after the last key in the object was closed.
    fn object_removed(&self, object: u32);

    /// A key that peers can use; called after its gate was opened.
    fn opened(&self, slot: u32, key: &SharedKey);

    /// The key of a slot is dead in this process, and none of the process' accesses by it is in progress.
    /// Returns when the same holds for peers, so it may wait. It may name a key that was never opened, if the
    /// key was being closed while the mirror was set.
    fn closed(&self, slot: u32);

    /// Adopted memory [is given up](crate::is_given_up): the keys in such objects stay valid, without a
    /// place. Returns when no peer uses that memory any more. Called before a fork, without the registry's
    /// lock.
    fn given_up(&self);
}

impl Registry {
    /// Sets the mirror and notifies it of all existing objects and keys.
    ///
    /// # Panics
    /// If a mirror was set before.
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

    /// The object number and offset of a list entry's bytes, if all of them are in one object that peers can
    /// map.
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
        // The range check has shown that these are in bounds.
        let from = sge.addr - grant.base;
        let inside = from >= place.skip_front && from + len_bytes <= grant.len_bytes - place.skip_back;
        Ok(inside.then(|| (place.object, place.offset + (from - place.skip_front))))
    }

    /// Notifies the mirror of a key that was opened. The caller must hold the lock.
    pub(crate) fn notify_opened(&self, slot: u32, grant: &Grant) {
        if let Some(mirror) = self.mirror.get()
            && grant.is_shared()
        {
            mirror.opened(slot, &grant.to_shared());
        }
    }

    /// Notifies the mirror of a key whose gate was closed, and waits for peers.
    pub(crate) fn notify_closed(&self, slot: u32, was_shared: bool) {
        if let Some(mirror) = self.mirror.get()
            && was_shared
        {
            mirror.closed(slot);
        }
    }

    /// The grant of a slot, if peers are told of it.
    fn shared_grant(&self, slot: u32) -> Option<Grant> {
        let grant = *self.table.get(slot)?.pin()?;
        grant.is_shared().then_some(grant)
    }
}

impl Drop for Registry {
    /// Closes all keys that peers can use, and waits for the peers.
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

/// True if peers can use a key with these rights.
pub(crate) fn is_remote(access: Access) -> bool {
    access.intersects(REMOTE_RIGHTS)
}

impl Grant {
    /// True if peers are told of it: they can use it, or it is a window.
    pub(crate) fn is_shared(&self) -> bool {
        is_remote(self.access) || self.is_window()
    }

    /// The part of the grant that peers are told.
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

impl ObjectPlace {
    /// The place of `len_bytes` from `from` on within a key's range of `whole_bytes`, all inside. `None` if
    /// none of these bytes is in the object.
    pub(crate) fn part(self, whole_bytes: u64, from: u64, len_bytes: u64) -> Option<ObjectPlace> {
        let end = from + len_bytes;
        let (first, last) = (from.max(self.skip_front), end.min(whole_bytes - self.skip_back));
        (first < last).then(|| ObjectPlace {
            object: self.object,
            offset: self.offset + (first - self.skip_front),
            skip_front: first - from,
            skip_back: end - last,
        })
    }
}

#[cfg(test)]
mod tests;
