//! Errors of naming memory.

/// The reason why a key is refused.
///
/// It comes from [`RemoteKey`](crate::RemoteKey) and [`MemoryRegion`](crate::MemoryRegion).
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// Part of the range lies outside the whole one.
    #[error("{len_bytes} bytes from {offset} on leave the range of {range_bytes} bytes")]
    OutOfRange {
        /// The part's first byte.
        offset: u64,
        /// The part's length.
        len_bytes: u64,
        /// The length of the whole range.
        range_bytes: u64,
    },
    /// An atomic access to a misaligned address.
    #[error("a word lies at a multiple of 8, not at {offset}")]
    Misaligned {
        /// The offset that was asked for.
        offset: u64,
    },
    /// An atomic access of the owner that would not be atomic: see
    /// [`MemoryRegion::fetch_add`](crate::MemoryRegion::fetch_add).
    #[error(
        "the device's atomics are atomic among themselves only, and peers have the right to them here: use a queue pair"
    )]
    NotAtomic,
    /// The byte form has another length.
    #[error("the key's byte form has {wanted} bytes, not {is}")]
    Length {
        /// The length given.
        is: usize,
        /// The length required.
        wanted: usize,
    },
    /// The range wraps around the end of the address space.
    #[error("the range wraps around the end of the address space")]
    Wraps,
}
