//! What the engine keeps of a queue pair.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU8, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::SeqCst,
};

use memory::{QuickGuard, QuickMutex};
use transport::{CqSide, Time};
use wire::Qpn;

use crate::objects::cq::CompletionRing;
use crate::objects::devices::Context;
use crate::objects::pd::ProtectionDomain;
use crate::objects::srq::SharedRecvQueue;
use crate::objects::users::Lease;
use crate::objects::xrc::XrcDomain;
use crate::path::datagram::Neighbour;
use crate::schedule::due::Doorbells;
use crate::shm::end::End;
use crate::wire::destination::Share;
use crate::wire::route::Route;

/// Nobody sends for the queue pair.
const IDLE: u8 = 0;
/// Somebody has packets of it staged.
const SENDING: u8 = 1;
/// Likewise, and somebody else would have liked to.
const WANTED: u8 = 2;

/// A queue pair in the engine's table. It stays behind a while after the queue pair was
/// destroyed, empty, if it is still on a list.
pub(crate) struct QpEntry {
    qpn: Qpn,
    context: Arc<Context>,
    cell: QuickMutex<QpCell>,
    /// Who sends: packets of a queue pair leave in the order in which they were built.
    tx: AtomicU8,
    /// An acknowledge or a request was put off.
    due: AtomicBool,
    /// It is on the list of those.
    listed: AtomicBool,
    /// It is in line for room in a lane.
    stalled: AtomicBool,
    /// UD: it receives nothing that it sent to a group itself.
    blocks_own_multicast: AtomicBool,
}

/// What the lock of a queue pair protects.
pub(crate) struct QpCell {
    /// The queue pair, until it is destroyed.
    pub(crate) live: Option<Live>,
    /// The deadline that it is entered with in the timers, or `Time::NEVER`.
    pub(crate) timer_at: Time,
    /// It is on somebody's list of those that may have something to send.
    pub(crate) touched: bool,
    pub(crate) doorbells: Doorbells,
    /// It is on the list of those whose acknowledge to a peer on this host was put off: so many looks
    /// ago for the last time.
    pub(crate) put_off: Option<u8>,
}

/// A queue pair that exists.
pub(crate) struct Live {
    pub(crate) qp: transport::Qp,
    pub(crate) parents: Parents,
    pub(crate) route: Option<Route>,
    /// The way to a peer on this host.
    pub(crate) shm: Option<End>,
    /// Whom its last datagram went to.
    pub(crate) neighbour: Option<Neighbour>,
    /// Its part of what all queue pairs may have in flight to its peer's slot.
    pub(crate) share: Option<Share<Arc<QpEntry>>>,
}

/// What a queue pair belongs to. The target of an extended reliable connection belongs to its
/// domain alone.
#[derive(Default)]
pub(crate) struct Parents {
    _pd: Option<Lease<ProtectionDomain>>,
    send_cq: Option<Lease<CompletionRing>>,
    recv_cq: Option<Lease<CompletionRing>>,
    srq: Option<Lease<SharedRecvQueue>>,
    xrcd: Option<Lease<XrcDomain<SharedRecvQueue>>>,
}

impl QpEntry {
    pub(crate) fn new(qpn: Qpn, context: Arc<Context>, live: Live) -> QpEntry {
        let cell = QpCell {
            live: Some(live),
            timer_at: Time::NEVER,
            touched: false,
            doorbells: Doorbells::default(),
            put_off: None,
        };
        QpEntry {
            qpn,
            context,
            cell: QuickMutex::new(cell),
            tx: AtomicU8::new(IDLE),
            due: AtomicBool::new(false),
            listed: AtomicBool::new(false),
            stalled: AtomicBool::new(false),
            blocks_own_multicast: AtomicBool::new(false),
        }
    }

    #[inline]
    pub(crate) fn qpn(&self) -> Qpn {
        self.qpn
    }

    pub(crate) fn block_own_multicast(&self) {
        self.blocks_own_multicast.store(true, Relaxed);
    }

    /// Whether it wants to receive a multicast packet from this queue pair of this host.
    pub(crate) fn wants_multicast_of(&self, source: Qpn) -> bool {
        source != self.qpn || !self.blocks_own_multicast.load(Relaxed)
    }

    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    #[inline]
    pub(crate) fn lock(&self) -> QuickGuard<'_, QpCell> {
        self.cell.lock()
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

    /// Takes the right to send. If somebody else has it, that one is told to look again
    /// when done, and false returned. Called with the lock held.
    #[inline]
    pub(crate) fn take_tx(&self) -> bool {
        let taken = self.tx.fetch_update(AcqRel, Acquire, |state| Some(if state == IDLE { SENDING } else { WANTED }));
        taken == Ok(IDLE)
    }

    /// Gives the right to send back; true if somebody else wanted it meanwhile.
    #[inline]
    pub(crate) fn release_tx(&self) -> bool {
        self.tx.swap(IDLE, AcqRel) == WANTED
    }

    /// Whether somebody has the right to send.
    pub(crate) fn is_sending(&self) -> bool {
        self.tx.load(Acquire) != IDLE
    }

    /// It waits for room in a lane. True if it must be put in line.
    #[inline]
    pub(crate) fn becomes_stalled(&self) -> bool {
        !self.stalled.swap(true, SeqCst)
    }

    /// It has its turn.
    pub(crate) fn is_not_stalled(&self) {
        self.stalled.store(false, SeqCst);
    }

    /// Whether it is in line.
    pub(crate) fn is_stalled(&self) -> bool {
        self.stalled.load(SeqCst)
    }

    /// Something is put off. True if the entry must be put on the list.
    #[inline]
    pub(crate) fn becomes_due(&self) -> bool {
        self.due.store(true, SeqCst);
        !self.listed.swap(true, SeqCst)
    }

    /// What was put off has left with other packets.
    #[inline]
    pub(crate) fn is_not_due(&self) {
        // A look costs less than a store that others must see at once.
        if self.due.load(SeqCst) {
            self.due.store(false, SeqCst);
        }
    }

    /// The entry is off the list. True if what was put off is still to be sent.
    #[inline]
    pub(crate) fn take_due(&self) -> bool {
        self.listed.store(false, SeqCst);
        self.due.swap(false, SeqCst)
    }
}

impl Live {
    pub(crate) fn new(qp: transport::Qp, parents: Parents) -> Live {
        Live { qp, parents, route: None, shm: None, neighbour: None, share: None }
    }
}

impl Parents {
    pub(crate) fn new(
        pd: Lease<ProtectionDomain>,
        send_cq: Lease<CompletionRing>,
        recv_cq: Lease<CompletionRing>,
        srq: Option<Lease<SharedRecvQueue>>,
    ) -> Parents {
        Parents { _pd: Some(pd), send_cq: Some(send_cq), recv_cq: Some(recv_cq), srq, xrcd: None }
    }

    pub(crate) fn of_xrc_target(xrcd: Lease<XrcDomain<SharedRecvQueue>>) -> Parents {
        Parents { xrcd: Some(xrcd), ..Parents::default() }
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

    pub(crate) fn uses(&self, cq: &Arc<CompletionRing>) -> bool {
        let own = [CqSide::Send, CqSide::Recv].into_iter().filter_map(|side| self.cq(side));
        own.into_iter().any(|own| Arc::ptr_eq(own, cq))
            || self.xrcd.as_ref().is_some_and(|xrcd| xrcd.any(|srq| srq.completes_to(cq)))
    }
}

impl fmt::Debug for QpEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("QpEntry").field(&self.qpn).finish()
    }
}
