//! The wire path: packets, and where they go.

pub(crate) mod destination;
pub(crate) mod packets;
pub(crate) mod route;
pub(crate) mod staging;
