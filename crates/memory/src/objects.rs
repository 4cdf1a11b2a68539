//! Memory that peers can map, and how many keys lie in each piece of it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::adopt::Lease;
use crate::mirror::Mirror;
use crate::region::Region;
use crate::shared::Place;

/// A memfd with registered memory in it.
pub(crate) trait Object: Send + Sync {
    /// To map it by.
    fn fd(&self) -> BorrowedFd<'_>;
    /// Its length.
    fn bytes(&self) -> u64;
}

impl Object for Region {
    fn fd(&self) -> BorrowedFd<'_> {
        Region::fd(self)
    }

    fn bytes(&self) -> u64 {
        self.mapped_bytes()
    }
}

/// Where a registered range lies, and what keeps it there.
pub(crate) struct Lodging {
    pub(crate) object: Arc<dyn Object>,
    /// As in [`Place`].
    pub(crate) offset: u64,
    pub(crate) skip_front: u64,
    pub(crate) skip_back: u64,
    /// For memory of the program: its share of it.
    pub(crate) _lease: Option<Lease>,
}

impl Lodging {
    /// All of a region.
    pub(crate) fn whole(region: Arc<Region>) -> Lodging {
        Lodging { object: region, offset: 0, skip_front: 0, skip_back: 0, _lease: None }
    }
}

/// The objects of a registry that hold keys.
#[derive(Default)]
pub(crate) struct Objects {
    /// By where they are in memory, which is theirs as long as they are in here.
    live: HashMap<usize, Held>,
}

struct Held {
    number: u32,
    keys: usize,
    object: Arc<dyn Object>,
}

impl Objects {
    /// Counts a key, and says where it lies. Nothing when all numbers have been used.
    pub(crate) fn enter(&mut self, lodging: &Lodging, mirror: Option<&dyn Mirror>) -> Option<Place> {
        let Lodging { object, offset, skip_front, skip_back, .. } = lodging;
        let held = match self.live.entry(name(object)) {
            Entry::Occupied(held) => held.into_mut(),
            Entry::Vacant(free) => {
                let number = next_number()?;
                if let Some(mirror) = mirror {
                    mirror.object_added(number, object.fd(), object.bytes());
                }
                free.insert(Held { number, keys: 0, object: Arc::clone(object) })
            }
        };
        held.keys += 1;
        Some(Place { object: held.number, offset: *offset, skip_front: *skip_front, skip_back: *skip_back })
    }

    /// Counts a key off, after it was closed.
    pub(crate) fn leave(&mut self, lodging: &Lodging, mirror: Option<&dyn Mirror>) {
        let name = name(&lodging.object);
        // There is none if there was no number for it.
        let Some(held) = self.live.get_mut(&name) else {
            return;
        };
        held.keys -= 1;
        if held.keys > 0 {
            return;
        }
        let number = held.number;
        self.live.remove(&name);
        if let Some(mirror) = mirror {
            mirror.object_removed(number);
        }
    }

    /// All of them.
    pub(crate) fn each(&self, mut visit: impl FnMut(u32, &dyn Object)) {
        for held in self.live.values() {
            visit(held.number, &*held.object);
        }
    }
}

fn name(object: &Arc<dyn Object>) -> usize {
    Arc::as_ptr(object).addr()
}

/// A number that no object of this process had before.
fn next_number() -> Option<u32> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_update(Relaxed, Relaxed, |number| number.checked_add(1)).ok()
}
