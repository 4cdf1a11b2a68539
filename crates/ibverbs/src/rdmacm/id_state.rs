//! The changing state of an id.

use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::rdmacm::channel::OwnChannel;
use crate::rdmacm::resolver::ResolvedAddresses;
use abi::*;

/// The state of an id that changes.
#[derive(Default)]
pub(super) struct IdState {
    /// The channel that a synchronous id waits on.
    pub(super) own_channel: Option<OwnChannel>,
    /// The record that `path_rec` points to.
    pub(super) path: Option<Box<ibv_sa_path_rec>>,
    /// READs and atomics at a time, as the peer or the program wants it.
    pub(super) depth: Depth,
    /// The queue pair could not be connected, and nothing more is told about that connection.
    pub(super) failed: bool,
    /// The template for queue pairs of its connect requests.
    pub(super) passive: Option<QpTemplate>,
    /// Bytes before the private data of its requests (`ai_connect`).
    pub(super) preamble: Vec<u8>,
    pub(super) groups: Vec<MulticastGroup>,
    pub(super) queues: OwnQueues,
    /// The results of `rdma_resolve_addrinfo`.
    pub(super) answers: Arc<Mutex<ResolvedAddresses>>,
}

/// READs and atomics in flight at the same time.
#[derive(Clone, Copy, Default)]
pub(super) struct Depth {
    /// Requests that this side serves.
    pub(super) responder: u8,
    /// Requests that this side sends.
    pub(super) initiator: u8,
}

/// The template for queue pairs of a listener's connect requests.
pub(super) struct QpTemplate {
    pub(super) pd: *mut ibv_pd,
    pub(super) attr: ibv_qp_init_attr,
}

/// A group that an id is in, or is about to join.
pub(super) struct MulticastGroup {
    pub(super) address: IpAddr,
    /// Shown with the event.
    pub(super) context: *mut c_void,
    /// The id receives datagrams to the group.
    pub(super) receives: bool,
    /// The program has fetched the event of the join.
    pub(super) joined: bool,
    pub(super) attached: bool,
}

/// The completion queues that the library made for an id.
#[derive(Default)]
pub(super) struct OwnQueues {
    pub(super) send: Option<OwnQueue>,
    pub(super) recv: Option<OwnQueue>,
}

#[derive(Clone, Copy)]
pub(super) struct OwnQueue {
    pub(super) cq: *mut ibv_cq,
    pub(super) channel: *mut ibv_comp_channel,
}
