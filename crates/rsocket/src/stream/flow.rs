//! The protocol's state of one connection, once both ends have greeted.

use std::sync::Arc;

use device::{Completion, Payload, Status};

use super::endpoint::{StreamEndpoint, inline};
use super::work::StreamWork;
use crate::errno::Result;
use crate::protocol::ProtocolViolation;
use crate::protocol::buffer::{ByteOrder, PeerBuffer};
use crate::protocol::greeting::StreamGreeting;
use crate::protocol::incoming::ReceiveBuffer;
use crate::protocol::message::StreamMessage;
use crate::protocol::outgoing::SendBudget;
use crate::protocol::ring::BufferRing;
use crate::settings::LOW_WATER;

/// Both directions of a connection.
#[derive(Debug)]
pub(crate) struct StreamFlow {
    endpoint: Arc<StreamEndpoint>,
    pub(super) incoming: ReceiveBuffer,
    pub(super) outgoing: SendBudget,
    pub(super) ring: BufferRing,
    pub(super) peer: StreamPeer,
    /// Receives that were used up and not replaced.
    used: u32,
}

/// The peer's lists.
#[derive(Debug)]
pub(crate) struct StreamPeer {
    pub(super) order: ByteOrder,
    list: PeerBuffer,
    /// The entry that our next free half goes into.
    entry: u32,
    /// Its list of mappings; the length is in entries.
    pub(super) mappings: PeerBuffer,
}

/// The meaning of a completion for the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Meaning {
    /// No consequence.
    Nothing,
    /// The peer sent something.
    Heard,
    /// The peer has stopped sending.
    PeerShut,
    /// The peer has gone.
    PeerGone,
    /// The peer has received our disconnect message.
    SaidGoodbye,
    /// A request failed.
    Failed(Status),
}

impl StreamFlow {
    /// `None` if the greeting is invalid.
    pub(super) fn new(endpoint: &Arc<StreamEndpoint>, greeting: &StreamGreeting) -> Option<StreamFlow> {
        let settings = endpoint.settings();
        let entry = 1u32.checked_rem(greeting.list.len)?;
        let behind = u64::from(greeting.list.len) * PeerBuffer::BYTES as u64;
        let mappings = PeerBuffer {
            addr: greeting.list.addr.wrapping_add(behind),
            key: greeting.list.key,
            len: greeting.mappings.unwrap_or(0).into(),
        };
        Some(StreamFlow {
            endpoint: Arc::clone(endpoint),
            incoming: ReceiveBuffer::new(settings.recv_buffer, settings.recv_queue),
            outgoing: SendBudget::new(settings.send_queue, greeting.buffer, greeting.credits),
            ring: BufferRing::new(settings.send_buffer),
            peer: StreamPeer { order: greeting.order, list: greeting.list, entry, mappings },
            used: 0,
        })
    }

    /// True if a message that needs a credit can be sent.
    pub(super) fn can_send(&mut self) -> bool {
        self.outgoing.can_send() && self.ring.free() >= LOW_WATER
    }

    /// True if data can be sent.
    pub(super) fn can_send_data(&mut self) -> bool {
        if let Some(entry) = self.outgoing.wanted_entry()
            && let Some(buffer) = self.endpoint.take_buffer(entry)
        {
            self.outgoing.refill(buffer);
        }
        self.can_send() && self.outgoing.can_send_data()
    }

    /// A request is done.
    pub(super) fn completed(&mut self, completion: &Completion) -> std::result::Result<Meaning, ProtocolViolation> {
        let failed = completion.status != Status::Success;
        let meaning = match StreamWork::decode(completion.wr_id) {
            StreamWork::Receive if failed => return Ok(Meaning::Nothing),
            StreamWork::Receive => return self.heard(completion.imm.map(StreamMessage::decode)),
            StreamWork::Data(bytes) => {
                self.outgoing.slot_free();
                self.ring.release(bytes);
                Meaning::Nothing
            }
            StreamWork::Control => {
                self.outgoing.control_free();
                Meaning::Nothing
            }
            StreamWork::Disconnect => {
                self.outgoing.control_free();
                Meaning::SaidGoodbye
            }
            StreamWork::Unknown => Meaning::Nothing,
        };
        Ok(if failed { Meaning::Failed(completion.status) } else { meaning })
    }

    fn heard(&mut self, message: Option<StreamMessage>) -> std::result::Result<Meaning, ProtocolViolation> {
        self.used += 1;
        match message {
            Some(StreamMessage::Data(len)) => self.incoming.arrived(len)?,
            Some(StreamMessage::Credit(limit)) => self.outgoing.credit(limit),
            Some(StreamMessage::Iomap(_)) => self.incoming.arrived_empty(),
            Some(StreamMessage::Disconnect) => return Ok(Meaning::PeerGone),
            Some(StreamMessage::Shutdown) => return Ok(Meaning::PeerShut),
            Some(StreamMessage::Keepalive | StreamMessage::Unknown(_)) | None => {}
        }
        Ok(Meaning::Heard)
    }

    /// Replaces the receives that were used up.
    pub(super) fn replenish(&mut self) -> Result<()> {
        match std::mem::take(&mut self.used) {
            0 => Ok(()),
            used => self.endpoint.receive(used),
        }
    }

    /// Tells the peer of credits and a free half of the buffer, if that is due.
    pub(super) fn grant(&mut self) -> Result<()> {
        while self.incoming.is_grant_due() && self.outgoing.take_control() {
            let grant = self.incoming.grant();
            let message = Some(StreamMessage::Credit(grant.limit));
            let (to, payload) = match grant.half {
                Some(offset) => (self.peer.next_entry(), inline(&self.endpoint.half(offset).encode(self.peer.order))),
                None => (PeerBuffer::default(), Payload::empty()),
            };
            self.endpoint.write(StreamWork::Control, to, message, payload)?;
        }
        Ok(())
    }

    /// Sends a control message, for which [`SendBudget::take_control`] was asked.
    pub(super) fn control(&self, message: StreamMessage) -> Result<()> {
        let work = if message == StreamMessage::Disconnect { StreamWork::Disconnect } else { StreamWork::Control };
        self.endpoint.write(work, PeerBuffer::default(), Some(message), Payload::empty())
    }

    /// Probes the peer with a WRITE of zero bytes, which its program does not notice.
    pub(super) fn keep_alive(&mut self) -> Result<()> {
        if !self.outgoing.take_control() {
            return Ok(());
        }
        self.endpoint.write(StreamWork::Control, PeerBuffer::default(), None, Payload::empty())
    }
}

impl StreamPeer {
    /// The entry of the peer's list for our next free half.
    fn next_entry(&mut self) -> PeerBuffer {
        let into = u64::from(self.entry) * PeerBuffer::BYTES as u64;
        self.entry = (self.entry + 1) % self.list.len;
        PeerBuffer { addr: self.list.addr.wrapping_add(into), ..self.list }
    }
}
