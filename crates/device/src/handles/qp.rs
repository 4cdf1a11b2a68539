//! Queue pairs.

use std::sync::Arc;
use std::time::Duration;

use transport::{
    AttrMask, Mtu, PdId, QpAttr, QpCaps, QpCounters, QpInit, QpState, QpType, Reason, RecvWr, RemoteAddr, SendWr,
    Tuning, WriteAtOnce,
};
use wire::{Gid, Qpn};

use crate::engine::EngineRef;
use crate::engine::scratch::ThreadScratch;
use crate::error::{Error, PostFailure};
use crate::handles::cq::Cq;
use crate::handles::pd::Pd;
use crate::handles::srq::Srq;
use crate::handles::xrc::Xrcd;
use crate::objects::devices::DeviceContext;
use crate::objects::events::AsyncEvent;
use crate::objects::limits::{self, LIMITS};
use crate::qp::entry::{Live, QpEntry, QpParents};
use crate::qp::host::QpHost;
use crate::schedule::background;
use crate::shm::endpoint::ShmEndpoint;
use crate::wire::destination::Destination;

const WHAT: &str = "queue pair";

const NO_QUEUES: QpCaps =
    QpCaps { max_send_wr: 0, max_recv_wr: 0, max_send_sge: 0, max_recv_sge: 0, max_inline_bytes: 0 };

/// The attributes of a new queue pair.
#[derive(Clone, Copy, Debug)]
pub struct QpSpec<'a> {
    /// Its service. [`Device::create_xrc_recv_qp`](crate::Device::create_xrc_recv_qp) makes the target of an extended
    /// reliable connection instead.
    pub qp_type: QpType,
    /// Its protection domain.
    pub pd: &'a Pd,
    /// The queue for its send completions.
    pub send_cq: &'a Cq,
    /// The queue for its receive completions; may be the same.
    pub recv_cq: &'a Cq,
    /// The queue that its receive work requests come from, if not its own.
    pub srq: Option<&'a Srq>,
    /// Its sizes.
    pub caps: QpCaps,
    /// Whether every send request completes with a completion, as if it were signaled.
    pub signal_all: bool,
}

/// A queue pair. Dropping the last clone destroys it: requests that have not completed never
/// will, and completions in the queues stay there.
#[derive(Clone, Debug)]
pub struct Qp {
    handle: Arc<QpHandle>,
}

#[derive(Debug)]
struct QpHandle {
    engine: EngineRef,
    entry: Arc<QpEntry>,
    qp_type: QpType,
    caps: QpCaps,
}

impl Qp {
    pub(crate) fn new(engine: &EngineRef, context: &Arc<DeviceContext>, spec: &QpSpec<'_>) -> Result<Qp, Error> {
        engine.check()?;
        check_caps(&spec.caps)?;
        let parents = match spec.qp_type {
            QpType::XrcRecv => return Err(Error::Invalid("an XRC target is made in an XRC domain")),
            QpType::XrcSend if spec.srq.is_some() => return Err(Error::Invalid("an XRC initiator receives nothing")),
            _ => parents(engine, spec)?,
        };
        let init = QpInit {
            qpn: Qpn::default(),
            qp_type: spec.qp_type,
            pd: spec.pd.id(),
            caps: caps(spec),
            signal_all: spec.signal_all,
            shared_recv: spec.srq.map(Srq::pd),
            tuning: Tuning { max_datagram: engine.mtu_of(context), ..engine.tuning() },
            secret: secret()?,
        };
        Qp::enter(engine, context, init, parents)
    }

    pub(crate) fn new_xrc_target(engine: &EngineRef, context: &Arc<DeviceContext>, xrcd: &Xrcd) -> Result<Qp, Error> {
        engine.check()?;
        let parents = QpParents::of_xrc_target(xrcd.lease(engine)?);
        let init = QpInit {
            qpn: Qpn::default(),
            qp_type: QpType::XrcRecv,
            // Each request uses the domain of the shared receive queue that it names.
            pd: PdId::default(),
            caps: NO_QUEUES,
            signal_all: false,
            shared_recv: Some(PdId::default()),
            tuning: engine.tuning(),
            secret: secret()?,
        };
        Qp::enter(engine, context, init, parents)
    }

