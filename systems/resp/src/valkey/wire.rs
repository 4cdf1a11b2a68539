//! The bytes of one connection. The peer WRITEs requests into our buffer, and tells the number of bytes as immediate data. We do
//! the same with replies. When a buffer is full and read, its owner announces it again (valkey.io/topics/RDMA, "Transfer").

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use longarm::{
    Access, Buffer, Completion, CompletionChannel, CompletionOp, CompletionQueue, Connection, Device, MemoryRegion,
    ProtectionDomain, RemoteKey, ResourceError, Unconnected,
};

use super::control::{CONTROL_BYTES, Control};

/// Our buffer for requests.
const RX_BYTES: u64 = 256 << 10;
/// Messages and WRITEs of the peer that may be on their way: more of them wait in its device.
const RECEIVES: usize = 256;
/// The longest WRITE of ours, and such WRITEs at a time.
const PIECE_BYTES: usize = 32 << 10;
const MOST_PIECES: usize = 8;
/// Requests of ours at a time: WRITEs and control messages. A peer that takes no messages makes more.
const SENDS: u32 = 64;
/// A peer that has not announced its buffer by then is cut off.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time between two messages to a peer that tell whether it is there.
const KEEPALIVE: Duration = Duration::from_secs(3);
/// Completions of one look.
const AT_ONCE: usize = 64;

/// The objects that a connection needs before it stands.
pub(super) struct ValkeyParts {
    domain: ProtectionDomain,
    queue: CompletionQueue,
    channel: CompletionChannel,
    rx: MemoryRegion,
}

impl ValkeyParts {
    /// A queue pair with receives, in a domain of its own: no other client's keys lead to this client's buffer.
    pub(super) fn make(device: &Device) -> Result<(ValkeyParts, Unconnected), ResourceError> {
        let domain = device.protection_domain()?;
        let channel = device.completion_channel()?;
        let queue = device.completion_queue_on(&channel)?;
        let rx = domain.expose(RX_BYTES as usize, Access::REMOTE_WRITE)?;
        let qp = domain
            .rc(&queue)
            .on(device)
            .send_depth(SENDS)
            .recv_depth(RECEIVES as u32)
            .remote_access(Access::REMOTE_WRITE)
            .build()?;
        for buffer in domain.allocate_many(RECEIVES, CONTROL_BYTES)? {
            // The queue has room for exactly these.
            let _ = qp.recv(buffer).post();
        }
        Ok((ValkeyParts { domain, queue, channel, rx }, qp))
    }

    pub(super) fn into_wire(self, connection: Connection) -> ValkeyWire {
        ValkeyWire {
            connection,
            parts: self,
            arrived: 0,
            taken: 0,
            tx: None,
            tx_used: 0,
            spare: Vec::new(),
            pieces: 0,
            under_way: 0,
            is_gone: false,
            done: Vec::new(),
            since: Instant::now(),
            told: Instant::now(),
        }
    }
}

/// One connection.
pub(crate) struct ValkeyWire {
    // First, so that its queue pair goes before its memory.
    connection: Connection,
    parts: ValkeyParts,
    /// Bytes that the peer has written into our buffer, and those that we have taken.
    arrived: u64,
    taken: u64,
    /// The peer's buffer, and the bytes that we have written into it.
    tx: Option<RemoteKey>,
    tx_used: u64,
    /// Buffers of ours that no request has; and how many there are.
    spare: Vec<Buffer>,
    pieces: usize,
    /// Requests of ours that are not completed.
    under_way: usize,
    is_gone: bool,
    done: Vec<Completion>,
    since: Instant,
    told: Instant,
}

impl ValkeyWire {
    pub(crate) fn peer_addr(&self) -> SocketAddr {
        self.connection.peer_addr()
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.connection.local_addr()
    }

    /// Announces our buffer, which is empty.
    pub(crate) fn announce(&mut self) -> io::Result<()> {
        (self.arrived, self.taken) = (0, 0);
        self.send(&Control::RegisterXferMemory(self.parts.rx.key()))
    }

    /// Looks at what has happened. Afterwards the descriptor tells of what comes later.
    pub(crate) fn look(&mut self) -> io::Result<()> {
        while self.parts.channel.next_event().is_some() {}
        self.parts.queue.arm().map_err(io::Error::other)?;
        let mut done = std::mem::take(&mut self.done);
        while self.parts.queue.poll(&mut done, AT_ONCE).map_err(io::Error::other)? > 0 {
            for completion in done.drain(..) {
                self.completed(completion)?;
            }
        }
        self.done = done;
        Ok(())
    }

