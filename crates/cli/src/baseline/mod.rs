//! What the network below can do, measured in the same run: TCP and plain UDP
//! between two threads on two cores, both sides polling.

mod bandwidth;
mod pin;
mod ping_pong;
mod rate;

pub(crate) use bandwidth::{tcp_stream, udp_stream};
pub(crate) use pin::{pin_to_core, unpin};
pub(crate) use ping_pong::{tcp_ping_pong, udp_ping_pong};
pub(crate) use rate::udp_rate;

use std::io;

/// Whether a non-blocking call has nothing to do yet.
fn not_yet(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
