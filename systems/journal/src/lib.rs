//! A log of numbered records on disk: checksums, segments, and one sync for many records.
//!
//! Threads append records to memory and go on. One thread writes them, many at a time, and syncs them. A caller that must know
//! that its record survives a power cut waits for the record's number, as a future or blocking.
//!
//! ```
//! use std::sync::Arc;
//! use longarm_journal::{FsDisk, FsyncRule, Journal, JournalOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = std::env::temp_dir().join(format!("longarm-journal-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&directory)?;
//! let disk = Arc::new(FsDisk::open(&directory)?);
//! let (mut found, options) = (Vec::new(), JournalOptions { fsync: FsyncRule::Always, ..JournalOptions::default() });
//! let journal = Journal::open(disk, 0, options, &mut |number, record| {
//!     found.push((number, record.to_vec()));
//!     Ok(())
//! })?;
//! let number = journal.append(&[b"key", b"value"])?;
//! journal.wait(number)?; // It is on disk.
//! # drop(journal);
//! # std::fs::remove_dir_all(&directory)?;
//! # Ok(())
//! # }
//! ```
//!
//! # Layers
//!
//! ```text
//!  journal   append, wait, the thread that writes
//!  recover   from segments to records: torn tails, damage
//!  segment   files of frames       sealed   files that are written once
//!  frame     records with one checksum
//!  disk      files and directories: those of the system, and simulated ones
//! ```
#![forbid(unsafe_code)]

mod disk;
mod error;
mod frame;
mod journal;
mod recover;
mod sealed;
mod segment;
#[cfg(feature = "sim")]
mod sim;
mod state;
mod writer;

pub use disk::{Disk, DiskFile, FsDisk};
pub use error::JournalError;
pub use journal::{Journal, JournalOptions};
pub use recover::{EachRecord, JournalReport, TornTail, begin, check, read, repair};
pub use sealed::{SealedReader, SealedWriter};
#[cfg(feature = "sim")]
pub use sim::{DiskFault, SimDisk};
pub use state::{FsyncRule, JournalFigures};
