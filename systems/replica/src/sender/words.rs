//! Batches, their answers, and places in a copy.

use cluster::MemberId;

/// The head of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchHead {
    /// The primary.
    pub from: MemberId,
    /// The member that it is for.
    pub to: MemberId,
    /// The epoch of the configuration that the primary knows.
    pub epoch: u64,
    /// The number of the stream; later ones are greater.
    pub stream: u64,
    /// Bytes of the stream before it.
    pub offset: u64,
}

/// Bytes of a stream for one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaBatch {
    /// Where they belong.
    pub head: BatchHead,
    /// The bytes. Records may begin and end anywhere.
    pub bytes: Vec<u8>,
}

/// The answer to a batch: bytes of the stream that the member has, and those that its tables have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchAck {
    /// Bytes that have come.
    pub received: u64,
    /// Bytes of records that are executed.
    pub applied: u64,
}

/// A place in a walk over tables: as the caller likes, zeros for the begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyCursor {
    /// The number of the table.
    pub table: u16,
    /// The place in it.
    pub at: u64,
}
