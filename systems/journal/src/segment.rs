//! Files of frames: their names and headers.
//!
//! ```text
//!  0       8       16         24     …   60    64
//! | magic | first | previous | salt |   | crc | frames, then zeros
//! ```
//! `first` is the number that the file's first record has, `previous` the last number of the file before.

use crate::disk::{Disk, DiskFile};
use crate::error::JournalError;
use crate::frame::{word32, word64};

/// Bytes of a segment's header.
pub(crate) const SEGMENT_BYTES: usize = 64;
const MAGIC: u64 = 0x3130_4745_534c_414c;
const PREFIX: &str = "log-";

/// The header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHead {
    pub(crate) first: u64,
    pub(crate) previous: u64,
    pub(crate) salt: u64,
}

impl SegmentHead {
    fn to_bytes(self) -> [u8; SEGMENT_BYTES] {
        let mut bytes = [0; SEGMENT_BYTES];
        for (at, word) in [MAGIC, self.first, self.previous, self.salt].into_iter().enumerate() {
            bytes[at * 8..][..8].copy_from_slice(&word.to_le_bytes());
        }
        let sum = crc32c::crc32c(&bytes[..60]);
        bytes[60..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The header at the begin of a file; `None` if its checksum is wrong.
    pub(crate) fn parse(bytes: &[u8]) -> Option<SegmentHead> {
        let head = bytes.get(..SEGMENT_BYTES)?;
        let is_right = word64(head, 0)? == MAGIC && word32(head, 60)? == crc32c::crc32c(&head[..60]);
        is_right.then_some(())?;
        Some(SegmentHead { first: word64(head, 8)?, previous: word64(head, 16)?, salt: word64(head, 24)? })
    }
}

/// The name of the segment whose first record has this number.
pub(crate) fn name_of(first: u64) -> String {
    format!("{PREFIX}{first:020}")
}

/// The number of the first record, from a segment's name.
pub(crate) fn first_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(PREFIX)?;
    (digits.len() == 20).then(|| digits.parse().ok())?
}

/// The segments of a directory, by the numbers of their first records.
pub(crate) fn list(disk: &dyn Disk) -> Result<Vec<u64>, JournalError> {
    let names = disk.list().map_err(JournalError::io("directory"))?;
    let mut all: Vec<u64> = names.iter().filter_map(|name| first_of(name)).collect();
    all.sort_unstable();
    Ok(all)
}

/// Makes a segment that survives a power cut, with room for so many bytes.
pub(crate) fn create(
    disk: &dyn Disk,
    first: u64,
    previous: u64,
    len_bytes: u64,
) -> Result<(Box<dyn DiskFile>, SegmentHead), JournalError> {
    let name = name_of(first);
    let mut salt = [0; 8];
    getrandom::fill(&mut salt).map_err(|error| JournalError::io(&name)(std::io::Error::other(error)))?;
    let head = SegmentHead { first, previous, salt: u64::from_le_bytes(salt) };
    let make = || {
        let file = disk.create(&name)?;
        file.allocate(len_bytes)?;
        file.write_at(0, &head.to_bytes())?;
        file.sync()?;
        disk.sync_directory()?;
        Ok(file)
    };
    let made = make().inspect_err(|_| drop(disk.remove(&name)));
    Ok((made.map_err(JournalError::io(&name))?, head))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_headers_come_back() {
        assert_eq!(first_of(&name_of(42)), Some(42));
        for wrong in ["log-42", "snapshot-00000000000000000042", "log-0000000000000000004x", "log-99999999999999999999"]
        {
            assert_eq!(first_of(wrong), None, "{wrong}");
        }
        let head = SegmentHead { first: 9, previous: 3, salt: 77 };
        let bytes = head.to_bytes();
        assert_eq!(SegmentHead::parse(&bytes), Some(head));
        for at in 0..SEGMENT_BYTES {
            let mut wrong = bytes;
            wrong[at] ^= 4;
            assert_eq!(SegmentHead::parse(&wrong), None, "byte {at}");
        }
    }
}
