//! Separators: the strings that tell which keys belong below which node. A node's fences are separators, too.
//!
//! ```text
//!  | length 0..=64 | bytes |
//!  | 254 |                                                            above all keys
//!  | 255 | length 4 | the first 24 bytes | hash 8 | offset / 64, 8 |    the bytes are elsewhere
//! ```
//! Between two neighbours the owner chooses the shortest string that separates them (Bayer, Unterauer: "Prefix B-trees", TODS
//! 1977). Long ones are in blocks of their own. A reader believes such a block if its bytes have the hash that the node tells.
//! So a block that was torn, or used again, deceives nobody.

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::memory::word_at;
use crate::object::MAX_KEY_BYTES;

/// Separators up to this length are inside their node.
pub(crate) const INLINE_BYTES: usize = 64;
const PREFIX_BYTES: usize = 24;
const INFINITE: u8 = 254;
const LONG: u8 = 255;
/// The most bytes that a separator takes in a node.
pub(crate) const MAX_ENCODED_BYTES: usize = 1 + INLINE_BYTES;

/// A separator whose bytes are in a block of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LongSeparator {
    pub(crate) len_bytes: u32,
    pub(crate) prefix: [u8; PREFIX_BYTES],
    /// The hash of all its bytes, by the tree's secret.
    pub(crate) hash: u64,
    /// Where the bytes are.
    pub(crate) at: u64,
}

/// A string between keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Separator<'a> {
    Short(Cow<'a, [u8]>),
    Long(LongSeparator),
    /// Above all keys.
    Infinite,
}

/// The answer of a comparison with a long separator, by its hash.
pub(crate) type KnownOrder = (u64, Ordering);

/// The hash by which a long separator is known.
pub(crate) fn separator_hash(salt: u64, bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(bytes, salt)
}

/// Number of bytes with which both begin.
pub(crate) fn common_bytes(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// The shortest string that is above `below` and not above `from`, for `below` < `from`.
pub(crate) fn shortest_between<'a>(below: &[u8], from: &'a [u8]) -> &'a [u8] {
    &from[..from.len().min(common_bytes(below, from) + 1)]
}

