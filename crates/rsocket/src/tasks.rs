//! Streams for tasks: calls that never wait, and wake the task when there is news.
//!
//! ```text
//!  stream    a connection, and how one is made
//!  listener  waits for connections
//!  manager   the thread that makes and ends connections: what it does may take milliseconds
//! ```
//!
//! These sockets have no descriptors, and nothing of this module blocks. A connection is the same as one of the
//! [calls by descriptor](crate::connect): the peer cannot tell.

mod listener;
mod manager;
mod stream;

use std::time::Duration;

pub use listener::TaskListener;
pub use stream::TaskStream;

use crate::settings::Settings;

/// Sizes of the streams of tasks. The default is that of rsocket(7), which an administrator can change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TaskSettings {
    /// Bytes of the buffer that bytes to be sent wait in, 4 KiB to 1 GiB.
    pub send_buffer_bytes: Option<u32>,
    /// Bytes of the buffer that the peer writes to, 4 KiB to 1 GiB.
    pub recv_buffer_bytes: Option<u32>,
    /// The interval of messages that find out whether the peer is alive; without one there are none.
    pub keepalive: Option<Duration>,
}

impl TaskSettings {
    fn settings(&self) -> Settings {
        let usual = Settings::of_new_sockets();
        Settings {
            send_buffer: self.send_buffer_bytes.unwrap_or(usual.send_buffer),
            recv_buffer: self.recv_buffer_bytes.unwrap_or(usual.recv_buffer),
            ..usual
        }
    }
}
