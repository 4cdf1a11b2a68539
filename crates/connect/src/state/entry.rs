//! One id.

use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use cm::{ConnId, Ece};
use transport::{AddressVector, Mtu, QpType};
use wire::{Gid, Psn, Qpn};

use crate::id::{Binding, Handle};
use crate::queue::EventQueue;
use crate::space::PortSpace;

/// How far an id is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// Just made.
    Idle,
    /// It has an address.
    Bound,
    /// It takes requests.
    Listening,
    /// The destination's address is known.
    AddrResolved,
    /// It may connect.
    RouteResolved,
    /// The request is under way.
    Connecting,
    /// The peer has accepted, the caller has not confirmed.
    Responded,
    /// The id of a request that the caller has not answered.
    Requested,
    /// The caller has accepted, the peer has not confirmed.
    Accepted,
    /// Both know.
    Established,
    /// It was, or the attempt failed.
    Ended,
}

/// What is known of the peer's end, and of ours as it was agreed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remote {
    /// The peer's queue pair.
    pub(crate) qpn: Qpn,
    /// The first PSN that it wants to receive.
    pub(crate) psn: Psn,
    /// READs and atomics that we take at a time.
    pub(crate) responder_resources: u8,
    /// READs and atomics that we send at a time.
    pub(crate) initiator_depth: u8,
    /// How often we repeat without an answer.
    pub(crate) retry_count: u8,
    /// How often we repeat after an RNR NAK.
    pub(crate) rnr_retry: u8,
    /// Our acknowledge timeout, as a code.
    pub(crate) ack_timeout: u8,
    /// Payload per packet.
    pub(crate) mtu: Mtu,
}

/// What a request of ours asked for that its answer does not repeat.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Asked {
    pub(crate) retry_count: u8,
    /// Only if the caller has set it.
    pub(crate) ack_timeout: Option<u8>,
}

/// An id.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) handle: Weak<Handle>,
    pub(crate) queue: EventQueue,
    pub(crate) space: PortSpace,
    pub(crate) qp_type: QpType,
    pub(crate) phase: Phase,
    pub(crate) local: Option<SocketAddr>,
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) binding: Option<Binding>,
    /// The port's token at the hub.
    pub(crate) token: Option<u64>,
    pub(crate) conn: Option<ConnId>,
    pub(crate) remote: Option<Remote>,
    /// What the request of ours asked for.
    pub(crate) asked: Asked,
    /// The first PSN that we receive; of a datagram socket, that we send.
    pub(crate) psn: Psn,
    pub(crate) backlog: u32,
    pub(crate) flow_label: u32,
    pub(crate) tos: u8,
    pub(crate) reuse: bool,
    pub(crate) v6_only: bool,
    /// Acknowledge timeout that the caller wants, as a code.
    pub(crate) ack_timeout: Option<u8>,
    pub(crate) removal_told: bool,
    /// Vendor options that the caller wants to use, and that the peer does.
    pub(crate) local_ece: Ece,
    pub(crate) remote_ece: Ece,
}

impl Entry {
    pub(crate) fn new(queue: EventQueue, space: PortSpace, qp_type: QpType) -> Entry {
        Entry {
            handle: Weak::new(),
            queue,
            space,
            qp_type,
            phase: Phase::Idle,
            local: None,
            peer: None,
            binding: None,
            token: None,
            conn: None,
            remote: None,
            asked: Asked::default(),
            psn: Psn::new(crate::random::word() as u32),
            backlog: 0,
            flow_label: 0,
            tos: 0,
            reuse: false,
            v6_only: false,
            ack_timeout: None,
            removal_told: false,
            local_ece: Ece::default(),
            remote_ece: Ece::default(),
        }
    }

    pub(crate) fn held_by(mut self, handle: &Arc<Handle>) -> Entry {
        self.handle = Arc::downgrade(handle);
        self
    }

    /// Datagrams: no connection, the peer only tells its number.
    pub(crate) fn is_datagram(&self) -> bool {
        self.qp_type == QpType::Ud
    }

    /// The way to the peer.
    pub(crate) fn path(&self) -> Option<AddressVector> {
        let (binding, peer) = (self.binding.as_ref()?, self.peer?);
        let mut path = AddressVector::new(binding.gid, Gid::from(peer.ip()));
        path.flow_label = self.flow_label;
        path.traffic_class = self.tos;
        Some(path)
    }
}
