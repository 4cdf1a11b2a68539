//! The kinds of events, and their parameters.

use transport::AddressVector;
use wire::{Gid, QKey, Qpn};

/// The kind of an event, numbered as `enum rdma_cm_event_type`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum EventKind {
    /// The destination's address is resolved, and the id bound to a device.
    AddrResolved = 0,
    /// The destination's address could not be resolved.
    AddrError = 1,
    /// The route is resolved: the id may connect.
    RouteResolved = 2,
    /// The route could not be resolved.
    RouteError = 3,
    /// A peer wants to connect: the event's id is a new one.
    ConnectRequest = 4,
    /// The peer has accepted; the caller takes its queue pair to RTS and calls
    /// [`Id::establish`](crate::Id::establish).
    ConnectResponse = 5,
    /// The connection could not be made, for a reason on this side.
    ConnectError = 6,
    /// The peer does not answer.
    Unreachable = 7,
    /// The peer refused; the status is the reason (IB specification 12.6.7.2).
    Rejected = 8,
    /// The connection is established; or, for datagrams, the peer's queue pair is known.
    Established = 9,
    /// The connection ended.
    Disconnected = 10,
    /// The device is gone.
    DeviceRemoval = 11,
    /// The group is joined.
    MulticastJoin = 12,
    /// The group could not be joined, or the network left it.
    MulticastError = 13,
    /// The address of the id moved to another device.
    AddrChange = 14,
    /// The queue pair's number may be used again.
    TimewaitExit = 15,
    /// An address lookup of the caller has succeeded. This kind and the following are
    /// [posted](crate::Id::post) by the caller.
    AddrinfoResolved = 16,
    /// An address lookup of the caller has failed.
    AddrinfoError = 17,
    /// The caller's own.
    User = 18,
}

impl EventKind {
    /// The kind by its number in `enum rdma_cm_event_type`.
    pub fn from_number(number: u32) -> Option<EventKind> {
        use EventKind::*;
        let connections = [
            AddrResolved,
            AddrError,
            RouteResolved,
            RouteError,
            ConnectRequest,
            ConnectResponse,
            ConnectError,
            Unreachable,
            Rejected,
            Established,
            Disconnected,
        ];
        let others = [
            DeviceRemoval,
            MulticastJoin,
            MulticastError,
            AddrChange,
            TimewaitExit,
            AddrinfoResolved,
            AddrinfoError,
            User,
        ];
        connections.into_iter().chain(others).find(|kind| *kind as u32 == number)
    }
}

/// The parameters of an event.
#[derive(Clone, Debug, Default)]
pub enum Param {
    /// Nothing.
    #[default]
    None,
    /// About a connection.
    Conn(ConnParam),
    /// About datagrams or a multicast group.
    Datagram(DatagramParam),
    /// A word of the event's poster ([`Id::post`](crate::Id::post)).
    Argument(u64),
}

/// Private data, as long as the message's field; zero behind the peer's bytes.
pub type PrivateData = Vec<u8>;

/// Parameters of a connection: the caller's, or those that the peer has sent. `struct rdma_conn_param`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnParam {
    /// Bytes for the peer's program. At most 56 when connecting, 196 when accepting (for
    /// datagrams: 180 and 136).
    pub private_data: PrivateData,
    /// READs and atomics that this side accepts at a time.
    pub responder_resources: u8,
    /// READs and atomics that this side sends at a time.
    pub initiator_depth: u8,
    /// Whether there is end-to-end flow control.
    pub flow_control: bool,
    /// Retransmissions after an ACK timeout, 0 to 7.
    pub retry_count: u8,
    /// Retransmissions after an RNR NAK, 0 to 7; 7 means without limit.
    pub rnr_retry_count: u8,
    /// Whether the queue pair uses a shared receive queue.
    pub srq: bool,
    /// The queue pair's number.
    pub qpn: Qpn,
    /// Datagrams, accepting only: the queue pair's key if it is not the usual one.
    pub qkey: Option<QKey>,
}

/// The destination of datagrams. `struct rdma_ud_param`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatagramParam {
    /// Bytes from the peer's program.
    pub private_data: PrivateData,
    /// For an address handle.
    pub address: AddressVector,
    /// The peer's queue pair, or [`Qpn::MULTICAST`].
    pub qpn: Qpn,
    /// The queue pair's key.
    pub qkey: QKey,
}

/// The key of the queue pairs that exchange datagrams, `RDMA_UDP_QKEY`.
pub const UDP_QKEY: QKey = QKey(0x0123_4567);

/// An event without its id.
#[derive(Debug)]
pub(crate) struct EventDetails {
    pub(crate) kind: EventKind,
    pub(crate) status: i32,
    pub(crate) param: Param,
}

impl EventDetails {
    /// With status 0.
    pub(crate) fn new(kind: EventKind, param: Param) -> EventDetails {
        EventDetails { kind, status: 0, param }
    }

    /// Whether it reports that this group was joined.
    pub(crate) fn is_join_of(&self, group: Gid) -> bool {
        let is_of_group =
            |param: &Param| matches!(param, Param::Datagram(joined) if joined.address.destination == group);
        self.kind == EventKind::MulticastJoin && is_of_group(&self.param)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_found_by_its_number() {
        for number in 0..=EventKind::User as u32 {
            assert_eq!(EventKind::from_number(number).map(|kind| kind as u32), Some(number));
        }
        assert_eq!(EventKind::from_number(19), None);
    }
}
