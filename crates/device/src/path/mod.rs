//! Queue pairs over their two paths.

pub(crate) mod datagram;
pub(crate) mod dispatch;
mod faulty;
mod post;
pub(crate) mod pump;
pub(crate) mod receive;
mod send;
