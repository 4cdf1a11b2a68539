//! Ranges of keys.

use std::ops::{Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// Keys from one to another, in the order of their bytes. Rust's ranges become one: `KeyRange::from("a".."b")`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRange {
    /// The first key that may be in it.
    first: Vec<u8>,
    /// The first key behind it; `None` if it has no end.
    end: Option<Vec<u8>>,
}

/// The next string in the order of bytes.
fn successor(key: &[u8]) -> Vec<u8> {
    let mut next = key.to_vec();
    next.push(0);
    next
}

impl KeyRange {
    /// All keys.
    pub fn all() -> KeyRange {
        KeyRange::default()
    }

    /// The keys between two bounds: `KeyRange::of::<&[u8]>(b"a"..=b"c")`.
    pub fn of<K: AsRef<[u8]>>(range: impl RangeBounds<K>) -> KeyRange {
        let first = match range.start_bound() {
            Bound::Included(key) => key.as_ref().to_vec(),
            Bound::Excluded(key) => successor(key.as_ref()),
            Bound::Unbounded => Vec::new(),
        };
        let end = match range.end_bound() {
            Bound::Included(key) => Some(successor(key.as_ref())),
            Bound::Excluded(key) => Some(key.as_ref().to_vec()),
            Bound::Unbounded => None,
        };
        KeyRange { first, end }
    }

    /// The keys that begin with these bytes.
    pub fn prefix(prefix: &[u8]) -> KeyRange {
        let mut end = prefix.to_vec();
        while end.last() == Some(&u8::MAX) {
            end.pop();
        }
        let end = end.pop().map(|last| {
            end.push(last + 1);
            end
        });
        KeyRange { first: prefix.to_vec(), end }
    }

    /// The part of it from a key on.
    pub fn starting_at(&self, key: &[u8]) -> KeyRange {
        KeyRange { first: key.max(self.first()).to_vec(), end: self.end.clone() }
    }

    /// The part of it behind a key.
    pub fn behind(&self, key: &[u8]) -> KeyRange {
        self.starting_at(&successor(key))
    }

    /// True if no key can be in it.
    pub fn is_empty(&self) -> bool {
        self.is_above(&self.first)
    }

    /// True if the key is in it.
    pub fn contains(&self, key: &[u8]) -> bool {
        key >= self.first() && !self.is_above(key)
    }

    /// The first key that may be in it.
    pub fn first(&self) -> &[u8] {
        &self.first
    }

    /// The first key behind it; `None` if it has no end.
    pub fn end(&self) -> Option<&[u8]> {
        self.end.as_deref()
    }

    /// True if the key is behind its end.
    pub(crate) fn is_above(&self, key: &[u8]) -> bool {
        self.end.as_deref().is_some_and(|end| key >= end)
    }
}

impl From<&KeyRange> for KeyRange {
    fn from(range: &KeyRange) -> KeyRange {
        range.clone()
    }
}

impl From<RangeFull> for KeyRange {
    fn from(_: RangeFull) -> KeyRange {
        KeyRange::all()
    }
}

macro_rules! from_bounds {
    ($($bounds:ty),*) => {$(
        impl<K: AsRef<[u8]>> From<$bounds> for KeyRange {
            fn from(range: $bounds) -> KeyRange {
                KeyRange::of(range)
            }
        }
    )*};
}

from_bounds!(Range<K>, RangeInclusive<K>, RangeFrom<K>, RangeTo<K>, RangeToInclusive<K>, (Bound<K>, Bound<K>));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_and_prefixes() {
        let holds = |range: KeyRange, keys: [&str; 4]| keys.map(|key| range.contains(key.as_bytes()));
        let keys = ["a", "b", "b\0", "c"];
        assert_eq!(holds(KeyRange::of("a".."b"), keys), [true, false, false, false]);
        assert_eq!(holds(KeyRange::of("a"..="b"), keys), [true, true, false, false]);
        assert_eq!(
            holds(KeyRange::of::<&str>((Bound::Excluded("b"), Bound::Unbounded)), keys),
            [false, false, true, true]
        );
        assert_eq!(holds(KeyRange::all(), keys), [true; 4]);
        assert_eq!(holds(KeyRange::prefix(b"b"), keys), [false, true, true, false]);
        assert_eq!(KeyRange::prefix(&[1, 255, 255]).end, Some(vec![2]));
        assert_eq!((KeyRange::prefix(&[255]).end, KeyRange::prefix(b"").end), (None, None));
    }

    #[test]
    fn ranges_are_cut_and_may_be_empty() {
        let range = KeyRange::from("b".."d");
        assert_eq!(range.starting_at(b"a"), range);
        assert_eq!(range.starting_at(b"c"), KeyRange::from("c".."d"));
        assert_eq!(range.behind(b"b"), KeyRange::from("b\0".."d"));
        assert!(range.behind(b"d").is_empty() && KeyRange::from("b".."b").is_empty() && !range.is_empty());
        assert_eq!((KeyRange::from(..), KeyRange::from(.."b").end), (KeyRange::all(), Some(b"b".to_vec())));
        assert_eq!(KeyRange::from("b"..).end(), None);
    }
}
