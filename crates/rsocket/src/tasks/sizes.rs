//! Sizes of the streams of tasks.

use std::time::Duration;

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
    pub(super) fn settings(&self) -> Settings {
        let usual = Settings::of_new_sockets();
        Settings {
            send_buffer: self.send_buffer_bytes.unwrap_or(usual.send_buffer),
            recv_buffer: self.recv_buffer_bytes.unwrap_or(usual.recv_buffer),
            ..usual
        }
    }
}
