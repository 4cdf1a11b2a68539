//! The state of a datagram socket, behind its lock.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use device::{Access, AddressVector, CompChannel, Completion, Cq, Mr, Payload, Qpn, Sge, Status};
use smallvec::{SmallVec, smallvec};

use super::arrivals::{ArrivedDatagram, Inbox};
use super::end::{DatagramQp, DatagramWork, GRH_BYTES, offset};
use super::peers;
use crate::devices::{self, SharedDevices};
use crate::errno::{Errno, Result};
use crate::protocol::datagram::{DatagramSource, Inquiry};
use crate::rdma_options::{RDMA_INLINE, RDMA_RQSIZE, RDMA_SQSIZE};
use crate::settings::Settings;
use crate::value;

/// Peers remembered; those forgotten are asked again.
const MAX_PEERS: usize = 1 << 14;
const BATCH: usize = 64;
const MAX_QUEUE: i32 = 0xfffe;

/// The state of a datagram socket, which its lock guards.
#[derive(Debug)]
pub(super) struct DatagramState {
    pub(super) started: bool,
    pub(super) closed: bool,
    /// The one peer of a connected socket.
    pub(super) peer: Option<SocketAddr>,
    pub(super) status_flags: i32,
    pub(super) recv_timeout: Option<Duration>,
    pub(super) send_timeout: Option<Duration>,
    pub(super) settings: Settings,
    queues: Option<Queues>,
    ends: Vec<DatagramQp>,
    peers: HashMap<SocketAddr, DatagramPeer>,
    inbox: Inbox,
}

/// The state that all queue pairs of a socket share.
#[derive(Debug)]
struct Queues {
    channel: CompChannel,
    cq: Cq,
    send: Mr,
    /// Slots of the send buffer that nothing is sent from.
    free: Vec<u16>,
    armed: bool,
}

/// A destination.
#[derive(Debug)]
struct DatagramPeer {
    /// The end from which it is sent.
    end: usize,
    /// Its queue pair, once it has told us.
    remote: Option<(AddressVector, Qpn)>,
}

impl DatagramState {
    pub(super) fn new() -> DatagramState {
        DatagramState {
            started: false,
            closed: false,
            peer: None,
            status_flags: 0,
            recv_timeout: None,
            send_timeout: None,
            settings: Settings::of_new_sockets(),
            queues: None,
            ends: Vec::new(),
            peers: HashMap::new(),
            inbox: Inbox::default(),
        }
    }

    pub(super) fn set_rdma_option(&mut self, name: i32, bytes: &[u8]) -> Result<()> {
        if self.started {
            return Err(Errno::INVAL);
        }
        let size = value::int(bytes)?.clamp(0, MAX_QUEUE) as u16;
        match name {
            RDMA_SQSIZE => self.settings.send_queue = size,
            RDMA_RQSIZE => self.settings.recv_queue = size,
            RDMA_INLINE => self.settings.inline = size,
            _ => return Err(Errno::NOT_SUPPORTED),
        }
        Ok(())
    }

    /// Twice the size asked for, while there is no buffer.
    pub(super) fn set_buffer(&mut self, recv: bool, bytes: i32) {
        if self.queues.is_none() {
            let size = (bytes.max(0) as u32).saturating_mul(2);
            *(if recv { &mut self.settings.recv_buffer } else { &mut self.settings.send_buffer }) = size;
        }
    }

    /// Makes sure that there is an end from which `to` is reached.
    pub(super) fn know(&mut self, udp: &OwnedFd, to: SocketAddr) -> Result<()> {
        if self.closed {
            return Err(Errno::BADF);
        }
        if self.peers.contains_key(&to) {
            return Ok(());
        }
        let source = peers::source_for(udp.as_fd(), to)?;
        let end = match self.ends.iter().position(|end| end.source == source) {
            Some(end) => end,
            None => self.add_end(source)?,
        };
        if self.peers.len() >= MAX_PEERS {
            self.peers.clear();
        }
        self.peers.insert(to, DatagramPeer { end, remote: None });
        Ok(())
    }