    /// Gives a queue pair its number and enters it in the table.
    fn enter(engine: &EngineRef, context: &Arc<DeviceContext>, init: QpInit, parents: QpParents) -> Result<Qp, Error> {
        let make = |qpn: Qpn| {
            let live = Live::new(transport::Qp::new(&QpInit { qpn, ..init }), parents);
            Arc::new(QpEntry::new(qpn, context.clone(), live))
        };
        let may_wait = !background::is_this_thread();
        let ask = || engine.schedule.background.ask_hub();
        let made = engine.services.slots.insert(make, may_wait, ask);
        let entry = made.ok_or(Error::Exhausted("queue pair number"))?;
        let handle = QpHandle { engine: engine.clone(), entry, qp_type: init.qp_type, caps: init.caps };
        Ok(Qp { handle: Arc::new(handle) })
    }

    /// Its number.
    pub fn qpn(&self) -> Qpn {
        self.handle.entry.qpn()
    }

    /// Its service.
    pub fn qp_type(&self) -> QpType {
        self.handle.qp_type
    }

    /// Its sizes.
    pub fn caps(&self) -> QpCaps {
        self.handle.caps
    }

    /// Its state; Reset once it was destroyed.
    pub fn state(&self) -> QpState {
        self.ask(transport::Qp::state).unwrap_or(QpState::Reset)
    }

    /// Changes attributes and state. A change to Reset removes its completions from the queues.
    ///
    /// A path MTU above the port's active one is accepted; packets are no longer than the port allows.
    /// [`QpAttr::port_mtu`] need not be filled in.
    ///
    /// # Errors
    /// [`Error::Modify`] if the state table does not allow it.
    pub fn modify(&self, attr: &QpAttr, mask: AttrMask) -> Result<(), Error> {
        self.handle.engine.check()?;
        if mask.contains(AttrMask::STATE) && [QpState::Reset, QpState::Error].contains(&attr.state) {
            self.handle.engine.drain();
            self.handle.engine.drain_qp(&self.handle.entry);
        }
        if mask.contains(AttrMask::STATE) && attr.state == QpState::Rtr {
            self.choose_path(attr);
        }
        let attr = &QpAttr { port_mtu: self.port_mtu(mask), ..*attr };
        self.work(|qp, host| {
            qp.modify(attr, mask, host)?;
            host.endpoint().inspect(|endpoint| endpoint.learn(qp));
            Ok(())
        })?;
        if mask.contains(AttrMask::STATE) && [QpState::Reset, QpState::Error].contains(&attr.state) {
            self.handle.wait_for_shm_peer();
        }
        if mask.contains(AttrMask::STATE) && attr.state == QpState::Reset {
            self.handle.entry.forget_completions();
            let destination = self.handle.entry.lock().live.as_mut().and_then(|live| live.wire.leave_destination());
            self.handle.grant_turns(destination);
        }
        Ok(())
    }

    /// The number of send work requests that fit now; 0 once it was destroyed.
    pub fn send_room(&self) -> u32 {
        self.ask(transport::Qp::send_room).unwrap_or(0)
    }

    /// Its attributes as they are now; the defaults once it was destroyed.
    pub fn query(&self) -> QpAttr {
        self.ask(transport::Qp::query).unwrap_or_default()
    }

    /// Posts a list of send work requests as one doorbell: requests that may leave now leave
    /// together. The first that is refused ends the list; those before it are posted.
    ///
    /// The list must not use this queue pair while the call walks it.
    ///
    /// # Errors
    /// See [`PostFailure`].
    #[inline]
    pub fn post_send(&self, wrs: impl IntoIterator<Item = SendWr>) -> Result<(), PostFailure> {
        let QpHandle { engine, entry, .. } = &*self.handle;
        engine.check().map_err(|error| PostFailure { index: 0, error })?;
        engine.with_scratch(|scratch| engine.post_send(entry, wrs, scratch))
    }

    /// Executes a WRITE of bytes that need not be registered, if that is possible at once: the peer is on this host,
    /// its memory is mapped here, and nothing is before it. It has no completion.
    pub fn write_at_once(&self, bytes: &[u8], to: RemoteAddr) -> WriteAtOnce {
        let QpHandle { engine, entry, .. } = &*self.handle;
        if engine.check().is_err() {
            return WriteAtOnce::Refused;
        }
        engine.with_scratch(|scratch| engine.write_at_once(entry, bytes, to, scratch))
    }

    /// Executes a READ into bytes that need not be registered, if that is possible at once: the peer is on this host, its memory
    /// is mapped here, and nothing is before it. With a lock mask it reads an object at one moment (docs/extensions.md). It has no
    /// completion. Returns the bytes that it took: 8 of an object that is busy.
    #[inline]
    pub fn read_at_once(&self, out: &mut [u8], from: RemoteAddr, lock_mask: Option<u64>) -> Option<u32> {
        let QpHandle { engine, entry, .. } = &*self.handle;
        engine.check().ok()?;
        engine.with_scratch(|scratch| engine.read_at_once(entry, out, (from, lock_mask), scratch))
    }

