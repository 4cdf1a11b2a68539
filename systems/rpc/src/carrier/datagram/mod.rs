//! The way *datagram*: requests and replies are datagrams (UD SENDs), of any number of packets.
//!
//! No connection carries messages, so one queue pair of a server serves all clients (Kalia et al., "FaSST: Fast, Scalable
//! and Simple Distributed Transactions with Two-Sided (RDMA) Datagram RPCs", OSDI 2016). Packets may get lost: the client
//! sends again from the first packet without an answer, and the window follows the round trip time (eRPC, NSDI 2019,
//! section 5).
//!
//! **Credits bound the receive buffers.** A session has so many credits. Each packet of the client takes one, and its answer
//! brings it back. So the server needs a receive buffer per credit of each session, and the client as many. Three kinds
//! of packets come on top, at most one per slot. The reply to a call whose handler was slow comes unasked. A `Release`
//! has no answer. And a packet that the client took for lost may still be under way. If a buffer is missing, the packet is lost.

mod client;
mod flow;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod packet;
mod parts;
mod rtt;
mod server;
#[cfg(any(test, feature = "fuzzing"))]
mod testing;
#[cfg(test)]
mod tests;
mod timely;

use std::time::{Duration, Instant};

pub(crate) use client::DatagramClient;
pub(crate) use packet::{PacketCut, PacketEnd, RpcPacketHeader, RpcPacketKind};
pub(crate) use server::DatagramServer;
pub(crate) use timely::RttThresholds;

use crate::carrier::{CarrierCounters, MAX_SLOTS};
use crate::frame::FrameHeader;
use crate::link::{LinkBusy, SessionLink};

/// The longest body that travels as packets where the session's connection can carry a READ, which is one request and
/// needs no timers.
pub(crate) const READ_ABOVE_BYTES: usize = 8 << 10;
/// Credits of a session, unless the program says otherwise (eRPC, section 4.3.1).
pub(crate) const DEFAULT_CREDITS: u32 = 32;
/// The shortest timeout, unless the program says otherwise (eRPC, section 5.2.3).
pub(crate) const DEFAULT_SHORTEST_TIMEOUT: Duration = Duration::from_millis(5);

/// The numbers on which both ends of a session in this way agree, and the names of the ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DatagramSetup {
    /// Calls at a time.
    pub(crate) slots: u16,
    /// Packets of the client that may wait for an answer.
    pub(crate) credits: u32,
    pub(crate) cut: PacketCut,
    /// The end in the header of packets that come here, and of those that go to the peer.
    pub(crate) ours: PacketEnd,
    pub(crate) theirs: PacketEnd,
    /// Longer bodies do not travel as packets: the peer READs them.
    pub(crate) longest_body_bytes: usize,
    /// The client's shortest timeout.
    pub(crate) shortest_timeout: Duration,
    /// The client's measure of congestion.
    pub(crate) thresholds: RttThresholds,
}

impl DatagramSetup {
    /// A session of `slots` calls, 64 at most, with the usual credits, timeout and thresholds.
    pub(crate) fn new(slots: u16, cut: PacketCut, ours: PacketEnd, theirs: PacketEnd) -> DatagramSetup {
        DatagramSetup {
            slots: slots.min(MAX_SLOTS),
            credits: DEFAULT_CREDITS,
            cut,
            ours,
            theirs,
            longest_body_bytes: usize::MAX,
            shortest_timeout: DEFAULT_SHORTEST_TIMEOUT,
            thresholds: RttThresholds::default(),
        }
    }

    fn inline_bytes(&self) -> usize {
        self.cut.max_body_bytes().min(self.longest_body_bytes)
    }

    /// The header of a packet to the peer.
    fn header(&self, number: u32, slot: u16, kind: RpcPacketKind, index: u16) -> RpcPacketHeader {
        RpcPacketHeader { to: self.theirs, number, slot: slot as u8, kind, index }
    }

    /// The header and the payload of a datagram, if the peer has made it.
    fn admit<'a>(&self, datagram: &'a [u8]) -> Result<(RpcPacketHeader, &'a [u8]), Unfit> {
        let (header, payload) = RpcPacketHeader::split(datagram).ok_or(Unfit::Malformed)?;
        if header.to == self.ours { Ok((header, payload)) } else { Err(Unfit::Foreign) }
    }
}

/// The reason why a packet is dropped. None ends the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unfit {
    /// No honest peer sends it.
    Malformed,
    /// It is for another session, or does not know the token.
    Foreign,
    /// It has come before, or belongs to an earlier call.
    Stale,
    /// A packet before it is missing.
    Ahead,
    /// Too many packets wait for their answer.
    Flood,
}

/// Packets of a session, since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DatagramCounters {
    pub(crate) sent: u64,
    /// Client: packets sent again. Server: parts of requests that came again.
    pub(crate) repeated: u64,
    /// Client: times that an answer was late.
    pub(crate) timeouts: u64,
    /// Dropped: packets that no honest peer sends.
    pub(crate) malformed: u64,
    /// Dropped: packets of another session, or without its token.
    pub(crate) foreign: u64,
    /// Dropped: packets of earlier calls, and doubled ones.
    pub(crate) stale: u64,
    /// Dropped: packets before which another was missing.
    pub(crate) ahead: u64,
    /// Dropped: packets for whose answers there was no place.
    pub(crate) flood: u64,
}

