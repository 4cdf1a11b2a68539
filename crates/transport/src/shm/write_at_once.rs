//! The outcome of a WRITE that is executed while the caller waits, or not at all.

/// See the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteAtOnce {
    /// The bytes are in the peer's memory.
    Done,
    /// Earlier requests are under way: it may be possible when they are complete.
    Later,
    /// It is not possible: the peer is not on this host, its memory is not mapped here, or the key does not open it.
    Refused,
}
