//! Queue pairs as the engine keeps them.

pub(crate) mod entry;
pub(crate) mod host;
pub(crate) mod slots;
