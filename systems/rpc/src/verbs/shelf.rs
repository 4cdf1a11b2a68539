//! One region for the areas of all peers: a device then knows few keys, and a host maps few pieces of memory.
//!
//! FaRM and HERD register the memory of all clients together. A peer that knows the key of its area knows the key to those of
//! the others. So this is for peers that trust each other.

use std::sync::Arc;

use longarm::{Access, MemoryRegion, ProtectionDomain, ResourceError};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::verbs::area::VerbsArea;

/// Areas begin at multiples of this: those of two peers share no line of a cache.
const ALIGN_BYTES: u64 = 64;
/// Length of the first region of a shelf, unless one area is longer, and of the longest. Each is twice as long as the one
/// before.
const REGION_BYTES: (u64, u64) = (1 << 20, 64 << 20);
/// Bytes that are zeroed at a time.
const ZEROS: [u8; 4096] = [0; 4096];

/// Areas with the same rights, cut from regions that grow.
pub(crate) struct AreaShelf {
    access: Access,
    regions: Mutex<ShelfRegions>,
}

#[derive(Default)]
struct ShelfRegions {
    /// The last one, and how much of it is cut off.
    last: Option<(Arc<MemoryRegion>, u64)>,
    /// Areas that were given back, by their length.
    idle: FxHashMap<u64, Vec<(Arc<MemoryRegion>, u64)>>,
}

/// An area's place on its shelf, to be given back.
pub(crate) struct ShelfPlace {
    shelf: Arc<AreaShelf>,
    region: Arc<MemoryRegion>,
    start: u64,
    len_bytes: u64,
}

impl Drop for ShelfPlace {
    fn drop(&mut self) {
        let place = (Arc::clone(&self.region), self.start);
        self.shelf.regions.lock().idle.entry(self.len_bytes).or_default().push(place);
    }
}

impl AreaShelf {
    pub(crate) fn new(access: Access) -> Arc<AreaShelf> {
        Arc::new(AreaShelf { access, regions: Mutex::default() })
    }

    /// A zeroed area.
    ///
    /// # Errors
    /// If the system has no memory for it.
    pub(crate) fn area(
        self: &Arc<AreaShelf>,
        domain: &ProtectionDomain,
        len_bytes: u64,
    ) -> Result<VerbsArea, ResourceError> {
        let mut regions = self.regions.lock();
        let idle = regions.idle.get_mut(&len_bytes).and_then(Vec::pop);
        let (region, start) = match idle {
            Some((region, start)) => {
                zero(&region, start, len_bytes);
                (region, start)
            }
            None => regions.cut(domain, self.access, len_bytes)?,
        };
        drop(regions);
        let place = ShelfPlace { shelf: Arc::clone(self), region: Arc::clone(&region), start, len_bytes };
        Ok(VerbsArea::part(&region, start, len_bytes, place))
    }
}

impl ShelfRegions {
    fn cut(
        &mut self,
        domain: &ProtectionDomain,
        access: Access,
        len_bytes: u64,
    ) -> Result<(Arc<MemoryRegion>, u64), ResourceError> {
        let next = match &self.last {
            Some((region, used)) if len_bytes <= region.len_bytes() - used => (Arc::clone(region), *used),
            last => {
                let before = last.as_ref().map_or(0, |(region, _)| region.len_bytes());
                let region_bytes = (before * 2).clamp(REGION_BYTES.0, REGION_BYTES.1).max(len_bytes);
                (Arc::new(domain.expose(region_bytes as usize, access)?), 0)
            }
        };
        let used = (next.1 + len_bytes).next_multiple_of(ALIGN_BYTES).min(next.0.len_bytes());
        self.last = Some((Arc::clone(&next.0), used));
        Ok(next)
    }
}

/// The last peer may have left anything.
fn zero(region: &MemoryRegion, start: u64, len_bytes: u64) {
    let mut done = 0;
    while done < len_bytes {
        let part = (len_bytes - done).min(ZEROS.len() as u64);
        let zeroed = region.copy_in(start + done, &ZEROS[..part as usize]);
        debug_assert!(zeroed.is_ok(), "the area lies inside");
        done += part;
    }
}
