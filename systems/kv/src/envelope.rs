//! The bytes before each value in a table's memory.
//!
//! ```text
//!  0         8       16
//! | expires | stamp | value
//! ```
//! The expiry is in the server's clock, zero for none. The stamp is another one at each change by the server.

use std::fmt;

use remote::ObjectHeader;
use serde::{Deserialize, Serialize};

/// Bytes of an envelope.
pub(crate) const ENVELOPE_BYTES: usize = 16;

/// The bytes before a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Envelope {
    /// Nanoseconds in the server's clock; zero for never.
    pub(crate) expires_ns: u64,
    pub(crate) stamp: u64,
}

impl Envelope {
    pub(crate) fn to_bytes(self) -> [u8; ENVELOPE_BYTES] {
        let mut bytes = [0; ENVELOPE_BYTES];
        bytes[..8].copy_from_slice(&self.expires_ns.to_le_bytes());
        bytes[8..].copy_from_slice(&self.stamp.to_le_bytes());
        bytes
    }

    /// The envelope of stored bytes, and the value behind it; `None` if they are too short.
    pub(crate) fn split(bytes: &[u8]) -> Option<(Envelope, &[u8])> {
        let (expires, rest) = bytes.split_first_chunk::<8>()?;
        let (stamp, value) = rest.split_first_chunk::<8>()?;
        let envelope = Envelope { expires_ns: u64::from_le_bytes(*expires), stamp: u64::from_le_bytes(*stamp) };
        Some((envelope, value))
    }
}

/// The version of a key's value, for compare-and-swap. Each change makes another one, and no version comes again.
///
/// Versions have no order. A deleted key that is put again has a new version, and so has each key after a restart of the server.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KvVersion {
    /// Chosen by the server at its last change of the key.
    stamp: u64,
    /// Counts changes of one object, those of peers included.
    change: u32,
}

impl KvVersion {
    pub(crate) fn new(stamp: u64, header: ObjectHeader) -> KvVersion {
        KvVersion { stamp, change: header.version() }
    }

    /// The number of the change that made it, at a server that keeps a log.
    pub(crate) fn stamp(self) -> u64 {
        self.stamp
    }

    /// The version that [`Display`](fmt::Display) wrote so; `None` if it is none.
    pub fn parse(text: &str) -> Option<KvVersion> {
        let (stamp, change) = text.split_once('.')?;
        Some(KvVersion { stamp: u64::from_str_radix(stamp, 16).ok()?, change: change.parse().ok()? })
    }
}

impl fmt::Display for KvVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}.{}", self.stamp, self.change)
    }
}

impl fmt::Debug for KvVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KvVersion({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn envelopes_and_versions_come_back() {
        let envelope = Envelope { expires_ns: 7, stamp: u64::MAX };
        let bytes = [&envelope.to_bytes()[..], b"value"].concat();
        assert_eq!(Envelope::split(&bytes), Some((envelope, &b"value"[..])));
        assert_eq!(Envelope::split(&bytes[..15]), None);
        let version = KvVersion { stamp: 0xabc, change: 9 };
        assert_eq!(version.to_string(), "abc.9");
        assert_eq!(KvVersion::parse("abc.9"), Some(version));
        assert_eq!((KvVersion::parse("abc"), KvVersion::parse("x.1")), (None, None));
    }
}
