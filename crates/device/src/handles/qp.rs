//! Queue pairs: the handle that callers hold, and the entry that the engine keeps.

use std::sync::Arc;

use transport::{
    AttrMask, Mtu, PdId, QpAttr, QpCaps, QpCounters, QpInit, QpState, QpType, Reason, RecvWr, SendWr, Tuning,
};
use wire::{Gid, Qpn};

use crate::engine::scratch::Scratch;
use crate::engine::{Engine, EngineRef};
use crate::error::{Error, PostFailure};
use crate::handles::cq::Cq;
use crate::handles::pd::Pd;
use crate::handles::srq::Srq;
use crate::handles::xrc::Xrcd;
use crate::objects::devices::Context;
use crate::objects::events::AsyncEvent;
use crate::objects::limits;
use crate::objects::limits::LIMITS;
use crate::qp::entry::{Live, Parents, QpEntry};
use crate::qp::host::Host;
use crate::shm::end::End;

const WHAT: &str = "queue pair";

const NO_QUEUES: QpCaps =
    QpCaps { max_send_wr: 0, max_recv_wr: 0, max_send_sge: 0, max_recv_sge: 0, max_inline_bytes: 0 };

/// What a queue pair is made with.
#[derive(Clone, Copy, Debug)]
pub struct QpSpec<'a> {
    /// Its service. The target of an extended reliable connection is made otherwise:
    /// [`Device::create_xrc_recv_qp`](crate::Device::create_xrc_recv_qp).
    pub qp_type: QpType,
    /// Its protection domain.
    pub pd: &'a Pd,
    /// Where its send completions go.
    pub send_cq: &'a Cq,
    /// Where its receive completions go; may be the same.
    pub recv_cq: &'a Cq,
    /// Where its receive work requests come from, if not from its own queue.
    pub srq: Option<&'a Srq>,
    /// Its sizes.
    pub caps: QpCaps,
    /// Every send completion is reported, as if all were signaled.
    pub signal_all: bool,
}

/// A queue pair. Dropping the last clone destroys it: requests not yet completed never
/// will be, completions already in the queues stay there.
#[derive(Clone, Debug)]
pub struct Qp {
    handle: Arc<Handle>,
}

#[derive(Debug)]
struct Handle {
    engine: EngineRef,
    entry: Arc<QpEntry>,
    qp_type: QpType,
    caps: QpCaps,
}

