//! One queue pair in the engine's table.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use memory::{QuickGuard, QuickMutex};
use transport::{CqSide, QpType, Time};
use wire::Qpn;

use crate::objects::cq::CompletionRing;
use crate::objects::devices::DeviceContext;
use crate::objects::multicast::GroupMember;
use crate::objects::pd::MemoryDomain;
use crate::objects::srq::SharedRecvQueue;
use crate::objects::users::Lease;
use crate::objects::xrc::XrcDomain;
use crate::qp::doorbells::Doorbells;
use crate::qp::state::QueueState;
use crate::shm::datagram::ShmDatagramPeer;
use crate::shm::endpoint::ShmEndpoint;
use crate::wire::destination::{Destination, DestinationShare, TurnWaiter};
use crate::wire::route::PacketRoute;

/// A queue pair in the engine's table. After its queue pair was destroyed, an empty entry may stay on a list for a while.
pub(crate) struct QpEntry {
    qpn: Qpn,
    context: Arc<DeviceContext>,
    cell: QuickMutex<QpCell>,
    state: QueueState,
    /// UD: it receives none of the multicast packets that it sent itself.
    blocks_own_multicast: AtomicBool,
}

/// The part of a queue pair that its lock protects.
pub(crate) struct QpCell {
    /// The queue pair, until it is destroyed.
    pub(crate) live: Option<Live>,
    /// The deadline that the timers have for it, or `Time::NEVER`.
    pub(crate) timer_at: Time,
    pub(crate) doorbells: Doorbells,
    /// The number of turns of the list of deferred frames since it had an ACK to send, while it is on that
    /// list.
    pub(crate) idle_turns: u8,
}

/// A queue pair that exists.
pub(crate) struct Live {
    pub(crate) qp: transport::Qp,
    pub(crate) parents: QpParents,
    /// Its path by shared memory, if its peer is on this host.
    pub(crate) shm: Option<ShmEndpoint>,
    pub(crate) wire: WireState,
    /// UD: the process that its last datagram went to.
    pub(crate) last_peer: Option<ShmDatagramPeer>,
}

/// The wire path's state of a queue pair.
#[derive(Default)]
pub(crate) struct WireState {
    pub(crate) route: Option<PacketRoute>,
    /// Its part of the bytes that all queue pairs may have in flight to its peer's process.
    pub(crate) share: Option<DestinationShare<Arc<QpEntry>>>,
}

/// The path that a queue pair takes to its peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PathKind {
    Wire,
    Shm,
    /// UD: each datagram takes the path to its own destination.
    PerDatagram,
}

/// The objects that a queue pair belongs to. The target of an extended reliable connection belongs to its domain alone.
#[derive(Default)]
pub(crate) struct QpParents {
    _pd: Option<Lease<MemoryDomain>>,
    send_cq: Option<Lease<CompletionRing>>,
    recv_cq: Option<Lease<CompletionRing>>,
    srq: Option<Lease<SharedRecvQueue>>,
    xrcd: Option<Lease<XrcDomain<SharedRecvQueue>>>,
}

impl QpEntry {
    pub(crate) fn new(qpn: Qpn, context: Arc<DeviceContext>, live: Live) -> QpEntry {
        let cell = QpCell { live: Some(live), timer_at: Time::NEVER, doorbells: Doorbells::default(), idle_turns: 0 };
        QpEntry {
            qpn,
            context,
            cell: QuickMutex::new(cell),
            state: QueueState::default(),
            blocks_own_multicast: AtomicBool::new(false),
        }
    }

    #[inline]
    pub(crate) fn qpn(&self) -> Qpn {
        self.qpn
    }

    pub(crate) fn context(&self) -> &DeviceContext {
        &self.context
    }

