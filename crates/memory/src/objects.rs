//! Memory that peers can map, with the number of keys in each object.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::mirror::{Mirror, ObjectFile};
use crate::region::Region;
use crate::shared::ObjectPlace;

/// A part of a memfd with registered memory in it.
pub(crate) trait MappableObject: Send + Sync {
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

impl MappableObject for Region {
    fn file(&self) -> Option<&Arc<OwnedFd>> {
        Region::file(self)
    }

    fn bytes(&self) -> u64 {
        self.mapped_bytes()
    }
}

/// The place of a registered range.
pub(crate) struct ObjectRange {
    pub(crate) object: Arc<dyn MappableObject>,
    /// As in [`ObjectPlace`].
    pub(crate) offset: u64,
    pub(crate) skip_front: u64,
    pub(crate) skip_back: u64,
}

impl ObjectRange {
    /// All of a region.
    pub(crate) fn whole(region: Arc<Region>) -> ObjectRange {
        ObjectRange { object: region, offset: 0, skip_front: 0, skip_back: 0 }
    }
}

/// The objects of a registry that hold keys.
#[derive(Default)]
pub(crate) struct ObjectTable {
    /// By address, which is unique while the objects are in this map.
    live: HashMap<usize, LiveObject>,
}

struct LiveObject {
    number: u32,
    keys: usize,
    object: Arc<dyn MappableObject>,
}

impl ObjectTable {
    /// Counts a key and returns its place. `None` when all numbers have been used, or peers cannot map the
    /// object.
    pub(crate) fn enter(&mut self, object_range: &ObjectRange, mirror: Option<&dyn Mirror>) -> Option<ObjectPlace> {
        let ObjectRange { object, offset, skip_front, skip_back, .. } = object_range;
        let held = match self.live.entry(name(object)) {
            Entry::Occupied(held) => held.into_mut(),
            Entry::Vacant(free) => {
                let file = file(&**object)?;
                let number = object.next_number()?;
                if let Some(mirror) = mirror {
                    mirror.object_added(number, &file);
                }
                free.insert(LiveObject { number, keys: 0, object: Arc::clone(object) })
            }
        };
        held.keys += 1;
        Some(ObjectPlace { object: held.number, offset: *offset, skip_front: *skip_front, skip_back: *skip_back })
    }

    /// Removes a key from the count, after it was closed.
    pub(crate) fn leave(&mut self, object_range: &ObjectRange, mirror: Option<&dyn Mirror>) {
        let name = name(&object_range.object);
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

fn name(object: &Arc<dyn MappableObject>) -> usize {
    Arc::as_ptr(object).addr()
}

fn file(object: &dyn MappableObject) -> Option<ObjectFile> {
    Some(ObjectFile { fd: Arc::clone(object.file()?), start: object.start(), len_bytes: object.bytes() })
}

/// Numbers of adopted objects begin at 2^31, so these end before.
fn next_number() -> Option<u32> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_update(Relaxed, Relaxed, |number| (number < u32::MAX / 2).then_some(number + 1)).ok()
}
