//! A cache of locations: where the object of a key was, never its value.
//!
//! Nothing has to be invalidated. A reader that goes to an old place finds a dead object, or another key, and searches the
//! slots. (Wei et al., SOSP 2015, section 5.3: DrTM's location-based cache.)

use crate::object::Location;

/// Entries of a set: within it the one that was used least recently goes.
const WAYS: usize = 8;

#[derive(Clone, Copy, Debug)]
struct CachedPlace {
    tag: u64,
    location: Location,
}

/// Two lines of the processor's cache. A place that was used lately is in the first.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct CacheSet([CachedPlace; WAYS]);

/// Locations by the tags of their keys: bounded, 16 bytes each.
#[derive(Clone, Debug)]
pub struct LocationCache {
    sets: Vec<CacheSet>,
    hits: u64,
    misses: u64,
}

impl LocationCache {
    /// Room for at least so many locations; zero makes a cache that remembers nothing.
    pub fn new(locations: usize) -> LocationCache {
        let empty = CachedPlace { tag: 0, location: Location::EMPTY };
        LocationCache { sets: vec![CacheSet([empty; WAYS]); locations.div_ceil(WAYS)], hits: 0, misses: 0 }
    }

    /// Locations that it has room for.
    pub fn capacity(&self) -> usize {
        self.sets.len() * WAYS
    }

    /// Times that it knew a location, and times that it did not.
    pub fn hits_and_misses(&self) -> (u64, u64) {
        (self.hits, self.misses)
    }

    /// The location of a key's object, when it was last seen.
    pub fn get(&mut self, tag: u64) -> Option<Location> {
        let found = self.set(tag).and_then(|set| {
            let place = position(set, tag)?;
            set[..=place].rotate_right(1);
            Some(set[0].location)
        });
        *(if found.is_some() { &mut self.hits } else { &mut self.misses }) += 1;
        found
    }

    /// Remembers a location; another one of the same set may go.
    pub fn put(&mut self, tag: u64, location: Location) {
        if let Some(set) = self.set(tag) {
            let place = position(set, tag).unwrap_or(WAYS - 1);
            set[..=place].rotate_right(1);
            set[0] = CachedPlace { tag, location };
        }
    }

    /// Forgets a location that has proved wrong.
    pub fn forget(&mut self, tag: u64) {
        if let Some(set) = self.set(tag)
            && let Some(place) = position(set, tag)
        {
            set[place].location = Location::EMPTY;
            set[place..].rotate_left(1);
        }
    }

    fn set(&mut self, tag: u64) -> Option<&mut [CachedPlace; WAYS]> {
        // The upper bits choose the bucket, so the lower ones choose the set.
        let number = (tag as u32 as u64 * self.sets.len() as u64) >> 32;
        self.sets.get_mut(number as usize).map(|set| &mut set.0)
    }
}

fn position(set: &[CachedPlace; WAYS], tag: u64) -> Option<usize> {
    set.iter().position(|place| place.tag == tag && place.location != Location::EMPTY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::SizeClass;

    fn location(number: u64) -> Location {
        Location::new(number * 64, SizeClass::of(64).unwrap(), 1)
    }

    #[test]
    fn the_least_recently_used_goes() {
        let mut cache = LocationCache::new(8);
        assert_eq!(cache.capacity(), 8);
        (1..=8).for_each(|tag| cache.put(tag, location(tag)));
        assert_eq!(cache.get(1), Some(location(1)));
        cache.put(9, location(9));
        assert_eq!((cache.get(2), cache.get(1), cache.get(9)), (None, Some(location(1)), Some(location(9))));
        cache.put(9, location(10));
        assert_eq!(cache.get(9), Some(location(10)));
        cache.forget(9);
        cache.forget(77);
        assert_eq!((cache.get(9), cache.get(1)), (None, Some(location(1))));
        assert_eq!(cache.hits_and_misses(), (5, 2));
    }

    #[test]
    fn without_room_it_remembers_nothing() {
        let mut cache = LocationCache::new(0);
        cache.put(1, location(1));
        assert_eq!((cache.get(1), cache.capacity()), (None, 0));
    }
}
