//! Sizes of sockets: those of the administrator, of the program, or the defaults.

use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use crate::protocol::greeting::tellable;

/// The directory in which an administrator sets defaults, one number per file: `rsocket(7)`.
const DIRECTORY: &str = "/etc/rdma/rsocket";
const MIN_QUEUE: u16 = 16;
const MAX_QUEUE: u16 = 0xfffe;
/// A socket is not writable with less room than that in its send buffer. Datagrams take as much each.
pub(crate) const LOW_WATER: u32 = 2048;
const MIN_BUFFER: u32 = 2 * LOW_WATER;
const MAX_BUFFER: u32 = 1 << 30;

/// Sizes of one socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Settings {
    /// Requests in the send queue.
    pub(crate) send_queue: u16,
    /// Requests in the receive queue.
    pub(crate) recv_queue: u16,
    /// Bytes up to which data is sent inline.
    pub(crate) inline: u16,
    /// Bytes of the send buffer.
    pub(crate) send_buffer: u32,
    /// Bytes of the receive buffer.
    pub(crate) recv_buffer: u32,
    /// Buffers that the peer may map at a time.
    pub(crate) mappings: u16,
}

/// The numbers that the administrator set, or ours. The buffers are those of TCP rather than the 128 KiB of
/// librdmacm: each time that a buffer is full two threads wake up, and the time to poll is longer for the same reason. The receive
/// buffer is a little below 2 MiB: larger memory would take huge pages that the administrator has reserved.
struct Defaults {
    settings: Settings,
    polling: Duration,
}

fn defaults() -> &'static Defaults {
    static DEFAULTS: OnceLock<Defaults> = OnceLock::new();
    DEFAULTS.get_or_init(|| Defaults::read(Path::new(DIRECTORY)))
}

/// The time for which a call polls before it sleeps.
pub(crate) fn polling_time() -> Duration {
    defaults().polling
}

impl Defaults {
    fn read(directory: &Path) -> Defaults {
        let number = |name: &str, default: u32| -> u32 {
            let text = std::fs::read_to_string(directory.join(name));
            text.ok().and_then(|text| text.split_whitespace().next()?.parse().ok()).unwrap_or(default)
        };
        let short = |name: &str, default: u16| u16::try_from(number(name, default.into())).unwrap_or(u16::MAX);
        let settings = Settings {
            send_queue: short("sqsize_default", 384),
            recv_queue: short("rqsize_default", 384),
            inline: short("inline_default", 64),
            send_buffer: number("wmem_default", 1 << 20),
            recv_buffer: number("mem_default", 1920 << 10),
            mappings: tellable(short("iomap_size", 0)),
        };
        Defaults { settings, polling: Duration::from_micros(number("polling_time", 100).into()) }
    }
}

impl Settings {
    /// The settings of a new socket.
    pub(crate) fn of_new_sockets() -> Settings {
        defaults().settings
    }

    /// As a connection can have them.
    pub(crate) fn for_stream(&self) -> Settings {
        Settings {
            send_queue: self.send_queue.clamp(MIN_QUEUE, MAX_QUEUE),
            recv_queue: self.recv_queue.clamp(MIN_QUEUE, MAX_QUEUE),
            inline: self.inline.min(1024),
            send_buffer: self.send_buffer.clamp(MIN_BUFFER, MAX_BUFFER),
            recv_buffer: self.recv_buffer.clamp(MIN_BUFFER, MAX_BUFFER) & !1,
            mappings: self.mappings,
        }
    }

    /// As a datagram socket can have them: as many requests in each queue as its buffer holds.
    pub(crate) fn for_datagrams(&self) -> Settings {
        let queue = |queue: u16, buffer: u32| {
            let fit = u16::try_from(buffer / LOW_WATER).unwrap_or(MAX_QUEUE);
            queue.min(fit).clamp(1, MAX_QUEUE)
        };
        let (send_queue, recv_queue) =
            (queue(self.send_queue, self.send_buffer), queue(self.recv_queue, self.recv_buffer));
        Settings {
            send_queue,
            recv_queue,
            inline: self.inline.min(1024),
            send_buffer: u32::from(send_queue) * LOW_WATER,
            recv_buffer: u32::from(recv_queue) * LOW_WATER,
            mappings: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_administrator() {
        let directory = std::env::temp_dir().join(format!("longarm-rsocket-settings-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("mem_default"), "1000000\n").unwrap();
        std::fs::write(directory.join("polling_time"), "many").unwrap();
        std::fs::write(directory.join("sqsize_default"), "70000").unwrap();
        let read = Defaults::read(&directory);
        std::fs::remove_dir_all(&directory).unwrap();
        assert_eq!(read.settings.recv_buffer, 1_000_000);
        assert_eq!(read.settings.send_buffer, 1 << 20);
        assert_eq!(read.polling, Duration::from_micros(100));
        assert_eq!(read.settings.for_stream().send_queue, 0xfffe);
    }

    #[test]
    fn usual_buffers_take_no_reserved_huge_pages() {
        let usual = Defaults::read(Path::new("/nowhere")).settings;
        let lists = 4096;
        assert!(usual.recv_buffer.max(usual.send_buffer) + lists < 2 << 20);
    }

    #[test]
    fn datagram_queues_fit_their_buffers() {
        let usual = Defaults::read(Path::new("/nowhere")).settings;
        assert_eq!(usual.for_datagrams().send_buffer, 384 * 2048);
        let settings = Settings { send_buffer: 1 << 17, ..usual }.for_datagrams();
        assert_eq!((settings.send_queue, settings.send_buffer), (64, 1 << 17));
        let tiny = Settings { recv_buffer: 0, send_buffer: u32::MAX, ..settings }.for_datagrams();
        assert_eq!((tiny.recv_queue, tiny.recv_buffer), (1, 2048));
    }
}
