//! The lists that queue pairs wait in.

pub(crate) mod due;
pub(crate) mod later;
pub(crate) mod stalled;
pub(crate) mod timers;
