//! Records of the log and of snapshots.
//!
//! ```text
//!  table     1 | id (2) | name
//!  put       2 | id (2) | expiry (8) | stamp (8) | key's length (4) | key | value
//!  delete    3 | id (2) | key
//!  begin     4 | number (8)                         first in a snapshot
//!  end       5 | number (8)                         last in a snapshot
//! ```
//! Numbers are little endian. An expiry is in nanoseconds since 1970, since the server's clock begins anew at each boot. Zero stands
//! for none. A stamp of zero stands for the record's own number.

use crate::protocol::split_framed;
use crate::server::durable::DataError;

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataRecord<'a> {
    /// From here on, this number stands for the table of this name.
    Table {
        id: u16,
        name: &'a str,
    },
    Put {
        id: u16,
        expires_unix_ns: u64,
        stamp: u64,
        key: &'a [u8],
        value: &'a [u8],
    },
    Delete {
        id: u16,
        key: &'a [u8],
    },
    /// The snapshot has all changes up to this number.
    Begin {
        number: u64,
    },
    /// It may have some of those up to this number.
    End {
        number: u64,
    },
}

/// Bytes of a put before its key.
pub(crate) const PUT_HEAD: usize = 23;

/// The head of a put; key and value follow it.
pub(crate) fn put_head(id: u16, expires_unix_ns: u64, stamp: u64, key: &[u8]) -> [u8; PUT_HEAD] {
    let mut head = [0; PUT_HEAD];
    head[0] = 2;
    head[1..3].copy_from_slice(&id.to_le_bytes());
    head[3..11].copy_from_slice(&expires_unix_ns.to_le_bytes());
    head[11..19].copy_from_slice(&stamp.to_le_bytes());
    head[19..23].copy_from_slice(&(key.len() as u32).to_le_bytes());
    head
}

/// The head of a table's name or of a deleted key.
pub(crate) fn table_head(id: u16) -> [u8; 3] {
    let id = id.to_le_bytes();
    [1, id[0], id[1]]
}

/// The head of a delete; the key follows it.
pub(crate) fn delete_head(id: u16) -> [u8; 3] {
    let id = id.to_le_bytes();
    [3, id[0], id[1]]
}

/// The first or the last record of a snapshot.
pub(crate) fn bound(is_begin: bool, number: u64) -> [u8; 9] {
    let mut bytes = [if is_begin { 4 } else { 5 }; 9];
    bytes[1..].copy_from_slice(&number.to_le_bytes());
    bytes
}

impl DataRecord<'_> {
    /// A record's meaning.
    pub(crate) fn parse(bytes: &[u8]) -> Result<DataRecord<'_>, DataError> {
        parse(bytes).ok_or_else(|| DataError::Content(format!("a record of {} bytes has no meaning", bytes.len())))
    }
}

fn parse(bytes: &[u8]) -> Option<DataRecord<'_>> {
    let (kind, rest) = bytes.split_first()?;
    if matches!(kind, 4 | 5) {
        let number = u64::from_le_bytes(rest.try_into().ok()?);
        return Some(if *kind == 4 { DataRecord::Begin { number } } else { DataRecord::End { number } });
    }
    let (id, rest) = rest.split_first_chunk::<2>()?;
    let id = u16::from_le_bytes(*id);
    match kind {
        1 => Some(DataRecord::Table { id, name: std::str::from_utf8(rest).ok()? }),
        2 => {
            let (expires, rest) = rest.split_first_chunk::<8>()?;
            let (stamp, rest) = rest.split_first_chunk::<8>()?;
            let (key, value) = split_framed(rest)?;
            let (expires_unix_ns, stamp) = (u64::from_le_bytes(*expires), u64::from_le_bytes(*stamp));
            Some(DataRecord::Put { id, expires_unix_ns, stamp, key, value })
        }
        3 => Some(DataRecord::Delete { id, key: rest }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_and_others_are_refused() {
        let put = [&put_head(7, 5, 9, b"key")[..], b"key", b"value"].concat();
        let parsed = DataRecord::Put { id: 7, expires_unix_ns: 5, stamp: 9, key: b"key", value: b"value" };
        assert_eq!(DataRecord::parse(&put).unwrap(), parsed);
        let table = [&table_head(1)[..], b"name"].concat();
        assert_eq!(DataRecord::parse(&table).unwrap(), DataRecord::Table { id: 1, name: "name" });
        let delete = [&delete_head(2)[..], b"key"].concat();
        assert_eq!(DataRecord::parse(&delete).unwrap(), DataRecord::Delete { id: 2, key: b"key" });
        assert_eq!(DataRecord::parse(&bound(true, 3)).unwrap(), DataRecord::Begin { number: 3 });
        assert_eq!(DataRecord::parse(&bound(false, 4)).unwrap(), DataRecord::End { number: 4 });
        for wrong in [&b""[..], b"\x06", b"\x04123", &put[..25], &put[..10], b"\x01\0\0\xff", b"\x03\0"] {
            assert!(DataRecord::parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
