//! The server's end: each packet of the client gets one answer, and nothing is sent for any other reason, but the reply
//! itself. So the client alone decides about loss, and the server has no timers.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::carrier::SlotList;
use crate::carrier::datagram::packet::{RpcPacketHeader, RpcPacketKind};
use crate::carrier::datagram::parts::{IncomingParts, OutgoingParts};
use crate::carrier::datagram::{DatagramCounters, DatagramSetup, Unfit};
use crate::frame::{FrameHeader, RpcKind};
use crate::link::{LinkBusy, SessionLink};

/// The state of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ServeStage {
    /// None has come yet, or the reply has been released.
    #[default]
    Empty,
    /// A part of it is here.
    Arriving,
    /// All of it is here, and has no reply.
    Running,
    /// The reply is kept until the slot's next request.
    Replied,
}

#[derive(Default)]
struct ServeFlow {
    number: u32,
    stage: ServeStage,
    request: IncomingParts,
    reply: OutgoingParts,
    /// The moment at which the last part of the request arrived.
    arrived_at: Option<Instant>,
}

/// A packet that is owed to the client.
#[derive(Clone, Copy, Debug)]
struct OwedPacket {
    number: u32,
    index: u16,
    slot: u8,
    kind: RpcPacketKind,
}

/// The server's end of a session in the way *datagram*.
pub(crate) struct DatagramServer {
    setup: DatagramSetup,
    flows: SlotList<ServeFlow>,
    /// Slots whose request is complete.
    complete: VecDeque<u16>,
    owed: VecDeque<OwedPacket>,
    /// Answers that may wait at a time. An honest client has no more packets under way, unless it repeats some.
    most_owed: usize,
    counters: DatagramCounters,
    /// The peer broke the rules of the connection beside the datagrams.
    pub(super) broken: bool,
}

impl DatagramServer {
    pub(crate) fn new(setup: DatagramSetup) -> DatagramServer {
        let most_owed = 2 * setup.credits as usize + usize::from(setup.slots);
        DatagramServer {
            flows: SlotList::new(setup.slots),
            complete: VecDeque::new(),
            owed: VecDeque::new(),
            most_owed,
            counters: DatagramCounters::default(),
            broken: false,
            setup,
        }
    }

    pub(crate) fn credits(&self) -> u32 {
        self.setup.credits
    }

    pub(crate) fn inline_bytes(&self) -> usize {
        self.setup.inline_bytes()
    }

    pub(crate) fn counters(&self) -> DatagramCounters {
        self.counters
    }

    /// A datagram has arrived.
    pub(crate) fn on_datagram(&mut self, datagram: &[u8], now: Instant) {
        if let Err(unfit) = self.take(datagram, now) {
            self.counters.drop(unfit);
        }
    }

    fn take(&mut self, datagram: &[u8], now: Instant) -> Result<(), Unfit> {
        let (header, payload) = self.setup.admit(datagram)?;
        let flow = self.flows.reach(u16::from(header.slot)).ok_or(Unfit::Malformed)?;
        match header.kind {
            RpcPacketKind::Request => self.on_part(&header, payload, now),
            _ if !payload.is_empty() => Err(Unfit::Malformed),
            _ if header.number != flow.number => Err(Unfit::Stale),
            RpcPacketKind::Pull => self.on_pull(&header),
            RpcPacketKind::Release if flow.stage == ServeStage::Replied => {
                flow.reply.clear();
                flow.stage = ServeStage::Empty;
                Ok(())
            }
            RpcPacketKind::Release => Err(Unfit::Stale),
            RpcPacketKind::Credit | RpcPacketKind::Reply | RpcPacketKind::Running => Err(Unfit::Malformed),
        }
    }

    fn on_part(&mut self, header: &RpcPacketHeader, payload: &[u8], now: Instant) -> Result<(), Unfit> {
        let flow = &mut self.flows[header.slot.into()];
        let index = u32::from(header.index);
        if header.number == flow.number.wrapping_add(1) {
            return self.on_first_part(header, payload, now);
        }
        if header.number != flow.number || flow.stage == ServeStage::Empty {
            return Err(Unfit::Stale);
        }
        if index >= flow.request.packets() {
            return Err(Unfit::Malformed);
        }
        if index > flow.request.arrived() {
            return Err(Unfit::Ahead);
        }
        if index < flow.request.arrived() {
            return self.on_repeated_part(header);
        }
        if !flow.request.push(&self.setup.cut, payload) {
            return Err(Unfit::Malformed);
        }
        self.on_arrived(header, now)
    }

