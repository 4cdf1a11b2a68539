//! Memory that peers can map, with the number of keys in each object.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::mirror::{Mirror, ObjectFile};
use crate::region::Region;
use crate::shared::Place;

/// A part of a memfd with registered memory in it.
pub(crate) trait Object: Send + Sync {
    /// The memfd, if peers can map it.
    fn file(&self) -> Option<&Arc<OwnedFd>>;

    /// The offset of the object in the memfd, in bytes.
    fn start(&self) -> u64 {
        0
    }

    /// Its length.
    fn bytes(&self) -> u64;

    /// A number that no object of this process had before. `None` when all have been used.
    fn next_number(&self) -> Option<u32> {
        next_number()
    }
}

impl Object for Region {
    fn file(&self) -> Option<&Arc<OwnedFd>> {
        Region::file(self)
    }

    fn bytes(&self) -> u64 {
        self.mapped_bytes()
    }
}

/// The place of a registered range.
pub(crate) struct Lodging {
    pub(crate) object: Arc<dyn Object>,
    /// As in [`Place`].
    pub(crate) offset: u64,
    pub(crate) skip_front: u64,
    pub(crate) skip_back: u64,
}

impl Lodging {
    /// All of a region.
    pub(crate) fn whole(region: Arc<Region>) -> Lodging {
        Lodging { object: region, offset: 0, skip_front: 0, skip_back: 0 }
    }
}

/// The objects of a registry that hold keys.
#[derive(Default)]
pub(crate) struct Objects {
    /// By address, which is unique while the objects are in this map.
    live: HashMap<usize, Held>,
}

struct Held {
    number: u32,
    keys: usize,
    object: Arc<dyn Object>,
}

impl Objects {
    /// Counts a key and returns its place. `None` when all numbers have been used, or peers cannot map the
    /// object.
    pub(crate) fn enter(&mut self, lodging: &Lodging, mirror: Option<&dyn Mirror>) -> Option<Place> {
        let Lodging { object, offset, skip_front, skip_back, .. } = lodging;
        let held = match self.live.entry(name(object)) {
            Entry::Occupied(held) => held.into_mut(),
            Entry::Vacant(free) => {
                let file = file(&**object)?;
                let number = object.next_number()?;
                if let Some(mirror) = mirror {
                    mirror.object_added(number, &file);
                }
                free.insert(Held { number, keys: 0, object: Arc::clone(object) })
            }
        };
        held.keys += 1;
        Some(Place { object: held.number, offset: *offset, skip_front: *skip_front, skip_back: *skip_back })
    }

    /// Removes a key from the count, after it was closed.
    pub(crate) fn leave(&mut self, lodging: &Lodging, mirror: Option<&dyn Mirror>) {
        let name = name(&lodging.object);
        // `enter` stored none if there was no number or no file.
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

    /// Calls `visit` for all objects.
    pub(crate) fn each(&self, mut visit: impl FnMut(u32, ObjectFile)) {
        for held in self.live.values() {
            if let Some(file) = file(&*held.object) {
                visit(held.number, file);
            }
        }
    }
}

fn name(object: &Arc<dyn Object>) -> usize {
    Arc::as_ptr(object).addr()
}

fn file(object: &dyn Object) -> Option<ObjectFile> {
    Some(ObjectFile { fd: Arc::clone(object.file()?), start: object.start(), len_bytes: object.bytes() })
}

/// Numbers of adopted objects begin at 2^31, so these end before.
fn next_number() -> Option<u32> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_update(Relaxed, Relaxed, |number| (number < u32::MAX / 2).then_some(number + 1)).ok()
}
