//! The calls of `<rdma/rsocket.h>`: `rsocket(7)`. They only translate; the sockets are crate `rsocket`'s.
//!
//! ```text
//!  rsend(fd, buf, len, flags) ─► slices, addresses, errno ─► rsocket::send ─► connect, device
//! ```

pub(crate) mod address;
pub(crate) mod data;
pub(crate) mod epoll;
pub(crate) mod mapping;
pub(crate) mod names;
pub(crate) mod options;
pub(crate) mod polling;
pub(crate) mod select;
