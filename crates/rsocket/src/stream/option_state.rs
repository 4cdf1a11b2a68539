//! The options of a stream socket that are remembered.

use std::time::Duration;

use crate::wait::CallPatience;

const KEEPALIVE_FILE: &str = "/proc/sys/net/ipv4/tcp_keepalive_time";
const KEEPALIVE: Duration = Duration::from_secs(7200);

/// Options that are remembered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StreamOptions {
    pub(super) nonblocking: bool,
    /// All flags of `F_SETFL`.
    pub(super) status_flags: i32,
    pub(super) reuse_address: bool,
    pub(super) oob_inline: bool,
    pub(super) no_delay: bool,
    pub(super) v6_only: bool,
    pub(super) linger: Option<Linger>,
    pub(super) keepalive: Keepalive,
    pub(super) recv_timeout: Option<Duration>,
    pub(super) send_timeout: Option<Duration>,
}

/// `struct linger`, as it was set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Linger {
    pub(super) on: bool,
    pub(super) seconds: i32,
}

/// Whether and how often a message keeps the connection alive.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Keepalive {
    pub(super) on: bool,
    pub(super) idle: Option<Duration>,
}

impl Keepalive {
    /// The interval, by default that of the system.
    pub(super) fn time(self) -> Duration {
        self.idle.unwrap_or_else(|| {
            let text = std::fs::read_to_string(KEEPALIVE_FILE).unwrap_or_default();
            text.trim().parse().map_or(KEEPALIVE, Duration::from_secs)
        })
    }
}

impl StreamOptions {
    /// The time that a call may wait.
    pub(super) fn patience(&self, flags: i32, timeout: Option<Duration>) -> CallPatience {
        match timeout {
            _ if self.nonblocking || flags & libc::MSG_DONTWAIT != 0 => CallPatience::NONE,
            Some(timeout) => CallPatience::of(timeout),
            None => CallPatience::ENDLESS,
        }
    }
}