    /// Posts a list of receive work requests; the first that is refused ends it.
    ///
    /// The list must not use this queue pair while the call walks it.
    ///
    /// # Errors
    /// See [`PostFailure`].
    #[inline]
    pub fn post_recv(&self, wrs: impl IntoIterator<Item = RecvWr>) -> Result<(), PostFailure> {
        let QpHandle { engine, entry, .. } = &*self.handle;
        engine.check().map_err(|error| PostFailure { index: 0, error })?;
        engine.with_scratch(|scratch| engine.post_recv(entry, wrs, scratch))
    }

    /// UD: from now on it does not receive its own multicast packets. Other members of the group still do.
    pub fn block_own_multicast(&self) {
        self.handle.entry.block_own_multicast();
    }

    /// UD: attaches it to a multicast group on the device's interface. It receives its own packets to the group as well,
    /// unless [`block_own_multicast`](Qp::block_own_multicast) was called.
    ///
    /// # Errors
    /// If it is not a UD queue pair, or that is not a multicast GID, or the system refuses.
    pub fn attach_multicast(&self, group: Gid) -> Result<(), Error> {
        let QpHandle { engine, entry, .. } = &*self.handle;
        self.check_multicast()?;
        engine.services.groups.attach(group, entry, engine.multicast_socket())?;
        // If it was destroyed meanwhile, that has not detached it from this group.
        if entry.lock().live.is_none() {
            engine.services.groups.detach_all(entry, engine.multicast_socket());
        }
        Ok(())
    }

    /// UD: detaches it from a multicast group.
    ///
    /// # Errors
    /// If it is not attached to that group.
    pub fn detach_multicast(&self, group: Gid) -> Result<(), Error> {
        let QpHandle { engine, entry, .. } = &*self.handle;
        self.check_multicast()?;
        engine.services.groups.detach(group, entry, engine.multicast_socket())
    }

    /// Whether it is attached to a multicast group.
    pub fn is_in_multicast(&self) -> bool {
        let QpHandle { engine, entry, qp_type, .. } = &*self.handle;
        *qp_type == QpType::Ud && engine.services.groups.has(entry)
    }

    /// The reason of its failure, if it has failed.
    pub fn failure(&self) -> Option<Reason> {
        self.ask(transport::Qp::failure).flatten()
    }

    /// Fails the queue pair, so that the peer begins no further access to this process' memory. Then waits until accesses
    /// of a peer on this host have ended that are under way, for `patience` at most. False: one may go on, of a process that
    /// stands still in it. [`modify`](Qp::modify) would wait for half a minute.
    pub fn cut_off(&self, patience: Duration) -> bool {
        let QpHandle { engine, entry, .. } = &*self.handle;
        engine.drain();
        engine.drain_qp(entry);
        let attr = QpAttr { state: QpState::Error, ..QpAttr::default() };
        // One that was destroyed, or has failed, lets nobody in.
        let _ = self.work(|qp, host| Ok(qp.modify(&attr, AttrMask::STATE, host)?));
        let link = entry.lock().live.as_ref().and_then(|live| live.shm.as_ref()).map(ShmEndpoint::link);
        link.is_none_or(|link| link.peer_accesses_end_within(patience))
    }

    /// Its counters; all zero once it was destroyed.
    pub fn counters(&self) -> QpCounters {
        self.ask(|qp| *qp.counters()).unwrap_or_default()
    }

    /// Whether the peer carries out requests of Longarm's own. `None`: no answer of it has told yet.
    pub fn peer_extends(&self) -> Option<bool> {
        self.ask(transport::Qp::peer_extends).unwrap_or(Some(false))
    }

    /// Destroys it. When this returns, no access to memory is under way on its behalf, and no completion is added any
    /// more. Completions in the queues stay there.
    ///
    /// # Errors
    /// [`Error::Destroyed`] if it is destroyed already.
    pub fn destroy(&self) -> Result<(), Error> {
        self.handle.engine.check()?;
        if self.handle.destroy() { Ok(()) } else { Err(Error::Destroyed(WHAT)) }
    }

    /// Chooses the path to the peer: the wire, or shared memory if the peer is on this host.
    fn choose_path(&self, attr: &QpAttr) {
        let QpHandle { engine, entry, qp_type, .. } = &*self.handle;
        let endpoint = engine.shm_endpoint(entry, *qp_type, attr);
        if let Some(live) = &mut entry.lock().live
            && matches!(live.qp.state(), QpState::Reset | QpState::Init)
        {
            live.qp.set_shm(endpoint.is_some());
            live.shm = endpoint;
        }
    }

