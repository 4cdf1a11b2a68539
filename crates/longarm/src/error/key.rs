//! Errors of naming memory.

/// Why a key is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// Part of the range lies outside.
    #[error("{len_bytes} bytes from {offset} on leave the range of {range_bytes} bytes")]
    OutOfRange {
        /// Where the part begins.
        offset: u64,
        /// How long it is.
        len_bytes: u64,
        /// How long the whole is.
        range_bytes: u64,
    },
    /// An atomic access to a misaligned place.
    #[error("a word lies at a multiple of 8, not at {offset}")]
    Misaligned {
        /// Where it was to be.
        offset: u64,
    },
    /// The byte form has another length.
    #[error("the key's byte form has {wanted} bytes, not {is}")]
    Length {
        /// What was given.
        is: usize,
        /// What it has to be.
        wanted: usize,
    },
    /// The range wraps around the end of the address space.
    #[error("the range wraps around the end of the address space")]
    Wraps,
}
