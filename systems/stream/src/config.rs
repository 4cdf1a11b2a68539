//! Sizes and times of streams.

use std::io;
use std::time::Duration;

use rsocket::tasks::TaskSettings;

use crate::address::StreamAddress;
use crate::listener::RdmaListener;
use crate::stream::RdmaStream;

/// The time for which a task looks for news itself, unless told otherwise: longer than a round trip on one host, and than
/// the peer takes to read half of its buffer.
const BUSY_POLL: Duration = Duration::from_micros(300);
const BACKLOG: u32 = 1024;
/// Bytes of each buffer, unless told otherwise. The receive buffer is a little below 2 MiB: larger memory would take huge
/// pages that the administrator has reserved.
const SEND_BYTES: u32 = 1 << 20;
const RECV_BYTES: u32 = 1920 << 10;

/// Makes streams and listeners of its sizes.
///
/// ```no_run
/// # async fn example() -> std::io::Result<()> {
/// use std::time::Duration;
/// use longarm_stream::StreamConfig;
///
/// let config = StreamConfig::new().recv_buffer(1 << 20).keepalive(Duration::from_secs(5));
/// let stream = config.connect("server.example:7471").await?;
/// # Ok(()) }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamConfig {
    settings: TaskSettings,
    busy_poll: Duration,
    backlog: u32,
}

impl Default for StreamConfig {
    fn default() -> StreamConfig {
        let settings =
            TaskSettings { send_buffer_bytes: Some(SEND_BYTES), recv_buffer_bytes: Some(RECV_BYTES), keepalive: None };
        let alone = std::thread::available_parallelism().is_ok_and(|processors| processors.get() == 1);
        StreamConfig { settings, busy_poll: if alone { Duration::ZERO } else { BUSY_POLL }, backlog: BACKLOG }
    }
}

impl StreamConfig {
    /// The usual values.
    pub fn new() -> StreamConfig {
        StreamConfig::default()
    }

    /// Bytes of the buffer that bytes wait in until the peer has them: 4 KiB to 1 GiB, usually 1 MiB. It is memory of
    /// this process, for each stream, as far as it was used.
    #[must_use]
    pub fn send_buffer(mut self, bytes: u32) -> StreamConfig {
        self.settings.send_buffer_bytes = Some(bytes);
        self
    }

    /// Bytes of the buffer that the peer fills before it must wait: 4 KiB to 1 GiB, usually 1920 KiB.
    #[must_use]
    pub fn recv_buffer(mut self, bytes: u32) -> StreamConfig {
        self.settings.recv_buffer_bytes = Some(bytes);
        self
    }

    /// Asks the peer's device every so often whether it is there, in whole seconds. So a reader learns of the death of
    /// a host. The death of a process shows without this.
    #[must_use]
    pub fn keepalive(mut self, every: Duration) -> StreamConfig {
        self.settings.keepalive = Some(every);
        self
    }

    /// The time for which a task without news looks again at each turn of its executor, usually 300 µs. Then it waits for
    /// the device's thread to wake it. Other tasks run meanwhile. More is faster where answers take longer,
    /// and takes more of the processor. Zero turns it off. It turns itself off for streams that it does not help.
    #[must_use]
    pub fn busy_poll(mut self, time: Duration) -> StreamConfig {
        self.busy_poll = time;
        self
    }

    /// The number of connections that wait to be accepted, usually 1024. Further ones are refused.
    #[must_use]
    pub fn backlog(mut self, connections: u32) -> StreamConfig {
        self.backlog = connections;
        self
    }

    /// Connects to the first of a name's addresses that answers. Dropping the future withdraws the request.
    ///
    /// # Errors
    /// As [`RdmaStream::connect`].
    pub async fn connect(&self, address: impl Into<StreamAddress>) -> io::Result<RdmaStream> {
        RdmaStream::connect_with(address.into(), self).await
    }

    /// Listens at an address.
    ///
    /// # Errors
    /// As [`RdmaListener::bind`].
    pub async fn bind(&self, address: impl Into<StreamAddress>) -> io::Result<RdmaListener> {
        RdmaListener::bind_with(address.into(), self).await
    }

    pub(crate) fn settings(&self) -> TaskSettings {
        self.settings
    }

    pub(crate) fn busy_poll_time(&self) -> Duration {
        self.busy_poll
    }

    pub(crate) fn backlog_len(&self) -> usize {
        self.backlog as usize
    }
}
