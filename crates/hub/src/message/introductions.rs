//! What the hub says about introductions.

use serde::{Deserialize, Serialize};

/// Why two clients were not introduced to each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IntroductionRefusal {
    /// Nobody has the slot.
    UnknownSlot,
    /// The slot is the asking client's own.
    Yourself,
    /// The other one is another user's.
    OtherUser,
    /// One of the two attached without an shm offer.
    NoOffer,
    /// They were introduced to each other before, whoever asked, and that one stands.
    Already {
        /// All slots that the other one has now.
        slots: Vec<u8>,
    },
    /// The other one does not read what the hub tells it.
    NotListening,
    /// The system refused: no descriptors are left, most likely.
    System,
    /// The hub ended before it answered. No hub says this: the session does.
    HubLost,
}
