//! Counters of messages.

/// Counts since the manager was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// MADs received.
    pub received: u64,
    /// MADs to be sent, repetitions included.
    pub sent: u64,
    /// Of those, repetitions because no answer came.
    pub repeated: u64,
    /// Received: not a message of the connection manager.
    pub malformed: u64,
    /// Received: for an unknown communication id.
    pub unknown: u64,
    /// Received: from another address, or with another communication id or queue pair, than the connection's.
    pub foreign: u64,
    /// Received: a repetition. Answered again if an answer was sent before.
    pub duplicate: u64,
    /// Received: not expected in the connection's state.
    pub unexpected: u64,
    /// Received: a REQ or REP for a queue pair that has an older connection here.
    pub stale: u64,
    /// Received: an unsupported kind of connection.
    pub unsupported: u64,
    /// Received: dropped because too many requests wait for an answer.
    pub overflow: u64,
}
