//! What happens to ids.

use transport::AddressVector;
use wire::{QKey, Qpn};

use crate::id::Id;

/// What happened, numbered as `enum rdma_cm_event_type`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum EventKind {
    /// The destination's address is resolved, and the id bound to a device.
    AddrResolved = 0,
    /// It could not be.
    AddrError = 1,
    /// The route is resolved: the id may connect.
    RouteResolved = 2,
    /// It could not be.
    RouteError = 3,
    /// Somebody wants to connect: the event's id is a new one.
    ConnectRequest = 4,
    /// The peer has accepted; the caller takes its queue pair to RTS and calls
    /// [`Id::establish`].
    ConnectResponse = 5,
    /// The connection could not be made, for a reason of this side.
    ConnectError = 6,
    /// The peer does not answer.
    Unreachable = 7,
    /// The peer refused; the status is the reason (IB specification 12.6.7.2).
    Rejected = 8,
    /// The connection stands; or, for datagrams, the peer's queue pair is known.
    Established = 9,
    /// The connection ended.
    Disconnected = 10,
    /// The device is gone.
    DeviceRemoval = 11,
    /// The group is joined.
    MulticastJoin = 12,
    /// It could not be, or was left by the network.
    MulticastError = 13,
    /// The address of the id moved to another device.
    AddrChange = 14,
    /// The queue pair's number may be used again.
    TimewaitExit = 15,
    /// What the caller looked up is there ([`Id::post`], as all that follow).
    AddrinfoResolved = 16,
    /// It is not.
    AddrinfoError = 17,
    /// The caller's own.
    User = 18,
}

/// Something that happened to an id.
#[derive(Clone, Debug)]
pub struct Event {
    /// Whose event it is. A [`ConnectRequest`](EventKind::ConnectRequest)'s is the new id, which
    /// goes with its last handle: who drops the event rejects the request.
    pub id: Id,
    /// The listening id of a connect request.
    pub listener: Option<Id>,
    /// What happened.
    pub kind: EventKind,
    /// Zero; a negative errno; or the reason of a rejection, positive.
    pub status: i32,
    /// More about it.
    pub param: Param,
}

/// What comes with an event.
#[derive(Clone, Debug, Default)]
pub enum Param {
    /// Nothing.
    #[default]
    None,
    /// About a connection.
    Conn(ConnParam),
    /// About datagrams or a multicast group.
    Datagram(DatagramParam),
    /// What the poster of an event said ([`Id::post`]).
    Argument(u64),
}

/// Private data, as long as the message's field has room: what the peer did not fill is zero.
pub type PrivateData = Vec<u8>;

/// Parameters of a connection: what a caller wants, or what the peer said.
/// `struct rdma_conn_param`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnParam {
    /// Bytes for the peer's program. At most 56 when connecting, 196 when accepting (for
    /// datagrams: 180 and 136).
    pub private_data: PrivateData,
    /// READs and atomics that this side takes from the peer at a time.
    pub responder_resources: u8,
    /// READs and atomics that this side sends at a time.
    pub initiator_depth: u8,
    /// End-to-end flow control is there.
    pub flow_control: bool,
    /// How often a request is sent again without an answer, 0 to 7.
    pub retry_count: u8,
    /// How often after an RNR NAK, 0 to 7; 7 is for ever.
    pub rnr_retry_count: u8,
    /// The queue pair uses a shared receive queue.
    pub srq: bool,
    /// The queue pair's number.
    pub qpn: Qpn,
    /// Datagrams, accepting only: the queue pair's key if it is not the usual one.
    pub qkey: Option<QKey>,
}

/// Where to send datagrams. `struct rdma_ud_param`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatagramParam {
    /// Bytes from the peer's program.
    pub private_data: PrivateData,
    /// For an address handle.
    pub address: AddressVector,
    /// The peer's queue pair, or [`Qpn::MULTICAST`].
    pub qpn: Qpn,
    /// Its key.
    pub qkey: QKey,
}