    /// The first part of a new request, which says that the client has the reply to the one before.
    fn on_first_part(&mut self, header: &RpcPacketHeader, payload: &[u8], now: Instant) -> Result<(), Unfit> {
        let flow = &mut self.flows[header.slot.into()];
        if !matches!(flow.stage, ServeStage::Empty | ServeStage::Replied) {
            return Err(Unfit::Malformed); // The slot is taken.
        }
        if header.index > 0 {
            return Err(Unfit::Ahead);
        }
        let expected = FrameHeader::bare(RpcKind::Request, u16::from(header.slot), header.number);
        if !flow.request.begin(&self.setup.cut, payload, &expected) {
            return Err(Unfit::Malformed);
        }
        (flow.number, flow.stage) = (header.number, ServeStage::Arriving);
        flow.reply.clear();
        self.on_arrived(header, now)
    }

    /// A part has been added. The reply answers the last one, so a call of one packet costs two.
    fn on_arrived(&mut self, header: &RpcPacketHeader, now: Instant) -> Result<(), Unfit> {
        let flow = &mut self.flows[header.slot.into()];
        if !flow.request.is_complete() {
            return self.owe(header, RpcPacketKind::Credit, header.index);
        }
        (flow.stage, flow.arrived_at) = (ServeStage::Running, Some(now));
        self.complete.push_back(u16::from(header.slot));
        Ok(())
    }

    /// The client has not had the answer, or the network has doubled the part.
    fn on_repeated_part(&mut self, header: &RpcPacketHeader) -> Result<(), Unfit> {
        self.counters.repeated += 1;
        let flow = &self.flows[header.slot.into()];
        let is_last = u32::from(header.index) + 1 == flow.request.packets();
        match flow.stage {
            ServeStage::Replied if is_last => self.owe(header, RpcPacketKind::Reply, 0),
            _ if is_last => self.owe(header, RpcPacketKind::Running, header.index),
            _ => self.owe(header, RpcPacketKind::Credit, header.index),
        }
    }

    fn on_pull(&mut self, header: &RpcPacketHeader) -> Result<(), Unfit> {
        let flow = &self.flows[header.slot.into()];
        if flow.stage != ServeStage::Replied {
            return Err(Unfit::Stale);
        }
        if header.index == 0 || u32::from(header.index) >= flow.reply.packets() {
            return Err(Unfit::Malformed);
        }
        self.owe(header, RpcPacketKind::Reply, header.index)
    }

    fn owe(&mut self, to: &RpcPacketHeader, kind: RpcPacketKind, index: u16) -> Result<(), Unfit> {
        if self.owed.len() >= self.most_owed {
            return Err(Unfit::Flood);
        }
        self.owed.push_back(OwedPacket { number: to.number, index, slot: to.slot, kind });
        Ok(())
    }

    /// Sends what is owed, as the device allows.
    pub(crate) fn pump<L: SessionLink>(&mut self, link: &mut L) {
        while let Some(owed) = self.owed.front().copied() {
            if self.transmit(link, owed).is_err() {
                return;
            }
            self.owed.pop_front();
        }
    }

    fn transmit<L: SessionLink>(&mut self, link: &mut L, owed: OwedPacket) -> Result<(), LinkBusy> {
        let flow = &self.flows[owed.slot.into()];
        let is_reply = owed.kind == RpcPacketKind::Reply;
        if owed.number != flow.number || is_reply && flow.stage != ServeStage::Replied {
            return Ok(()); // The client has gone on.
        }
        let header = self.setup.header(owed.number, u16::from(owed.slot), owed.kind, owed.index);
        let payload = if is_reply { flow.reply.part(&self.setup.cut, u32::from(owed.index)) } else { &[] };
        link.datagram(&[&header.encode(), payload])?;
        self.counters.sent += 1;
        Ok(())
    }

    /// Replies. The client pulls what is longer than a packet.
    pub(crate) fn send<L: SessionLink>(&mut self, link: &mut L, header: &FrameHeader, body: &[u8], now: Instant) {
        let is_awaited = |flow: &&mut ServeFlow| flow.number == header.number && flow.stage == ServeStage::Running;
        let Some(flow) = self.flows.get_mut(header.slot).filter(is_awaited) else {
            return;
        };
        let handler = flow.arrived_at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        // The client measures the network, and replies have no method.
        let handler_ns = u64::try_from(handler.as_nanos()).unwrap_or(u64::MAX);
        flow.reply.fill(&self.setup.cut, &FrameHeader { method: handler_ns, ..*header }, body);
        flow.stage = ServeStage::Replied;
        let reply = OwedPacket { number: header.number, index: 0, slot: header.slot as u8, kind: RpcPacketKind::Reply };
        if self.transmit(link, reply).is_err() {
            self.owed.push_back(reply);
        }
    }

    /// Takes the next request.
    pub(crate) fn receive(&mut self, body: &mut Vec<u8>) -> Option<FrameHeader> {
        let slot = self.complete.pop_front()?;
        Some(self.flows[slot].request.take(body))
    }
}