impl Separator<'_> {
    /// Below or equal to all keys.
    pub(crate) const LOWEST: Separator<'static> = Separator::Short(Cow::Borrowed(&[]));

    /// The separator without the node that it was read from.
    pub(crate) fn into_owned(self) -> Separator<'static> {
        match self {
            Separator::Short(bytes) => Separator::Short(Cow::Owned(bytes.into_owned())),
            Separator::Long(long) => Separator::Long(long),
            Separator::Infinite => Separator::Infinite,
        }
    }

    /// A long separator for these bytes, which are at that place.
    pub(crate) fn long(salt: u64, bytes: &[u8], at: u64) -> LongSeparator {
        let mut prefix = [0; PREFIX_BYTES];
        prefix.copy_from_slice(&bytes[..PREFIX_BYTES]);
        LongSeparator { len_bytes: bytes.len() as u32, prefix, hash: separator_hash(salt, bytes), at }
    }

    /// Bytes that it takes in a node.
    pub(crate) fn encoded_bytes(&self) -> usize {
        match self {
            Separator::Short(bytes) => 1 + bytes.len(),
            Separator::Long(_) => 1 + 4 + PREFIX_BYTES + 16,
            Separator::Infinite => 1,
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Separator::Short(bytes) => {
                out.push(bytes.len() as u8);
                out.extend_from_slice(bytes);
            }
            Separator::Long(long) => {
                out.push(LONG);
                out.extend_from_slice(&long.len_bytes.to_le_bytes());
                out.extend_from_slice(&long.prefix);
                out.extend_from_slice(&long.hash.to_le_bytes());
                out.extend_from_slice(&(long.at / 64).to_le_bytes());
            }
            Separator::Infinite => out.push(INFINITE),
        }
    }

    /// Reads a separator that begins the bytes; `None` if none does.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Separator<'_>> {
        match *bytes.first()? {
            INFINITE => Some(Separator::Infinite),
            LONG => {
                let rest = bytes.get(1..1 + 4 + PREFIX_BYTES + 16)?;
                let (len_bytes, rest) = rest.split_first_chunk::<4>()?;
                let (prefix, rest) = rest.split_first_chunk::<PREFIX_BYTES>()?;
                let len_bytes = u32::from_le_bytes(*len_bytes);
                let is_plausible = len_bytes as usize > INLINE_BYTES && len_bytes as usize <= MAX_KEY_BYTES;
                let at = word_at(rest, 8).checked_mul(64)?;
                let long = LongSeparator { len_bytes, prefix: *prefix, hash: word_at(rest, 0), at };
                is_plausible.then_some(Separator::Long(long))
            }
            len if usize::from(len) <= INLINE_BYTES => {
                Some(Separator::Short(Cow::Borrowed(bytes.get(1..1 + usize::from(len))?)))
            }
            _ => None,
        }
    }

    /// The order of a key towards it.
    ///
    /// # Errors
    /// If that needs the bytes of a long separator, and is not among the known answers.
    pub(crate) fn order_of(&self, key: &[u8], known: &[KnownOrder]) -> Result<Ordering, LongSeparator> {
        match self {
            Separator::Short(bytes) => Ok(key.cmp(bytes)),
            Separator::Infinite => Ok(Ordering::Less),
            Separator::Long(long) => {
                let order = key[..key.len().min(PREFIX_BYTES)].cmp(&long.prefix);
                let answer = known.iter().find(|(hash, _)| *hash == long.hash).map(|(_, order)| *order);
                if order.is_ne() { Ok(order) } else { answer.ok_or(*long) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_string_between_two_keys() {
        let between = |below: &str, from: &str| {
            let found = shortest_between(below.as_bytes(), from.as_bytes());
            assert!(below.as_bytes() < found && found <= from.as_bytes());
            String::from_utf8(found.to_vec()).unwrap()
        };
        assert_eq!(between("", "abc"), "a");
        assert_eq!(between("abc", "abd"), "abd");
        assert_eq!(between("abc", "abcde"), "abcd");
        assert_eq!(between("ab", "b"), "b");
        assert_eq!(between("abczzz", "abd!!!"), "abd");
    }

    #[test]
    fn separators_come_back_and_hostile_bytes_do_not() {
        let mut bytes = Vec::new();
        let long = Separator::Long(Separator::long(1, &[7; 70], 640));
        for separator in [Separator::LOWEST, Separator::Short(Cow::Borrowed(b"key")), long.clone(), Separator::Infinite]
        {
            bytes.clear();
            separator.encode(&mut bytes);
            assert_eq!((bytes.len(), Separator::decode(&bytes)), (separator.encoded_bytes(), Some(separator.clone())));
            assert!(bytes.len() <= MAX_ENCODED_BYTES);
            let cut = Separator::decode(&bytes[..bytes.len() - 1]);
            assert_eq!(cut, None);
        }
        assert_eq!(Separator::decode(&[65; 100]), None);
        let mut huge = vec![LONG];
        huge.extend_from_slice(&u32::MAX.to_le_bytes());
        huge.resize(60, 0);
        assert_eq!(Separator::decode(&huge), None);
    }

    #[test]
    fn keys_are_compared_by_as_few_bytes_as_possible() {
        let long = Separator::long(1, &[b'm'; 70], 640);
        let order = |key: &[u8], known: &[KnownOrder]| Separator::Long(long).order_of(key, known);
        assert_eq!((order(b"a", &[]), order(b"z", &[])), (Ok(Ordering::Less), Ok(Ordering::Greater)));
        assert_eq!(order(&[b'm'; 20], &[]), Ok(Ordering::Less));
        assert_eq!(order(&[b'm'; 70], &[]), Err(long));
        assert_eq!(order(&[b'm'; 70], &[(long.hash, Ordering::Equal)]), Ok(Ordering::Equal));
        assert_eq!(Separator::Infinite.order_of(&[255; 99], &[]), Ok(Ordering::Less));
        assert_eq!(Separator::LOWEST.order_of(b"", &[]), Ok(Ordering::Equal));
    }
}
