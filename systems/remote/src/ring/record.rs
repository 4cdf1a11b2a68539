//! The form of a record in a ring.

/// The word behind the head: receive requests that the owner has posted for notices of batches, since the ring began.
pub(super) const NOTICES_AT: u64 = 8;
/// Where a ring's records begin. Before them is the head, in a line of its own.
pub const RING_DATA_AT: u64 = 64;
/// Words of a record beside its data: header, number, check, and the header again.
const FRAME_BYTES: u64 = 32;
/// Bytes before the data.
pub(super) const DATA_AT: u64 = 24;

/// Bytes that a record of so many bytes takes in a ring.
///
/// ```
/// assert_eq!(longarm_remote::record_bytes(9), 48);
/// ```
pub fn record_bytes(data_bytes: u32) -> u64 {
    FRAME_BYTES + u64::from(data_bytes).next_multiple_of(8)
}

/// The first word, which is never zero.
pub(super) fn header(data_bytes: u32) -> u64 {
    u64::from(data_bytes) << 32 | 1
}

/// The length that a header tells; `None` if it is no header.
pub(super) fn data_bytes(header: u64) -> Option<u32> {
    (header & 0xffff_ffff == 1).then_some((header >> 32) as u32)
}

/// The check of a record.
pub(super) fn check(header: u64, number: u64, data: &[u8]) -> u64 {
    let mut frame = [0; 16];
    frame[..8].copy_from_slice(&header.to_le_bytes());
    frame[8..].copy_from_slice(&number.to_le_bytes());
    crc_fast::crc64_nvme(data) ^ crc_fast::crc64_nvme(&frame).rotate_left(1)
}

/// Appends a record to `out`, whose length is a multiple of 8.
pub(super) fn encode(number: u64, data: &[u8], out: &mut Vec<u8>) {
    let header = header(data.len() as u32);
    for word in [header, number, check(header, number, data)] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.extend_from_slice(data);
    out.resize(out.len().next_multiple_of(8), 0);
    out.extend_from_slice(&header.to_le_bytes());
}
