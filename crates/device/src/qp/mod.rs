//! Queue pairs as the engine keeps them: the transport's value, its parents, its paths and its state word.

pub(crate) mod doorbells;
pub(crate) mod entry;
pub(crate) mod host;
pub(crate) mod services;
pub(crate) mod slots;
pub(crate) mod state;
