//! Errors of a log.

use std::io;
use std::sync::Arc;

/// The reason why a record is not on disk, or why a log cannot be read.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The system refused an operation on a file.
    #[error("{file}: {why}")]
    Io {
        /// The file's name in the directory.
        file: String,
        /// The system's reason.
        why: Arc<io::Error>,
    },
    /// Another process uses the directory.
    #[error("another server uses the directory {0}")]
    InUse(String),
    /// Bytes that were on disk for certain are damaged.
    #[error("{file} is damaged at byte {offset}: {why}")]
    Damaged {
        /// The file's name in the directory.
        file: String,
        /// Where the damage begins.
        offset: u64,
        /// The kind of damage.
        why: String,
    },
    /// The disk has no room for more records. It may have some later.
    #[error("the disk is full: the log takes no changes until there is room")]
    Full,
    /// The disk is slower than records come. The record may be appended later.
    #[error("the log is {0} bytes behind: the disk is slower than changes come")]
    Behind(u64),
    /// A write or a sync failed, so nobody knows what is on disk. Only a restart, which reads the log, ends this.
    #[error("the log has failed, and takes nothing until the server is started again: {0}")]
    Failed(String),
}

impl JournalError {
    pub(crate) fn io(file: &str) -> impl FnOnce(io::Error) -> JournalError {
        let file = file.to_owned();
        move |why| JournalError::Io { file, why: Arc::new(why) }
    }

    pub(crate) fn damaged(file: &str, offset: u64, why: impl Into<String>) -> JournalError {
        JournalError::Damaged { file: file.into(), offset, why: why.into() }
    }
}
