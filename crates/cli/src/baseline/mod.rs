//! The speed of the network and memory below, measured in the same run: TCP, plain UDP and
//! shared memory between two threads on two cores, both sides polling.

mod bandwidth;
mod blocking;
mod memory;
mod nonblocking;
mod pin;
mod ping_pong;
mod rate;
mod segments;

pub(crate) use bandwidth::{tcp_stream, udp_stream};
pub(crate) use blocking::{BlockingArgs, Socket, blocking};
pub(crate) use memory::{cache_line_ping_pong, memory_copy};
pub(crate) use pin::{core_number, never_pin, pin_client, pin_server, pin_to_core, pins, unpin};
pub(crate) use ping_pong::{tcp_ping_pong, udp_ping_pong};
pub(crate) use rate::udp_rate;
pub(crate) use segments::{SegmentWork, udp_segments};
