//! The two work queues of a queue pair.

pub(crate) mod recv;
pub(crate) mod send;
