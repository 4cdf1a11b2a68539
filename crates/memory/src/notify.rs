//! The registry's notifications to its [`Mirror`]: keys and objects that appear and vanish.

use std::sync::Arc;

use transport::{Access, MemoryError, PdId, Sge};
use wire::Qpn;

use crate::adopt;
use crate::far::Backing;
use crate::grant::{ANY_QP, Grant};
use crate::mirror::{Mirror, is_remote};
use crate::registry::Registry;
use crate::shared::SharedKey;

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

#[cfg(test)]
mod tests;
