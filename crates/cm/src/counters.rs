//! What became of messages.

/// Counts since the manager was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// MADs handed in.
    pub received: u64,
    /// MADs to be sent, repetitions included.
    pub sent: u64,
    /// Of those, repetitions because no answer came.
    pub repeated: u64,
    /// Received: no message of the connection manager.
    pub malformed: u64,
    /// Received: for a communication id that nobody has.
    pub unknown: u64,
    /// Received: from another address, or with another communication id or queue pair, than the connection's.
    pub foreign: u64,
    /// Received: once more what was received before. Answered once more where an answer was sent.
    pub duplicate: u64,
    /// Received: nothing that this state waits for.
    pub unexpected: u64,
    /// Received: a REQ or REP for a queue pair that has an older connection here.
    pub stale: u64,
    /// Received: a kind of connection that does not exist.
    pub unsupported: u64,
    /// Received: dropped because too many requests wait for an answer.
    pub overflow: u64,
}
