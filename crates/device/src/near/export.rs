//! What this process shows its peers: keys, memory, queue pairs.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use local::{Export, SharedQp};
use memory::{Mirror, SharedKey};
use parking_lot::Mutex;
use wire::Qpn;

use super::links::{Links, NearLink};

/// The export, and the memory that goes with it.
pub(crate) struct Exporter {
    export: Export,
    links: Arc<Links>,
    /// Descriptors and sizes of memory objects by number, for links that come later.
    objects: Mutex<BTreeMap<u32, (OwnedFd, u64)>>,
}

impl Exporter {
    pub(super) fn new(export: Export, links: Arc<Links>) -> Exporter {
        Exporter { export, links, objects: Mutex::default() }
    }

    pub(crate) fn export(&self) -> &Export {
        &self.export
    }

    pub(super) fn open_qp(&self, qp: &SharedQp) {
        self.export.open_qp(qp);
    }

    /// Takes a queue pair away. An access of the peer may be under way still.
    pub(super) fn close_qp(&self, qpn: Qpn) {
        self.export.close_qp(qpn);
    }

    /// Offers an object again that a peer asks for.
    pub(super) fn offer(&self, link: &NearLink, object: u32) {
        if let Some((fd, bytes)) = self.objects.lock().get(&object) {
            link.offer_object(object, *bytes, fd.as_fd());
        }
    }

    /// Adds a link to those that learn of memory, and tells it of what there is.
    pub(super) fn enter(&self, link: Arc<NearLink>) {
        // Under the lock: memory that comes now is told either here or by `object_added`.
        let objects = self.objects.lock();
        for (object, (fd, bytes)) in &*objects {
            link.offer_object(*object, *bytes, fd.as_fd());
        }
        self.links.enter(link);
    }
}

impl Mirror for Exporter {
    fn object_added(&self, object: u32, fd: BorrowedFd<'_>, bytes: u64) {
        let mut objects = self.objects.lock();
        for link in &*self.links.all() {
            link.offer_object(object, bytes, fd);
        }
        match fd.try_clone_to_owned() {
            Ok(fd) => drop(objects.insert(object, (fd, bytes))),
            // Peers that come later reach this memory by other ways.
            Err(error) => log::warn!("memory is not shared with later peers: {error}"),
        }
    }

    fn object_removed(&self, object: u32) {
        let mut objects = self.objects.lock();
        objects.remove(&object);
        for link in &*self.links.all() {
            link.withdraw_object(object);
        }
    }

    fn opened(&self, slot: u32, key: &SharedKey) {
        self.export.open_key(slot, key);
    }

    fn closed(&self, slot: u32) {
        self.export.close_key(slot);
        for link in &*self.links.all() {
            link.wait_for_peer_accesses();
        }
    }
}
