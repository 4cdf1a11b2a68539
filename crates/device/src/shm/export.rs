//! The export of this process to its peers: keys, memory, queue pairs.

use std::collections::BTreeMap;
use std::sync::Arc;

use memory::{Mirror, ObjectFile, SharedKey};
use parking_lot::Mutex;
use shm::{Export, SharedQp};
use wire::Qpn;

use crate::shm::link::ShmLink;
use crate::shm::links::LinkTable;

/// The export, and the memory that goes with it.
pub(crate) struct Exporter {
    export: Export,
    links: Arc<LinkTable>,
    /// Memory objects by number, for links that come later.
    objects: Mutex<BTreeMap<u32, ObjectFile>>,
}

impl Exporter {
    pub(crate) fn new(export: Export, links: Arc<LinkTable>) -> Exporter {
        Exporter { export, links, objects: Mutex::default() }
    }

    pub(crate) fn export(&self) -> &Export {
        &self.export
    }

    pub(crate) fn open_qp(&self, qp: &SharedQp) {
        self.export.open_qp(qp);
    }

    /// Takes a queue pair away. An access of the peer may be under way still.
    pub(crate) fn close_qp(&self, qpn: Qpn) {
        self.export.close_qp(qpn);
    }

    /// Offers an object again that a peer has asked for.
    pub(crate) fn offer(&self, link: &ShmLink, object: u32) {
        if let Some(file) = self.objects.lock().get(&object) {
            link.offer_object(object, file);
        }
    }

    /// Adds a link to those that learn of memory, and offers it all objects.
    pub(crate) fn enter(&self, link: Arc<ShmLink>) {
        // Under the lock: an object that comes now is offered either here or by `object_added`.
        let objects = self.objects.lock();
        for (object, file) in &*objects {
            link.offer_object(*object, file);
        }
        self.links.list.enter(link);
    }
}

impl Mirror for Exporter {
    fn object_added(&self, object: u32, file: &ObjectFile) {
        let mut objects = self.objects.lock();
        for link in &*self.links.list.all() {
            link.offer_object(object, file);
        }
        objects.insert(object, file.clone());
    }

    fn object_removed(&self, object: u32) {
        let mut objects = self.objects.lock();
        objects.remove(&object);
        for link in &*self.links.list.all() {
            link.withdraw_object(object);
        }
    }

    fn opened(&self, slot: u32, key: &SharedKey) {
        self.export.open_key(slot, key);
    }

    fn closed(&self, slot: u32) {
        self.export.close_key(slot);
        for link in &*self.links.list.all() {
            link.wait_for_peer_accesses();
        }
    }

    fn given_up(&self) {
        self.export.give_up_places();
        for link in &*self.links.list.all() {
            link.wait_for_peer_accesses();
        }
    }
}
