//! Objects: a key and its value in memory, with a header and a check against torn reads.

mod atomic;
mod check;
mod crc;
mod header;
mod lines;
mod mix;
mod place;

pub use atomic::AtomicReads;
pub(crate) use atomic::{ATOMIC_BYTES, LOCK_MASK};
pub use check::{MAX_KEY_BYTES, MAX_VALUE_BYTES, OpenObject, ReadGrain, Seal, TornCheck, Unopened};
pub use crc::Crc64;
pub use header::{ObjectHeader, ObjectState};
pub use lines::LineVersions;
pub(crate) use mix::mixed;
pub(crate) use place::SlotKind;
pub use place::{Location, SizeClass};
