//! Figures of the ways that may lose.

/// The losses of a way that may lose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CarrierCounters {
    /// Client: packets that were sent again. Server: parts of requests that came again.
    pub(crate) repeated: u64,
    /// Datagrams that fit no call.
    pub(crate) dropped: u64,
}
