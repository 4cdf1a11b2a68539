//! Bare sockets: the server sends back each byte.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Outcome, PeerKind, PeerMode, PeerOptions, PeerTally};

/// Bytes that both directions of a socket hold at least, so that neither side blocks while it sends.
const IN_FLIGHT: usize = 64 << 10;

trait Socket: Read + Write + AsFd {}
impl<T: Read + Write + AsFd> Socket for T {}

pub(super) fn serve(peer: PeerKind, place: &str) -> Outcome<()> {
    let mut stream: Box<dyn Socket> = if peer == PeerKind::Tcp {
        let listener = TcpListener::bind(place)?;
        println!("listening on {}", listener.local_addr()?);
        let stream = listener.accept()?.0;
        stream.set_nodelay(true)?;
        Box::new(stream)
    } else {
        let listener = UnixListener::bind(place)?;
        println!("listening on {place}");
        Box::new(listener.accept()?.0)
    };
    let mut buffer = vec![0; IN_FLIGHT];
    loop {
        let len = stream.read(&mut buffer)?;
        if len == 0 {
            return Ok(());
        }
        stream.write_all(&buffer[..len])?;
    }
}

pub(super) fn measure(peer: PeerKind, place: &str, options: &PeerOptions) -> Outcome<PeerTally> {
    let stream: Box<dyn Socket> = if peer == PeerKind::Tcp {
        let stream = TcpStream::connect(place)?;
        stream.set_nodelay(true)?;
        Box::new(stream)
    } else {
        Box::new(UnixStream::connect(place)?)
    };
    if options.size * options.depth() > IN_FLIGHT {
        return Err(format!("--size times --depth: sockets take at most {IN_FLIGHT} bytes here").into());
    }
    let mut client = SocketClient::new(stream, options.size);
    match options.mode {
        PeerMode::Latency | PeerMode::Rate => client.flood(options.depth(), options.duration()),
        PeerMode::Load => {
            let reached = client.flood(options.depth(), options.duration())?.per_second();
            let per_second = reached * f64::from(options.load) / 100.0;
            client.pace(options.depth(), options.duration(), per_second)
        }
    }
}

struct SocketClient {
    stream: Box<dyn Socket>,
    size: usize,
    /// Bytes of a reply that is not complete.
    partial: usize,
    /// The starts of the outstanding calls, oldest first.
    starts: VecDeque<Instant>,
    messages: Vec<u8>,
    buffer: Vec<u8>,
}

impl SocketClient {
    fn new(stream: Box<dyn Socket>, size: usize) -> SocketClient {
        let (messages, buffer) = (vec![7; IN_FLIGHT], vec![0; IN_FLIGHT]);
        SocketClient { stream, size, partial: 0, starts: VecDeque::new(), messages, buffer }
    }

    /// Keeps `depth` calls outstanding; all that may start at a time go out in one write.
    fn flood(&mut self, depth: usize, duration: Duration) -> Outcome<PeerTally> {
        let (mut tally, begin) = (PeerTally::default(), Instant::now());
        let mut now = begin;
        while now - begin < duration {
            let count = depth - self.starts.len();
            self.stream.write_all(&self.messages[..count * self.size])?;
            self.starts.extend(std::iter::repeat_n(now, count));
            self.receive(&mut tally)?;
            now = Instant::now();
        }
        tally.elapsed = now - begin;
        self.drain()?;
        Ok(tally)
    }

    /// Starts calls at a fixed rate. Sleeps in the kernel until a reply comes or a call is due.
    fn pace(&mut self, depth: usize, duration: Duration, per_second: f64) -> Outcome<PeerTally> {
        let gap = Duration::from_secs_f64(1.0 / per_second.max(1e-3));
        let (mut tally, begin) = (PeerTally::default(), Instant::now());
        let mut planned = begin;
        loop {
            let now = Instant::now();
            if now - begin >= duration {
                tally.elapsed = now - begin;
                self.drain()?;
                return Ok(tally);
            }
            let mut count = 0;
            while planned <= now && self.starts.len() < depth {
                self.starts.push_back(planned);
                (planned, count) = (planned + gap, count + 1);
            }
            self.stream.write_all(&self.messages[..count * self.size])?;
            let wait = planned.saturating_duration_since(Instant::now());
            let full = self.starts.len() >= depth;
            if self.waits(if full { Duration::from_secs(1) } else { wait })? {
                self.receive(&mut tally)?;
            }
        }
    }

    /// Whether bytes come within the time.
    fn waits(&self, timeout: Duration) -> Outcome<bool> {
        let time = Timespec::try_from(timeout)?;
        Ok(poll(&mut [PollFd::new(&self.stream.as_fd(), PollFlags::IN)], Some(&time))? > 0)
    }

    /// Takes the replies that one read gives.
    fn receive(&mut self, tally: &mut PeerTally) -> Outcome<()> {
        let len = self.stream.read(&mut self.buffer)?;
        if len == 0 {
            return Err("the server has ended".into());
        }
        self.partial += len;
        let now = Instant::now();
        while self.partial >= self.size {
            self.partial -= self.size;
            let start = self.starts.pop_front().ok_or("a reply without a call")?;
            tally.record(now - start);
            tally.calls += 1;
        }
        Ok(())
    }

    fn drain(&mut self) -> Outcome<()> {
        let mut rest = PeerTally::default();
        while !self.starts.is_empty() {
            self.receive(&mut rest)?;
        }
        Ok(())
    }
}