    fn add_end(&mut self, source: SocketAddr) -> Result<usize> {
        let shared = devices::with_address(source.ip())?;
        let index = self.ends.len();
        if self.queues.is_none() {
            self.settings = self.settings.for_datagrams();
            self.queues = Some(Queues::new(&shared, &self.settings)?);
        }
        let queues = self.queues.as_ref().ok_or(Errno::INVAL)?;
        let capacity = u32::from(self.settings.send_queue) + u32::from(self.settings.recv_queue) * (index as u32 + 1);
        queues.cq.resize(capacity)?;
        self.ends.push(DatagramQp::new(index, source, &shared, &queues.cq, &self.settings)?);
        Ok(index)
    }

    /// The peer told the number of its queue pair.
    pub(super) fn learn(&mut self, from: SocketAddr, qpn: u32) {
        let Some(peer) = self.peers.get_mut(&from) else { return };
        peer.remote = self.ends.get(peer.end).map(|end| (end.path_to(from), Qpn::new(qpn)));
    }

    /// The inquiry to send to the peer over UDP.
    pub(super) fn inquiry(&self, to: SocketAddr, data: bool) -> Option<Inquiry> {
        let end = self.ends.get(self.peers.get(&to)?.end)?;
        Some(Inquiry { data, qpn: end.qpn().get(), address: end.source.ip() })
    }

    /// True if this many bytes can go to the peer's queue pair.
    pub(super) fn is_direct(&self, to: SocketAddr, len: usize) -> bool {
        let end = |peer: &DatagramPeer| self.ends.get(peer.end);
        self.peers.get(&to).is_some_and(|peer| peer.remote.is_some() && end(peer).is_some_and(|end| len <= end.room()))
    }

    /// True if there is a slot to send from; a socket that has sent nothing has all of them.
    pub(super) fn can_send(&self) -> bool {
        self.queues.as_ref().is_none_or(|queues| !queues.free.is_empty())
    }

    pub(super) fn is_all_sent(&self) -> bool {
        let all = usize::from(self.settings.send_queue);
        self.closed || self.queues.as_ref().is_none_or(|queues| queues.free.len() == all)
    }

    /// Sends to the queue pair of a peer that is known, from a slot that is there.
    pub(super) fn send(&mut self, to: SocketAddr, data: &[u8]) -> Result<()> {
        let Some(queues) = &mut self.queues else { return Err(Errno::INVAL) };
        let Some(DatagramPeer { end, remote: Some((address, qpn)) }) = self.peers.get(&to) else {
            return Err(Errno::INVAL);
        };
        let end = self.ends.get(*end).ok_or(Errno::INVAL)?;
        let mut bytes = Vec::with_capacity(DatagramSource::MAX_BYTES + data.len());
        DatagramSource(end.source).encode(&mut bytes);
        bytes.extend_from_slice(data);
        let slot = queues.free.pop().ok_or(Errno::AGAIN)?;
        let payload = queues.payload(slot, &bytes, self.settings.inline);
        let sent = end.send(slot, payload, *address, *qpn);
        if sent.is_err() {
            queues.free.push(slot);
        }
        sent
    }

    /// Takes a datagram that came over UDP. It is lost if there is no room.
    pub(super) fn forward(&mut self, source: SocketAddr, data: &[u8]) {
        if self.inbox.has_room(data.len(), self.settings.recv_buffer) {
            self.inbox.push(ArrivedDatagram::Copied { source, data: data.to_vec() });
        }
    }

    pub(super) fn has_data(&self) -> bool {
        self.inbox.first().is_some()
    }

    /// The oldest datagram, and its sender.
    pub(super) fn first(&self) -> Option<(SocketAddr, Vec<u8>)> {
        match self.inbox.first()? {
            ArrivedDatagram::Copied { source, data } => Some((*source, data.clone())),
            ArrivedDatagram::Received { end, slot, len } => self.read(*end, *slot, *len),
        }
    }

    /// Releases a datagram that was read.
    pub(super) fn forget_first(&mut self) {
        if let Some(ArrivedDatagram::Received { end, slot, .. }) = self.inbox.pop() {
            self.receive_again(end, slot);
        }
    }

    /// Takes completions; whether there were any.
    pub(super) fn pump(&mut self) -> bool {
        let mut taken = Vec::new();
        let mut news = false;
        while let Some(queues) = &mut self.queues {
            queues.take_events();
            if !matches!(queues.cq.poll_for(&mut taken, BATCH, Duration::ZERO), Ok(1..)) {
                break;
            }
            taken.drain(..).for_each(|completion| self.completed(&completion));
            news = true;
        }
        news
    }

