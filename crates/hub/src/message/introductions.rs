//! Refusals of introductions.

use serde::{Deserialize, Serialize};

/// The reason why the hub does not introduce two clients to each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IntroductionRefusal {
    /// No client has the slot.
    UnknownSlot,
    /// The slot is the asking client's own.
    Yourself,
    /// The peer is another user's.
    OtherUser,
    /// One of the two attached without a shm offer.
    NoOffer,
    /// They were introduced before, at the request of either, and that introduction is valid.
    Already {
        /// All slots of the peer.
        slots: Vec<u8>,
    },
    /// The peer does not read the hub's messages.
    NotListening,
    /// The system refused; probably no descriptors are left.
    System,
    /// The hub ended before it answered. The session reports this, not the hub.
    HubLost,
}
