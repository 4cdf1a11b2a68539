//! The state of one id.
//!
//! Outside this module: it knows neither the handles of the id nor its event queue.

use std::net::SocketAddr;
use std::sync::Weak;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use cm::{ConnId, Ece};
use transport::{AddressVector, Mtu, QpType};
use wire::{Gid, Psn, Qpn};

use crate::error::Error;
use crate::random;
use crate::space::PortSpace;

/// Identifies an id within its process. Never used twice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct IdKey(pub u64);

/// The device that an id is bound to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Binding {
    /// The device's name.
    pub device: String,
    /// The source GID of packets.
    pub gid: Gid,
    /// The GID's index in the port's table.
    pub gid_index: usize,
    /// Index of the network interface.
    pub interface: u32,
    /// Most payload bytes per packet.
    pub mtu: Mtu,
}

/// The progress of an id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum IdPhase {
    /// New.
    Idle,
    /// It has an address.
    Bound,
    /// It takes requests.
    Listening,
    /// The destination's address is known.
    AddrResolved,
    /// It may connect.
    RouteResolved,
    /// The request was sent.
    Connecting,
    /// The peer has accepted, the caller has not confirmed.
    Responded,
    /// The id of a request that the caller has not answered.
    Requested,
    /// The caller has accepted, the peer has not confirmed.
    Accepted,
    /// Both sides have confirmed.
    Established,
    /// The connection or the attempt has ended.
    Ended,
}

/// The peer's queue pair, and the attributes of ours that both sides have agreed on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerQp {
    pub(crate) qpn: Qpn,
    /// The first PSN that the peer expects.
    pub(crate) psn: Psn,
    /// READs and atomics that we accept at a time.
    pub(crate) responder_resources: u8,
    /// READs and atomics that we send at a time.
    pub(crate) initiator_depth: u8,
    /// Retransmissions after an ACK timeout.
    pub(crate) retry_count: u8,
    /// Retransmissions after an RNR NAK.
    pub(crate) rnr_retry: u8,
    /// Our ACK timeout, as a time code.
    pub(crate) ack_timeout: u8,
    pub(crate) mtu: Mtu,
}

/// Parameters of our request that the peer's reply does not repeat.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct SentParams {
    pub(crate) retry_count: u8,
    /// Only if the caller has set it.
    pub(crate) ack_timeout: Option<u8>,
}

/// The state of an id.
#[derive(Debug)]
pub(crate) struct CmIdState {
    pub(crate) space: PortSpace,
    pub(crate) qp_type: QpType,
    pub(crate) phase: IdPhase,
    pub(crate) local: Option<SocketAddr>,
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) binding: Option<Binding>,
    /// The hub's token for the port.
    pub(crate) token: Option<u64>,
    pub(crate) conn: Option<ConnId>,
    pub(crate) peer_qp: Option<PeerQp>,
    pub(crate) sent: SentParams,
    /// The first PSN that we expect; for datagrams, the first that we send.
    pub(crate) psn: Psn,
    /// Most connect requests that may wait to be fetched.
    pub(crate) backlog: u32,
    /// Connect requests that wait to be fetched. The id's handle owns the count; without a handle there is none.
    pub(crate) unfetched: Weak<AtomicU32>,
    pub(crate) flow_label: u32,
    pub(crate) tos: u8,
    pub(crate) reuse: bool,
    pub(crate) v6_only: bool,
    /// ACK timeout that the caller has set, as a time code.
    pub(crate) ack_timeout: Option<u8>,
    pub(crate) removal_told: bool,
    /// Vendor options of this side.
    pub(crate) local_ece: Ece,
    /// Vendor options of the peer.
    pub(crate) remote_ece: Ece,
}

impl CmIdState {
    pub(crate) fn new(space: PortSpace, qp_type: QpType) -> CmIdState {
        CmIdState {
            space,
            qp_type,
            phase: IdPhase::Idle,
            local: None,
            peer: None,
            binding: None,
            token: None,
            conn: None,
            peer_qp: None,
            sent: SentParams::default(),
            psn: Psn::new(random::word() as u32),
            backlog: 0,
            unfetched: Weak::new(),
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

    /// Whether the id is for datagrams: there is no connection, the peer only tells its queue pair's number.
    pub(crate) fn is_datagram(&self) -> bool {
        self.qp_type == QpType::Ud
    }

    /// The path to the peer, once resolved.
    pub(crate) fn path(&self) -> Option<AddressVector> {
        let (binding, peer) = (self.binding.as_ref()?, self.peer?);
        let mut path = AddressVector::new(binding.gid, Gid::from(peer.ip()));
        path.flow_label = self.flow_label;
        path.traffic_class = self.tos;
        Some(path)
    }

    /// Connect requests that wait to be fetched; `None` if the id's last handle is gone.
    pub(crate) fn unfetched_requests(&self) -> Option<u32> {
        self.unfetched.upgrade().map(|count| count.load(Relaxed))
    }

    /// A connect request waits to be fetched.
    pub(crate) fn count_request(&self) {
        if let Some(count) = self.unfetched.upgrade() {
            count.fetch_add(1, Relaxed);
        }
    }

    /// The addresses of the connection manager's messages.
    pub(crate) fn route(&self) -> Result<cm::MadRoute, Error> {
        let (Some(local), Some(peer), Some(binding)) = (self.local, self.peer, &self.binding) else {
            return Err(Error::State("it has no route"));
        };
        let interface = binding.interface;
        Ok(cm::MadRoute { local: local.ip(), remote: peer.ip(), interface, traffic_class: self.tos })
    }

    pub(crate) fn connection(&self) -> Result<ConnId, Error> {
        self.conn.ok_or(Error::State("it has no connection"))
    }

    /// The connection, if it waits for the confirmation that belongs to `phase`.
    pub(crate) fn unconfirmed(&self, phase: IdPhase) -> Result<ConnId, Error> {
        let conn = self.connection()?;
        match self.phase {
            own if own == phase => Ok(conn),
            IdPhase::Established => Err(Error::Connected),
            _ => Err(Error::State("there is nothing to confirm")),
        }
    }
}
