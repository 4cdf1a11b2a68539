//! Sessions over the verbs: links, memory, and the port that one thread polls.

mod area;
mod link;
mod port;
mod stores;

pub(crate) use area::VerbsArea;
pub(crate) use link::{LinkParts, PeerKeys, VerbsLink};
pub(crate) use port::{Port, PortEvent, PortSizes};