impl Qp {
    pub(crate) fn new(engine: &EngineRef, context: &Arc<Context>, spec: &QpSpec<'_>) -> Result<Qp, Error> {
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

    pub(crate) fn new_xrc_target(engine: &EngineRef, context: &Arc<Context>, xrcd: &Xrcd) -> Result<Qp, Error> {
        engine.check()?;
        let parents = Parents::of_xrc_target(xrcd.lease(engine)?);
        let init = QpInit {
            qpn: Qpn::default(),
            qp_type: QpType::XrcRecv,
            // Each request brings that of the shared receive queue that it names.
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
    fn enter(engine: &EngineRef, context: &Arc<Context>, init: QpInit, parents: Parents) -> Result<Qp, Error> {
        let make = |qpn: Qpn| {
            let live = Live::new(transport::Qp::new(&QpInit { qpn, ..init }), parents);
            Arc::new(QpEntry::new(qpn, context.clone(), live))
        };
        let made = engine.slots.insert(make, || engine.look_at_wishes());
        let entry = made.ok_or(Error::Exhausted("queue pair number"))?;
        let handle = Handle { engine: engine.clone(), entry, qp_type: init.qp_type, caps: init.caps };
        Ok(Qp { handle: Arc::new(handle) })
    }

    /// Its number, which peers send to.
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
        self.look(transport::Qp::state).unwrap_or(QpState::Reset)
    }

    /// Changes attributes and state. On the way to Reset its completions leave the queues.
    ///
    /// A path MTU above the port's active one is taken over; packets carry what the port does.
    /// [`QpAttr::port_mtu`] need not be filled in.
    ///
    /// # Errors
    /// [`Error::Modify`] if the state table does not allow it.
    pub fn modify(&self, attr: &QpAttr, mask: AttrMask) -> Result<(), Error> {
        self.handle.engine.check()?;
        if mask.contains(AttrMask::STATE) && [QpState::Reset, QpState::Error].contains(&attr.state) {
            self.handle.engine.take_leave();
            self.handle.engine.say_last(&self.handle.entry);
        }
        if mask.contains(AttrMask::STATE) && attr.state == QpState::Rtr {
            self.choose_way(attr);
        }
        let attr = &QpAttr { port_mtu: self.port_mtu(mask), ..*attr };
        self.work(|qp, host| {
            qp.modify(attr, mask, host)?;
            host.shm.inspect(|end| end.learn(qp));
            Ok(())
        })?;
        if mask.contains(AttrMask::STATE) && [QpState::Reset, QpState::Error].contains(&attr.state) {
            self.handle.wait_for_shm_peer();
        }
        if mask.contains(AttrMask::STATE) && attr.state == QpState::Reset {
            self.handle.entry.forget_completions();
            let share = self.handle.entry.lock().live.as_mut().and_then(|live| live.share.take());
            self.handle.engine.leave_destination(share);
        }
        Ok(())
    }

    /// How many send work requests fit now; none once it was destroyed.
    pub fn send_room(&self) -> u32 {
        self.look(transport::Qp::send_room).unwrap_or(0)
    }

    /// Its attributes as they are now; the defaults once it was destroyed.
    pub fn query(&self) -> QpAttr {
        self.look(transport::Qp::query).unwrap_or_default()
    }

    /// Posts a list of send work requests as one doorbell: whatever may leave now leaves
    /// together. The first that is refused ends the list; those before it are posted.
    ///
    /// The list must not use this queue pair while it is being walked.
    ///
    /// # Errors
    /// See [`PostFailure`].
    #[inline]
    pub fn post_send(&self, wrs: impl IntoIterator<Item = SendWr>) -> Result<(), PostFailure> {
        self.post(|engine, entry, scratch| engine.post_send(entry, wrs, scratch))
    }

    /// Posts a list of receive work requests; the first that is refused ends it.
    ///
    /// The list must not use this queue pair while it is being walked.
    ///
    /// # Errors
    /// See [`PostFailure`].
    #[inline]
    pub fn post_recv(&self, wrs: impl IntoIterator<Item = RecvWr>) -> Result<(), PostFailure> {
        self.post(|engine, entry, scratch| engine.post_recv(entry, wrs, scratch))
    }

    /// UD: from now on it receives nothing that it sent to a multicast group itself; other members still do.
    pub fn block_own_multicast(&self) {
        self.handle.entry.block_own_multicast();
    }

    /// UD: joins a multicast group on the device's interface. Its own packets to the group
    /// come back to it, too, unless [`block_own_multicast`](Qp::block_own_multicast) was called.
    ///
    /// # Errors
    /// If it is no UD queue pair, or that is no multicast GID, or the system refuses.
    pub fn attach_multicast(&self, group: Gid) -> Result<(), Error> {
        let Handle { engine, entry, .. } = &*self.handle;
        self.check_multicast()?;
        engine.groups.attach(group, entry, engine.socket())?;
        // Destroyed meanwhile: its groups may have been left before this one was joined.
        if entry.lock().live.is_none() {
            engine.groups.detach_all(entry, engine.socket());
        }
        Ok(())
    }

    /// UD: leaves it.
    ///
    /// # Errors
    /// If it is not attached to that group.
    pub fn detach_multicast(&self, group: Gid) -> Result<(), Error> {
        let Handle { engine, entry, .. } = &*self.handle;
        self.check_multicast()?;
        engine.groups.detach(group, entry, engine.socket())
    }

    /// Whether it is attached to a multicast group.
    pub fn is_in_multicast(&self) -> bool {
        let Handle { engine, entry, qp_type, .. } = &*self.handle;
        *qp_type == QpType::Ud && engine.groups.has(entry)
    }

    /// Why it failed, if it did.
    pub fn failure(&self) -> Option<Reason> {
        self.look(transport::Qp::failure).flatten()
    }

    /// What it has counted; nothing once it was destroyed.
    pub fn counters(&self) -> QpCounters {
        self.look(|qp| *qp.counters()).unwrap_or_default()
    }

    /// Destroys it. When this returns nothing of it is under way: no memory is touched on
    /// its behalf, and no completion is added. Those that are in the queues stay.
    ///
    /// # Errors
    /// [`Error::Destroyed`] if it was destroyed before.
    pub fn destroy(&self) -> Result<(), Error> {
        self.handle.engine.check()?;
        if self.handle.destroy() { Ok(()) } else { Err(Error::Destroyed(WHAT)) }
    }

    /// Decides whether packets go to the peer, or whether it is on this host and reached directly.
    fn choose_way(&self, attr: &QpAttr) {
        let Handle { engine, entry, qp_type, .. } = &*self.handle;
        let end = engine.shm_end(entry, *qp_type, attr);
        if let Some(live) = &mut entry.lock().live
            && matches!(live.qp.state(), QpState::Reset | QpState::Init)
        {
            live.qp.set_shm(end.is_some());
            live.shm = end;
        }
    }

    /// What the port carries now, if somebody asks for a path MTU.
    fn port_mtu(&self, mask: AttrMask) -> Mtu {
        let Handle { engine, entry, .. } = &*self.handle;
        if mask.contains(AttrMask::PATH_MTU) { engine.mtu_of(entry.context()) } else { Mtu::B4096 }
    }

    fn check_multicast(&self) -> Result<(), Error> {
        self.handle.engine.check()?;
        match self.handle.qp_type {
            QpType::Ud => Ok(()),
            _ => Err(Error::Invalid("only UD queue pairs can be attached to a multicast group")),
        }
    }

    /// Something about it; `None` once it was destroyed, and in a forked child.
    fn look<R>(&self, ask: impl FnOnce(&transport::Qp) -> R) -> Option<R> {
        self.handle.engine.check().ok()?;
        self.handle.entry.lock().live.as_ref().map(|live| ask(&live.qp))
    }

    /// Posts something, and does whatever follows from that.
    #[inline]
    fn post(
        &self,
        act: impl FnOnce(&Engine, &Arc<QpEntry>, &mut Scratch) -> Result<(), PostFailure>,
    ) -> Result<(), PostFailure> {
        let Handle { engine, entry, .. } = &*self.handle;
        engine.check().map_err(|error| PostFailure { index: 0, error })?;
        Scratch::with(|scratch| {
            let result = act(engine, entry, scratch);
            engine.pump_touched(scratch);
            engine.settle(scratch);
            result
        })
    }

    /// Does something with it, and whatever follows from that.
    fn work(&self, act: impl FnOnce(&mut transport::Qp, &mut Host<'_>) -> Result<(), Error>) -> Result<(), Error> {
        let Handle { engine, entry, .. } = &*self.handle;
        engine.check()?;
        Scratch::with(|scratch| {
            let result = engine.with_live(entry, scratch, act);
            engine.pump_touched(scratch);
            engine.settle(scratch);
            result.unwrap_or(Err(Error::Destroyed(WHAT)))
        })
    }
}

impl Handle {
    /// Returns when a peer on this host does nothing any more on behalf of a queue pair that it
    /// sees no more.
    fn wait_for_shm_peer(&self) {
        let peer = self.entry.lock().live.as_ref().and_then(|live| live.shm.as_ref().map(End::link));
        if let Some(link) = peer {
            link.wait_for_peer_accesses();
        }
    }

    /// False if it was destroyed before.
    fn destroy(&self) -> bool {
        let Handle { engine, entry, .. } = self;
        if entry.lock().live.as_ref().is_some_and(|live| live.qp.state() != QpState::Reset) {
            if self.qp_type.is_reliable() {
                engine.take_leave();
            }
            engine.say_last(entry);
        }
        let Some(mut live) = entry.lock().live.take() else { return false };
        engine.hide_from_peer(&mut live);
        engine.leave_destination(live.share.take());
        engine.slots.remove(entry.qpn());
        engine.groups.detach_all(entry, engine.socket());
        engine.registry().release_qp(entry.qpn());
        drop(live);
        entry.context().events().forget(|event| matches!(event, AsyncEvent::Qp { qpn, .. } if *qpn == entry.qpn()));
        true
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.engine.check().is_ok() {
            self.destroy();
        }
    }
}

fn parents(engine: &EngineRef, spec: &QpSpec<'_>) -> Result<Parents, Error> {
    Ok(Parents::new(
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

/// What the cookies of a queue pair are drawn from.
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
