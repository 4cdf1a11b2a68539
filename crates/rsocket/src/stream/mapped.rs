//! Buffers of the application that the peer may write to.

use device::Mr;

/// A mapped buffer.
#[derive(Debug)]
pub(crate) struct Mapped {
    pub(super) mr: Mr,
    pub(super) offset: u64,
    /// The entry of the peer's list that it has; none if the peer is not to write there.
    pub(super) entry: Option<u32>,
    /// The peer knows.
    pub(super) told: bool,
}