    #[inline]
    pub(crate) fn lock(&self) -> QuickGuard<'_, QpCell> {
        self.cell.lock()
    }

    /// The lists that it is on, and the right to send for it.
    #[inline]
    pub(crate) fn state(&self) -> &QueueState {
        &self.state
    }

    pub(crate) fn block_own_multicast(&self) {
        self.blocks_own_multicast.store(true, Relaxed);
    }

    /// Whether it receives a multicast packet from this queue pair of this host.
    pub(crate) fn wants_multicast_of(&self, source: Qpn) -> bool {
        source != self.qpn || !self.blocks_own_multicast.load(Relaxed)
    }

    /// Drops its completions from its queues, of which a target of XRC has none.
    pub(crate) fn forget_completions(&self) {
        let cell = self.lock();
        let Some(live) = &cell.live else { return };
        for side in [CqSide::Send, CqSide::Recv] {
            if let Some(cq) = live.parents.cq(side) {
                cq.forget(self.qpn, live.parents.srq.is_some());
            }
        }
    }
}

impl GroupMember for QpEntry {
    fn interface(&self) -> u32 {
        self.context.interface()
    }
}

impl TurnWaiter for Arc<QpEntry> {
    fn becomes_queued(&self) {
        self.state.becomes_queued();
    }

    fn is_not_queued(&self) {
        self.state.is_not_queued();
    }

    fn is_queued(&self) -> bool {
        self.state.is_queued()
    }

    fn is(&self, other: &Arc<QpEntry>) -> bool {
        Arc::ptr_eq(self, other)
    }
}

impl WireState {
    /// Gives its share of a destination back, whose queue pairs may have room then. The caller has the queue pair locked,
    /// so that it cannot wait with a new share before the old one is gone.
    pub(crate) fn leave_destination(&mut self) -> Option<Arc<Destination<Arc<QpEntry>>>> {
        self.share.take().map(|share| share.destination().clone())
    }
}

impl Live {
    pub(crate) fn new(qp: transport::Qp, parents: QpParents) -> Live {
        Live { qp, parents, shm: None, wire: WireState::default(), last_peer: None }
    }

    #[inline]
    pub(crate) fn path(&self) -> PathKind {
        // The endpoint stays after a reset, until the queue pair is connected again.
        debug_assert!(!self.qp.is_shm() || self.shm.is_some(), "a path in shared memory has an endpoint");
        match self.qp.is_shm() {
            true => PathKind::Shm,
            false if self.qp.qp_type() == QpType::Ud => PathKind::PerDatagram,
            false => PathKind::Wire,
        }
    }
}

impl QpParents {
    pub(crate) fn new(
        pd: Lease<MemoryDomain>,
        send_cq: Lease<CompletionRing>,
        recv_cq: Lease<CompletionRing>,
        srq: Option<Lease<SharedRecvQueue>>,
    ) -> QpParents {
        QpParents { _pd: Some(pd), send_cq: Some(send_cq), recv_cq: Some(recv_cq), srq, xrcd: None }
    }

    pub(crate) fn of_xrc_target(xrcd: Lease<XrcDomain<SharedRecvQueue>>) -> QpParents {
        QpParents { xrcd: Some(xrcd), ..QpParents::default() }
    }

    #[inline]
    pub(crate) fn cq(&self, side: CqSide) -> Option<&Arc<CompletionRing>> {
        let cq = match side {
            CqSide::Send => &self.send_cq,
            CqSide::Recv => &self.recv_cq,
        };
        cq.as_ref().map(Lease::object)
    }

    pub(crate) fn srq(&self) -> Option<&SharedRecvQueue> {
        self.srq.as_deref()
    }

    /// XRC target: the shared receive queue of that number in its domain.
    pub(crate) fn xrc_srq(&self, number: u32) -> Option<Arc<SharedRecvQueue>> {
        self.xrcd.as_ref()?.find(number)
    }

    /// Whether any of its completions go to that queue.
    pub(crate) fn uses(&self, cq: &Arc<CompletionRing>) -> bool {
        let mut own = [CqSide::Send, CqSide::Recv].into_iter().filter_map(|side| self.cq(side));
        own.any(|own| Arc::ptr_eq(own, cq))
            || self.xrcd.as_ref().is_some_and(|xrcd| xrcd.any(|srq| srq.completes_to(cq)))
    }
}

impl fmt::Debug for QpEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("QpEntry").field(&self.qpn).finish()
    }
}
