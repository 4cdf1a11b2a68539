//! RDB files: the snapshots that Redis writes with SAVE and BGSAVE (`rdb.h` and `rdb.c` of Redis 7.2 are the specification).
//!
//! ```text
//!  file       the records of a file: keys with strings, and all that has to be passed over
//!  skip       values of other types, whose bytes are passed over
//!  strings    lengths and strings in all encodings      lzf   their compression
//!  input      bytes with their checksum
//! ```

mod error;
mod file;
mod input;
mod lzf;
mod skip;
mod strings;

pub use error::RdbError;
pub use file::{RdbReader, RdbString};

#[cfg(test)]
mod tests;
