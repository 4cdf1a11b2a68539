//! Rings of records that a peer WRITEs and the owner of the memory takes (FaRM, NSDI 2014, section 3.1).
//!
//! ```text
//!  0        8        64                                                     the ring's end
//! | head   |notices | … | header | number | check | data, padded to 8 | header | …
//!                          header: length 32 | 1
//! ```
//!
//! The owner polls the header of the next record, and the same word behind it. The check (CRC64 over header, number and data) makes
//! sure that all words between have arrived: a WRITE promises whole words, and no order of them. The owner copies the record out, fills
//! its place with zeros, and goes on. After an eighth of the ring it stores the head, which the writer READs when it has no
//! room. A record that wraps around the end is two WRITEs.
//!
//! Records have numbers without gaps, so that a log's reader knows what it has.
//!
//! For tasks, [`SharedRing`] gathers records to batches while others are under way. The last WRITE of a batch carries a notice
//! (immediate data), which wakes the owner's [`RingConsumer`]. Each notice uses up a receive request, so the owner's second word
//! tells how many it has posted: the writer's credits.

mod consumer;
mod reader;
mod record;
mod shared;
mod shared_state;
mod writer;

#[cfg(test)]
mod tests;

pub use consumer::RingConsumer;
pub use reader::{RingBroken, RingReader};
pub use record::{RING_DATA_AT, record_bytes};
pub use shared::{SharedRing, SharedRingOptions};
pub use writer::{RemoteRing, RingError, RingFull, RingWrite, RingWriter};
