//! Names of a peer's memory: address, key and length in one value that can be
//! sent anywhere.
//!
//! A [`RemoteKey`] is a right, not a pointer: every holder of the twenty bytes may do what the
//! region's owner granted, until the owner drops the region or revokes the window. It owns nothing
//! and can outlive the memory it names; an access through a revoked key fails at the owner and is
//! reported as [`Status::RemoteAccess`](crate::Status::RemoteAccess).

use std::fmt;

use transport::RemoteAddr;
use wire::RKey;

use crate::error::KeyError;

/// A range of memory that a peer has exposed, and the key to it.
///
/// ```
/// use longarm::RemoteKey;
///
/// # let bytes = RemoteKey::from_parts(4096, longarm::RKey(7), 64).to_bytes();
/// let table = RemoteKey::from_bytes(&bytes)?;      // as it came from the peer
/// let second_entry = table.at(16, 16)?;            // a checked part of it
/// assert_eq!(second_entry.len_bytes(), 16);
/// assert!(table.at(60, 8).is_err());               // would leave the region
/// # Ok::<(), longarm::KeyError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RemoteKey {
    addr: u64,
    rkey: RKey,
    len_bytes: u64,
}

impl RemoteKey {
    /// Length of the byte form.
    pub const ENCODED_BYTES: usize = 20;

    /// Puts a key together from numbers obtained by other means. They are not
    /// checked here; the owner checks every access.
    pub fn from_parts(addr: u64, rkey: RKey, len_bytes: u64) -> RemoteKey {
        RemoteKey { addr, rkey, len_bytes }
    }

    /// First address, as the owner's region numbers its bytes.
    pub fn addr(&self) -> u64 {
        self.addr
    }

    /// The key itself.
    pub fn rkey(&self) -> RKey {
        self.rkey
    }

    /// Length in bytes.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// `len_bytes` bytes from `offset` on. Fails if they do not lie within this range.
    pub fn at(&self, offset: u64, len_bytes: u64) -> Result<RemoteKey, KeyError> {
        let fits = offset.checked_add(len_bytes).is_some_and(|end| end <= self.len_bytes);
        match self.addr.checked_add(offset) {
            Some(addr) if fits => Ok(RemoteKey { addr, rkey: self.rkey, len_bytes }),
            _ => Err(KeyError::OutOfRange { offset, len_bytes, range_bytes: self.len_bytes }),
        }
    }

    /// The eight bytes from `offset` on, for an atomic operation.
    pub fn word(&self, offset: u64) -> Result<RemoteKey, KeyError> {
        self.at(offset, 8)
    }

    /// The byte form: address, length, key; big-endian.
    pub fn to_bytes(&self) -> [u8; RemoteKey::ENCODED_BYTES] {
        let mut bytes = [0; RemoteKey::ENCODED_BYTES];
        bytes[..8].copy_from_slice(&self.addr.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.len_bytes.to_be_bytes());
        bytes[16..].copy_from_slice(&self.rkey.0.to_be_bytes());
        bytes
    }

    /// Reads the byte form. Fails if the length is not
    /// [`ENCODED_BYTES`](RemoteKey::ENCODED_BYTES), or the range wraps around the address space.
    pub fn from_bytes(bytes: &[u8]) -> Result<RemoteKey, KeyError> {
        let bytes: &[u8; RemoteKey::ENCODED_BYTES] =
            bytes.try_into().map_err(|_| KeyError::Length { is: bytes.len(), wanted: RemoteKey::ENCODED_BYTES })?;
        let [addr, len_bytes] = [0, 8].map(|at| u64_at(bytes, at));
        addr.checked_add(len_bytes).ok_or(KeyError::Wraps)?;
        let rkey = RKey((u64_at(bytes, 12) & 0xffff_ffff) as u32);
        Ok(RemoteKey::from_parts(addr, rkey, len_bytes))
    }

    pub(crate) fn remote_addr(&self) -> RemoteAddr {
        RemoteAddr { addr: self.addr, rkey: self.rkey }
    }
}

fn u64_at(bytes: &[u8; RemoteKey::ENCODED_BYTES], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_be_bytes(word)
}

impl fmt::Debug for RemoteKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteKey({} bytes at {:#x}, key {})", self.len_bytes, self.addr, self.rkey)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_back() {
        let key = RemoteKey::from_parts(0x1234_5678_9abc_def0, RKey(0xfeed_0001), 1 << 33);
        let bytes = key.to_bytes();
        assert_eq!(bytes[..8], [0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0]);
        assert_eq!(bytes[16..], [0xfe, 0xed, 0, 1]);
        assert_eq!(RemoteKey::from_bytes(&bytes), Ok(key));
    }

    #[test]
    fn wrong_bytes_are_refused() {
        let key = RemoteKey::from_parts(u64::MAX, RKey(1), 1).to_bytes();
        assert_eq!(RemoteKey::from_bytes(&key), Err(KeyError::Wraps));
        for len in [0, 19, 21] {
            let refused = RemoteKey::from_bytes(&vec![0; len]);
            assert_eq!(refused, Err(KeyError::Length { is: len, wanted: 20 }));
        }
    }

    #[test]
    fn parts_stay_within() {
        let key = RemoteKey::from_parts(1000, RKey(1), 100);
        assert_eq!(key.at(0, 100), Ok(key));
        assert_eq!(key.at(100, 0).unwrap().addr(), 1100);
        assert_eq!(key.word(92).unwrap().addr(), 1092);
        for (offset, len) in [(0, 101), (93, 8), (101, 0), (u64::MAX, 1), (1, u64::MAX)] {
            assert!(key.at(offset, len).is_err(), "{offset} {len}");
        }
    }
}
