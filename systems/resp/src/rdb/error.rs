//! The reason why a file is no RDB file that can be read.

/// The reason why a file is no RDB file that can be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RdbError {
    /// It is another kind of file.
    #[error("no RDB file: it does not begin with REDIS and four digits")]
    NotRdb,
    /// A version that this reader does not know.
    #[error("RDB version {0}: versions 1 to 11 are known, of Redis up to 7.2 and Valkey up to 8.1")]
    Version(u32),
    /// The file ends before its last record.
    #[error("torn: the file ends at byte {0}, in the middle of a record")]
    Torn(u64),
    /// Bytes that Redis does not write.
    #[error("damaged at byte {offset}: {why}")]
    Damaged {
        /// Bytes before those.
        offset: u64,
        /// The damage.
        why: String,
    },
    /// The checksum at its end is not that of its bytes.
    #[error("damaged: the checksum at its end is not that of its bytes")]
    Checksum,
    /// The system cannot read it.
    #[error(transparent)]
    Read(#[from] std::io::Error),
}