    fn completed(&mut self, completion: &Completion) {
        match DatagramWork::decode(completion.wr_id) {
            DatagramWork::Send { slot } => self.queues.iter_mut().for_each(|queues| queues.free.push(slot)),
            DatagramWork::Receive { end, slot } => {
                let len = completion.byte_len.saturating_sub(GRH_BYTES);
                match completion.status {
                    Status::Success => self.arrived(end, slot, len),
                    Status::WorkRequestFlushed => {}
                    _ => self.receive_again(end, slot),
                }
            }
        }
    }

    /// A datagram is in a slot. It is copied out while there is room, so that the slot takes another one immediately: a
    /// program that reads late then loses no more than with a socket of the system.
    fn arrived(&mut self, end: usize, slot: u16, len: u32) {
        let is_copied = self.inbox.has_room(len as usize, self.settings.recv_buffer);
        let seen_bytes = if is_copied { len } else { len.min(DatagramSource::MAX_BYTES as u32) };
        match self.read(end, slot, seen_bytes) {
            Some(_) if !is_copied => return self.inbox.push(ArrivedDatagram::Received { end, slot, len }),
            Some((source, data)) => self.inbox.push(ArrivedDatagram::Copied { source, data }),
            // There is no header before it.
            None => {}
        }
        self.receive_again(end, slot);
    }

    /// The sender and the first bytes of the datagram in a slot.
    fn read(&self, end: usize, slot: u16, len: u32) -> Option<(SocketAddr, Vec<u8>)> {
        let mut bytes = self.ends.get(end)?.received(slot, len);
        let (source, data_bytes) = DatagramSource::split(&bytes).map(|(source, data)| (source.0, data.len()))?;
        bytes.drain(..bytes.len() - data_bytes);
        Some((source, bytes))
    }

    fn receive_again(&self, end: usize, slot: u16) {
        if let Some(Err(error)) = self.ends.get(end).map(|end| end.receive(slot)) {
            log::debug!("{error}");
        }
    }

    /// Asks for an event at the next completion, unless one is pending.
    pub(super) fn arm(&mut self) -> Result<()> {
        match &mut self.queues {
            Some(queues) if !queues.armed => {
                queues.cq.arm(false).map_err(|error| Errno(error.errno()))?;
                queues.armed = true;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn cq(&self) -> Option<&Cq> {
        self.queues.as_ref().map(|queues| &queues.cq)
    }

    pub(super) fn channel(&self) -> Option<&CompChannel> {
        self.queues.as_ref().map(|queues| &queues.channel)
    }

    /// Gives everything back.
    pub(super) fn close(&mut self) {
        self.closed = true;
        self.ends.clear();
        self.queues = None;
    }
}

impl Queues {
    fn new(shared: &SharedDevices, settings: &Settings) -> Result<Queues> {
        let channel = shared.device.create_channel()?;
        let capacity = u32::from(settings.send_queue) + u32::from(settings.recv_queue);
        let cq = shared.device.create_cq(capacity, Some(&channel), 0)?;
        let send = shared.pd.allocate(settings.send_buffer as usize, Access::LOCAL_WRITE)?;
        Ok(Queues { channel, cq, send, free: (0..settings.send_queue).collect(), armed: false })
    }

    fn take_events(&mut self) {
        while self.channel.next().is_some() {
            self.cq.ack_events(1);
            self.armed = false;
        }
    }

    /// Bytes as they go with a request: inline, or in their slot.
    fn payload(&self, slot: u16, bytes: &[u8], inline: u16) -> Payload {
        if bytes.len() <= usize::from(inline) {
            return Payload::Inline(SmallVec::from_slice(bytes));
        }
        let at = offset(slot);
        if let Some(span) = self.send.region().and_then(|region| region.span().part(at as usize, bytes.len())) {
            span.write(bytes);
        }
        let addr = self.send.addr() + u64::from(at);
        Payload::Sgl(smallvec![Sge { addr, len_bytes: bytes.len() as u32, lkey: self.send.lkey() }])
    }
}