    /// The port's present MTU, if the call sets a path MTU.
    fn port_mtu(&self, mask: AttrMask) -> Mtu {
        let QpHandle { engine, entry, .. } = &*self.handle;
        if mask.contains(AttrMask::PATH_MTU) { engine.mtu_of(entry.context()) } else { Mtu::B4096 }
    }

    fn check_multicast(&self) -> Result<(), Error> {
        self.handle.engine.check()?;
        match self.handle.qp_type {
            QpType::Ud => Ok(()),
            _ => Err(Error::Invalid("only UD queue pairs can be attached to a multicast group")),
        }
    }

    /// Asks the queue pair; `None` once it was destroyed, and in a forked child.
    fn ask<R>(&self, ask: impl FnOnce(&transport::Qp) -> R) -> Option<R> {
        self.handle.engine.check().ok()?;
        self.handle.entry.lock().live.as_ref().map(|live| ask(&live.qp))
    }

    /// Calls `act` with the queue pair locked, and carries out the consequences.
    fn work(&self, act: impl FnOnce(&mut transport::Qp, &mut QpHost<'_>) -> Result<(), Error>) -> Result<(), Error> {
        let QpHandle { engine, entry, .. } = &*self.handle;
        engine.check()?;
        engine.with_scratch(|scratch: &mut ThreadScratch| engine.with_live(entry, scratch, act))?
    }
}

impl QpHandle {
    /// Waits until a peer on this host has ended its accesses on behalf of a queue pair that it does not see any more.
    fn wait_for_shm_peer(&self) {
        let link = self.entry.lock().live.as_ref().and_then(|live| live.shm.as_ref()).map(ShmEndpoint::link);
        if let Some(link) = link {
            link.wait_for_peer_accesses();
        }
    }

    /// Destroys the queue pair. False if it is destroyed already.
    fn destroy(&self) -> bool {
        let QpHandle { engine, entry, .. } = self;
        if entry.lock().live.as_ref().is_some_and(|live| live.qp.state() != QpState::Reset) {
            if self.qp_type.is_reliable() {
                engine.drain();
            }
            engine.drain_qp(entry);
        }
        let Some(mut live) = entry.lock().live.take() else { return false };
        if let Some(shm) = &engine.shm {
            shm.hide(&mut live);
        }
        self.grant_turns(live.wire.leave_destination());
        engine.services.slots.remove(entry.qpn());
        engine.services.groups.detach_all(entry, engine.multicast_socket());
        engine.registry().release_qp(entry.qpn());
        drop(live);
        entry.context().events().forget(|event| matches!(event, AsyncEvent::Qp { qpn, .. } if *qpn == entry.qpn()));
        true
    }

    /// Lets other queue pairs use the room at a destination that this one has left.
    fn grant_turns(&self, destination: Option<Arc<Destination<Arc<QpEntry>>>>) {
        if let Some(destination) = destination {
            self.engine.schedule.grant_turns(&destination);
        }
    }
}

impl Drop for QpHandle {
    fn drop(&mut self) {
        if self.engine.check().is_ok() {
            self.destroy();
        }
    }
}

fn parents(engine: &EngineRef, spec: &QpSpec<'_>) -> Result<QpParents, Error> {
    Ok(QpParents::new(
        spec.pd.lease(engine)?,
        spec.send_cq.lease(engine)?,
        spec.recv_cq.lease(engine)?,
        spec.srq.map(|srq| srq.lease(engine)).transpose()?,
    ))
}

/// An XRC initiator has no receive queue.
fn caps(spec: &QpSpec<'_>) -> QpCaps {
    match spec.qp_type {
        QpType::XrcSend => QpCaps { max_recv_wr: 0, max_recv_sge: 0, ..spec.caps },
        _ => spec.caps,
    }
}

/// The random number that the cookies of a queue pair are derived from.
fn secret() -> Result<u64, Error> {
    let mut random = [0; 8];
    match rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty()) {
        Ok(8) => Ok(u64::from_ne_bytes(random)),
        _ => Err(Error::Exhausted("random number")),
    }
}

fn check_caps(caps: &QpCaps) -> Result<(), Error> {
    limits::check("send queue size", caps.max_send_wr, LIMITS.max_qp_wr)?;
    limits::check("receive queue size", caps.max_recv_wr, LIMITS.max_qp_wr)?;
    limits::check("scatter/gather list length", caps.max_send_sge, LIMITS.max_sge)?;
    limits::check("scatter/gather list length", caps.max_recv_sge, LIMITS.max_sge)?;
    limits::check("inline data size", caps.max_inline_bytes, LIMITS.max_inline_bytes)
}
