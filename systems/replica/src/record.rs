//! Records of a stream, each behind its length of 4 bytes.
//!
//! ```text
//!  begin    1 | first slot (2) | last slot (2)       a copy of these slots begins
//!  end      2 | first slot (2)                       it has had all keys
//!  put      3 | table (2) | stamp (8) | expiry (8) | key's length (4) | key | value
//!  delete   4 | table (2) | key
//! ```
//! Numbers are little endian. An expiry is in nanoseconds since 1970, zero for none: two machines have different clocks since boot.

/// The longest record in bytes: a value of 512 MiB, its key and its head.
pub(crate) const LONGEST_RECORD: usize = (512 << 20) + (1 << 17);
/// Bytes of a record's length.
const LENGTH: usize = 4;

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaRecord<'a> {
    /// A copy of these slots begins. Keys of them that do not come before its end are gone.
    Begin {
        /// The first slot of the share.
        from: u16,
        /// The last one.
        to: u16,
    },
    /// The copy of a share has had all keys.
    End {
        /// The first slot of the share.
        from: u16,
    },
    /// A key has this value.
    Put {
        /// The number of the table.
        table: u16,
        /// The number of the change at the primary.
        stamp: u64,
        /// Nanoseconds since 1970; zero for never.
        expires_unix_ns: u64,
        /// The key.
        key: &'a [u8],
        /// Its value.
        value: &'a [u8],
    },
    /// A key is gone.
    Delete {
        /// The number of the table.
        table: u16,
        /// The key.
        key: &'a [u8],
    },
}

impl ReplicaRecord<'_> {
    /// Appends the record behind its length.
    pub fn append(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend([0; LENGTH]);
        match *self {
            ReplicaRecord::Begin { from, to } => {
                out.push(1);
                out.extend(from.to_le_bytes());
                out.extend(to.to_le_bytes());
            }
            ReplicaRecord::End { from } => {
                out.push(2);
                out.extend(from.to_le_bytes());
            }
            ReplicaRecord::Put { table, stamp, expires_unix_ns, key, value } => {
                out.push(3);
                out.extend(table.to_le_bytes());
                out.extend(stamp.to_le_bytes());
                out.extend(expires_unix_ns.to_le_bytes());
                out.extend((key.len() as u32).to_le_bytes());
                out.extend_from_slice(key);
                out.extend_from_slice(value);
            }
            ReplicaRecord::Delete { table, key } => {
                out.push(4);
                out.extend(table.to_le_bytes());
                out.extend_from_slice(key);
            }
        }
        let length = (out.len() - start - LENGTH) as u32;
        out[start..start + LENGTH].copy_from_slice(&length.to_le_bytes());
    }

    /// The meaning of a record's bytes; `None` if they have none.
    pub fn parse(bytes: &[u8]) -> Option<ReplicaRecord<'_>> {
        let (kind, rest) = bytes.split_first()?;
        let (number, rest) = rest.split_first_chunk::<2>()?;
        let number = u16::from_le_bytes(*number);
        match kind {
            1 => Some(ReplicaRecord::Begin { from: number, to: u16::from_le_bytes(rest.try_into().ok()?) }),
            2 => rest.is_empty().then_some(ReplicaRecord::End { from: number }),
            3 => {
                let (stamp, rest) = rest.split_first_chunk::<8>()?;
                let (expires, rest) = rest.split_first_chunk::<8>()?;
                let (length, rest) = rest.split_first_chunk::<4>()?;
                let (key, value) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
                Some(ReplicaRecord::Put {
                    table: number,
                    stamp: u64::from_le_bytes(*stamp),
                    expires_unix_ns: u64::from_le_bytes(*expires),
                    key,
                    value,
                })
            }
            4 => Some(ReplicaRecord::Delete { table: number, key: rest }),
            _ => None,
        }
    }
}

/// The bytes of the first record of a stream, if all of them have come. `Err`: no record is so long.
pub(crate) fn first_record(bytes: &[u8]) -> Result<Option<&[u8]>, ()> {
    let Some((length, rest)) = bytes.split_first_chunk::<LENGTH>() else { return Ok(None) };
    let length = u32::from_le_bytes(*length) as usize;
    if length > LONGEST_RECORD { Err(()) } else { Ok(rest.get(..length)) }
}

/// Bytes of a record in a stream.
pub(crate) fn framed_bytes(record: &[u8]) -> usize {
    record.len() + LENGTH
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_and_others_are_refused() {
        let records = [
            ReplicaRecord::Begin { from: 3, to: 700 },
            ReplicaRecord::Put { table: 1, stamp: 1 << 40, expires_unix_ns: 9, key: b"key", value: b"value" },
            ReplicaRecord::Put { table: 0, stamp: 0, expires_unix_ns: 0, key: b"", value: b"" },
            ReplicaRecord::Delete { table: 2, key: b"k" },
            ReplicaRecord::End { from: 3 },
        ];
        let mut stream = Vec::new();
        records.iter().for_each(|record| record.append(&mut stream));
        let mut rest = &stream[..];
        for record in records {
            assert_eq!(first_record(&rest[..5]), Ok(None), "it has not come yet");
            let bytes = first_record(rest).unwrap().unwrap();
            assert_eq!(ReplicaRecord::parse(bytes), Some(record));
            rest = &rest[framed_bytes(bytes)..];
        }
        assert!(rest.is_empty() && first_record(&[255; 4]).is_err());
        for wrong in
            [&b""[..], b"\x01", b"\x01\0\0", b"\x01\0\0\0\0\0", b"\x02\0\0\0", b"\x03\0\0", b"\x05\0\0", b"\x04\0"]
        {
            assert_eq!(ReplicaRecord::parse(wrong), None, "{wrong:?}");
        }
        let mut long_key = Vec::new();
        ReplicaRecord::Put { table: 0, stamp: 0, expires_unix_ns: 0, key: b"key", value: b"" }.append(&mut long_key);
        assert_eq!(ReplicaRecord::parse(&long_key[4..long_key.len() - 1]), None);
    }
}