impl DatagramCounters {
    /// The counters that all ways have.
    pub(crate) fn summary(&self) -> CarrierCounters {
        let dropped = self.malformed + self.foreign + self.stale + self.ahead + self.flood;
        CarrierCounters { repeated: self.repeated, dropped }
    }
}

impl DatagramCounters {
    fn drop(&mut self, unfit: Unfit) {
        *match unfit {
            Unfit::Malformed => &mut self.malformed,
            Unfit::Foreign => &mut self.foreign,
            Unfit::Stale => &mut self.stale,
            Unfit::Ahead => &mut self.ahead,
            Unfit::Flood => &mut self.flood,
        } += 1;
    }
}

/// One end of a session in this way.
pub(crate) enum DatagramCarrier {
    Client(DatagramClient),
    Server(DatagramServer),
}

impl DatagramCarrier {
    /// The client's end.
    pub(crate) fn client(setup: DatagramSetup) -> DatagramCarrier {
        DatagramCarrier::Client(DatagramClient::new(setup))
    }

    /// The server's end.
    pub(crate) fn server(setup: DatagramSetup) -> DatagramCarrier {
        DatagramCarrier::Server(DatagramServer::new(setup))
    }

    /// The longest body of a message.
    pub(crate) fn inline_bytes(&self) -> usize {
        match self {
            DatagramCarrier::Client(client) => client.inline_bytes(),
            DatagramCarrier::Server(server) => server.inline_bytes(),
        }
    }

    /// Packets of the client that may be under way.
    pub(crate) fn credits(&self) -> u32 {
        match self {
            DatagramCarrier::Client(client) => client.credits(),
            DatagramCarrier::Server(server) => server.credits(),
        }
    }

    pub(crate) fn counters(&self) -> DatagramCounters {
        match self {
            DatagramCarrier::Client(client) => client.counters(),
            DatagramCarrier::Server(server) => server.counters(),
        }
    }

    /// Immediate data has come over the connection beside the datagrams, which carries none.
    pub(crate) fn on_imm(&mut self) {
        match self {
            DatagramCarrier::Client(client) => client.broken = true,
            DatagramCarrier::Server(server) => server.broken = true,
        }
    }

    /// True if the peer broke the rules of the connection. Anybody can send datagrams: none is believed to be its fault.
    pub(crate) fn is_broken(&self) -> bool {
        match self {
            DatagramCarrier::Client(client) => client.broken,
            DatagramCarrier::Server(server) => server.broken,
        }
    }

    /// Credits of the client that packets hold.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn credits_taken(&self) -> Option<u32> {
        match self {
            DatagramCarrier::Client(client) => Some(client.credits_taken()),
            DatagramCarrier::Server(_) => None,
        }
    }

    /// Takes a message over. It is sent as credits and device allow, until it has arrived.
    pub(crate) fn send<L: SessionLink>(
        &mut self,
        link: &mut L,
        header: &FrameHeader,
        body: &[u8],
        now: Instant,
    ) -> Result<(), LinkBusy> {
        match self {
            DatagramCarrier::Client(client) => client.send(link, header, body, now),
            DatagramCarrier::Server(server) => {
                server.send(link, header, body, now);
                Ok(())
            }
        }
    }

    /// Takes the next message; its body is exchanged for the contents of `body`.
    pub(crate) fn receive<L: SessionLink>(
        &mut self,
        link: &mut L,
        body: &mut Vec<u8>,
        now: Instant,
    ) -> Option<FrameHeader> {
        match self {
            DatagramCarrier::Client(client) => {
                client.pump(link, now);
                client.receive(body)
            }
            DatagramCarrier::Server(server) => {
                server.pump(link);
                server.receive(body)
            }
        }
    }

    /// A datagram has arrived, from anybody.
    pub(crate) fn on_datagram(&mut self, datagram: &[u8], now: Instant) {
        match self {
            DatagramCarrier::Client(client) => client.on_datagram(datagram, now),
            DatagramCarrier::Server(server) => server.on_datagram(datagram, now),
        }
    }

    /// True if the device did not take a packet, so that the next tick tries again.
    pub(crate) fn is_blocked(&self) -> bool {
        matches!(self, DatagramCarrier::Client(client) if client.is_blocked())
    }

    /// Sends again what is late.
    pub(crate) fn tick<L: SessionLink>(&mut self, link: &mut L, now: Instant) {
        match self {
            DatagramCarrier::Client(client) => {
                client.tick(now);
                client.pump(link, now);
            }
            DatagramCarrier::Server(server) => server.pump(link),
        }
    }

    /// The first moment at which [`tick`](DatagramCarrier::tick) may have something to do.
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        match self {
            DatagramCarrier::Client(client) => client.next_timer(),
            DatagramCarrier::Server(_) => None,
        }
    }
}