    fn completed(&mut self, completion: Completion) -> io::Result<()> {
        let is_receive = matches!(completion.op(), CompletionOp::Recv | CompletionOp::RecvWriteImm);
        if !is_receive {
            self.under_way -= 1;
        }
        match completion.op() {
            _ if !completion.is_ok() => {
                // The peer has gone, or its key does not lead to its buffer. Requests that have arrived count.
                self.is_gone = true;
                Ok(())
            }
            CompletionOp::Recv => {
                let message = completion.buffer().map(|buffer| Control::decode(buffer));
                self.receive_again(completion)?;
                self.obey(message.flatten().ok_or_else(|| wrong("no control message"))?)
            }
            CompletionOp::RecvWriteImm => {
                let len = u64::from(completion.imm().unwrap_or(0));
                self.receive_again(completion)?;
                if len > RX_BYTES - self.arrived {
                    return Err(wrong("more bytes than our buffer has"));
                }
                self.arrived += len;
                Ok(())
            }
            _ => {
                self.spare.extend(completion.into_buffer());
                Ok(())
            }
        }
    }

    fn receive_again(&mut self, completion: Completion) -> io::Result<()> {
        let buffer = completion.into_buffer().ok_or_else(|| wrong("a receive without a buffer"))?;
        // A queue pair that has failed takes none; the peer has gone then.
        self.is_gone |= self.connection.recv(buffer).post().is_err();
        Ok(())
    }

    fn obey(&mut self, message: Control) -> io::Result<()> {
        match message {
            // There are no features yet.
            Control::GetServerFeature { select, .. } => self.send(&Control::GetServerFeature { select, features: 0 }),
            Control::SetClientFeature { features: 0, .. } | Control::Keepalive => Ok(()),
            Control::SetClientFeature { .. } => Err(wrong("a feature that was not offered")),
            Control::RegisterXferMemory(key) if key.len_bytes() == 0 => Err(wrong("a buffer without bytes")),
            Control::RegisterXferMemory(key) => {
                (self.tx, self.tx_used) = (Some(key), 0);
                Ok(())
            }
        }
    }

    /// Takes some of the requests' bytes, which the peer may be changing.
    pub(crate) fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.arrived {
            return Err(if self.is_gone { ErrorKind::ConnectionReset } else { ErrorKind::WouldBlock }.into());
        }
        let len = bytes.len().min((self.arrived - self.taken) as usize);
        self.parts.rx.copy_out(self.taken, &mut bytes[..len]).map_err(io::Error::other)?;
        self.taken += len as u64;
        if self.taken == RX_BYTES {
            self.announce()?;
        }
        Ok(len)
    }

    /// Writes some bytes into the peer's buffer; zero if it has no room, or all our pieces are under way.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_gone {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let Some(tx) = &self.tx else { return Ok(0) };
        let room = usize::try_from(tx.len_bytes() - self.tx_used).unwrap_or(usize::MAX);
        let len = bytes.len().min(room).min(PIECE_BYTES);
        if len == 0 {
            return Ok(0);
        }
        let place = tx.at(self.tx_used, len as u64).map_err(io::Error::other)?;
        let Some(mut piece) = self.piece()? else { return Ok(0) };
        piece.fill_from(&bytes[..len]);
        self.connection.write_with_imm(piece, &place, len as u32).post().map_err(io::Error::other)?;
        self.under_way += 1;
        self.tx_used += len as u64;
        Ok(len)
    }

    fn piece(&mut self) -> io::Result<Option<Buffer>> {
        if self.spare.is_empty() && self.pieces < MOST_PIECES {
            self.spare.push(self.parts.domain.allocate(PIECE_BYTES).map_err(io::Error::other)?);
            self.pieces += 1;
        }
        Ok(self.spare.pop())
    }

    fn send(&mut self, message: &Control) -> io::Result<()> {
        // A full queue: the peer takes none.
        self.connection.send_inline(&message.encode()).post().map_err(io::Error::other)?;
        self.under_way += 1;
        Ok(())
    }

    /// True if everything that we wrote has reached the peer.
    pub(crate) fn has_arrived(&self) -> bool {
        self.under_way == 0
    }

    /// Asks from time to time whether the peer is there. Returns an error if it is of no use.
    pub(crate) fn tend(&mut self, now: Instant) -> io::Result<()> {
        if self.tx.is_none() && now.duration_since(self.since) >= PATIENCE {
            return Err(ErrorKind::TimedOut.into());
        }
        if now.duration_since(self.told) >= KEEPALIVE && self.under_way == 0 {
            self.told = now;
            self.send(&Control::Keepalive)?;
        }
        Ok(())
    }

    /// Ends the connection. Returns false if the peer stands still in the middle of an access: then dropping it would wait.
    pub(super) fn end(&self) -> bool {
        self.connection.disconnect();
        self.connection.cut_off(Duration::ZERO)
    }
}

impl AsFd for ValkeyWire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.parts.channel.as_fd()
    }
}

fn wrong(what: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}
