//! The changing state of an id.

use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::abi::*;
use crate::rdmacm::channel::OwnChannel;
use crate::rdmacm::resolver::Answers;

/// The state of an id that changes.
#[derive(Default)]
pub(super) struct IdState {
    /// It is synchronous, and waits on this.
    pub(super) own_channel: Option<OwnChannel>,
    /// What `path_rec` points to.
    pub(super) path: Option<Box<ibv_sa_path_rec>>,
    /// READs and atomics at a time, as the peer or the program wants it.
    pub(super) depth: Depth,
    /// The queue pair could not be connected, and nothing more is told about that connection.
    pub(super) failed: bool,
    /// How queue pairs of its connect requests are made.
    pub(super) passive: Option<QpTemplate>,
    /// What comes before the private data of its requests (`ai_connect`).
    pub(super) preamble: Vec<u8>,
    pub(super) groups: Vec<MulticastGroup>,
    pub(super) queues: OwnQueues,
    /// What `rdma_resolve_addrinfo` found.
    pub(super) answers: Arc<Mutex<Answers>>,
}

/// READs and atomics at a time.
#[derive(Clone, Copy, Default)]
pub(super) struct Depth {
    /// That are answered.
    pub(super) responder: u8,
    /// That are asked.
    pub(super) initiator: u8,
}

/// How queue pairs are made for the connect requests of a listener.
pub(super) struct QpTemplate {
    pub(super) pd: *mut ibv_pd,
    pub(super) attr: ibv_qp_init_attr,
}

/// A group that an id is in, or is about to join.
pub(super) struct MulticastGroup {
    pub(super) address: IpAddr,
    /// Shown with the event.
    pub(super) context: *mut c_void,
    /// What is sent to the group shall be received.
    pub(super) receives: bool,
    /// Its event was fetched.
    pub(super) joined: bool,
    pub(super) attached: bool,
}

/// What the library made for an id.
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
