//! Sessions over the verbs: links, memory, and the port that one thread polls.

mod area;
mod areas;
mod link;
mod port;
mod shelf;
mod stores;

pub(crate) use area::VerbsArea;
pub(crate) use areas::{PortAreas, UNUSED_BYTES};
pub(crate) use link::{LinkParts, PeerKeys, VerbsLink};
#[cfg(all(test, feature = "tls"))]
pub(crate) use port::MESSAGE_BYTES;
pub(crate) use port::{Port, PortEvent, PortSizes};
