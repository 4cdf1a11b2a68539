//! Sizes of a MAD and its parts.

/// Bytes of a MAD, header included.
pub const MAD_LEN: usize = 256;
/// Bytes of a message after the header.
pub const BODY_LEN: usize = MAD_LEN - HEADER_LEN;
/// Bytes of the header.
pub const HEADER_LEN: usize = 24;

/// A message's bytes after the header.
pub type Body = [u8; BODY_LEN];
