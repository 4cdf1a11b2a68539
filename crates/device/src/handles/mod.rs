//! The handles that callers hold: an object with the engine that it belongs to.

pub(crate) mod channel;
pub(crate) mod cq;
pub(crate) mod device;
pub(crate) mod memory_watch;
pub(crate) mod mr;
pub(crate) mod mw;
pub(crate) mod pd;
pub(crate) mod qp;
pub(crate) mod srq;
pub(crate) mod xrc;
