//! Queue pairs and shared receive queues.

use std::time::Duration;

use device::{Error, PostFailure, SrqId};
use transport::{
    AttrMask, QpAttr, QpCaps, QpCounters, QpState, QpType, Reason, RecvWr, RemoteAddr, SendWr, WriteAtOnce,
};
use wire::{Gid, Qpn};

use crate::cq::Cq;
use crate::memory::Pd;

/// The attributes of a new queue pair.
#[derive(Clone, Copy, Debug)]
pub struct QpSpec<'a> {
    /// Its service.
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

impl<'a> QpSpec<'a> {
    pub(crate) fn longarm(&self) -> Result<device::QpSpec<'a>, Error> {
        Ok(device::QpSpec {
            qp_type: self.qp_type,
            pd: self.pd.longarm()?,
            send_cq: self.send_cq.longarm()?,
            recv_cq: self.recv_cq.longarm()?,
            srq: self.srq.map(Srq::longarm).transpose()?,
            caps: self.caps,
            signal_all: self.signal_all,
        })
    }

    pub(crate) fn verbs(&self) -> Result<verbs::QpSpec<'a>, Error> {
        Ok(verbs::QpSpec {
            qp_type: self.qp_type,
            pd: self.pd.verbs()?,
            send_cq: self.send_cq.verbs()?,
            recv_cq: self.recv_cq.verbs()?,
            srq: self.srq.map(Srq::verbs).transpose()?,
            caps: self.caps,
            signal_all: self.signal_all,
        })
    }
}

/// A queue pair.
#[derive(Clone, Debug)]
pub enum Qp {
    /// Of a device of Longarm.
    Longarm(device::Qp),
    /// Of a device of the system.
    Verbs(verbs::Qp),
}

impl Qp {
    /// Its number.
    #[inline]
    pub fn qpn(&self) -> Qpn {
        either!(self, qp => qp.qpn())
    }

    /// Its service.
    pub fn qp_type(&self) -> QpType {
        either!(self, qp => qp.qp_type())
    }

    /// Its sizes.
    pub fn caps(&self) -> QpCaps {
        either!(self, qp => qp.caps())
    }

    /// Its state; Reset once it was destroyed.
    pub fn state(&self) -> QpState {
        either!(self, qp => qp.state())
    }

    /// Changes attributes and state.
    ///
    /// # Errors
    /// If the device refuses.
    pub fn modify(&self, attr: &QpAttr, mask: AttrMask) -> Result<(), Error> {
        either!(self, qp => qp.modify(attr, mask))
    }

    /// Notes that the connection manager of an iWARP device has made it ready to send.
    pub fn is_connected_by_device(&self) {
        match self {
            Qp::Longarm(_) => {}
            Qp::Verbs(qp) => qp.is_connected_by_device(),
        }
    }

    /// Posts a list of send work requests as one doorbell. The first that is refused ends the list.
    ///
    /// # Errors
    /// See [`PostFailure`].
    #[inline]
    pub fn post_send(&self, wrs: impl IntoIterator<Item = SendWr>) -> Result<(), PostFailure> {
        either!(self, qp => qp.post_send(wrs))
    }

    /// Executes a WRITE of bytes that need not be registered, if that is possible at once. The system's devices cannot.
    #[inline]
    pub fn write_at_once(&self, bytes: &[u8], to: RemoteAddr) -> WriteAtOnce {
        match self {
            Qp::Longarm(qp) => qp.write_at_once(bytes, to),
            Qp::Verbs(_) => WriteAtOnce::Refused,
        }
    }

    /// Executes a READ into bytes that need not be registered, if that is possible at once; with a lock mask that of an object.
    /// The system's devices cannot.
    #[inline]
    pub fn read_at_once(&self, out: &mut [u8], from: RemoteAddr, lock_mask: Option<u64>) -> Option<u32> {
        match self {
            Qp::Longarm(qp) => qp.read_at_once(out, from, lock_mask),
            Qp::Verbs(_) => None,
        }
    }

    /// Posts a list of receive work requests; the first that is refused ends it.
    ///
    /// # Errors
    /// See [`PostFailure`].
    #[inline]
    pub fn post_recv(&self, wrs: impl IntoIterator<Item = RecvWr>) -> Result<(), PostFailure> {
        either!(self, qp => qp.post_recv(wrs))
    }

    /// UD: attaches it to a multicast group.
    ///
    /// # Errors
    /// If the device refuses.
    pub fn attach_multicast(&self, group: Gid) -> Result<(), Error> {
        either!(self, qp => qp.attach_multicast(group))
    }

    /// UD: detaches it from a multicast group.
    ///
    /// # Errors
    /// If the device refuses.
    pub fn detach_multicast(&self, group: Gid) -> Result<(), Error> {
        either!(self, qp => qp.detach_multicast(group))
    }

    /// Fails the queue pair. False: a peer on this host may be in the middle of an access after `patience`. The system's
    /// devices end accesses with the queue pair.
    pub fn cut_off(&self, patience: Duration) -> bool {
        match self {
            Qp::Longarm(qp) => qp.cut_off(patience),
            Qp::Verbs(qp) => {
                let attr = QpAttr { state: QpState::Error, ..QpAttr::default() };
                let _ = qp.modify(&attr, AttrMask::STATE);
                true
            }
        }
    }

    /// The reason of its failure, as far as the device tells.
    pub fn failure(&self) -> Option<Reason> {
        either!(self, qp => qp.failure())
    }

    /// Whether the peer carries out requests of Longarm's own. `None`: no answer of it has told yet.
    pub fn peer_extends(&self) -> Option<bool> {
        either!(self, qp => qp.peer_extends())
    }

    /// Its counters. A device of the system counts nothing.
    pub fn counters(&self) -> QpCounters {
        either!(self, qp => qp.counters())
    }

    /// Destroys it. No access to memory is under way on its behalf when this returns.
    ///
    /// # Errors
    /// If it is destroyed already, or the device refuses.
    pub fn destroy(&self) -> Result<(), Error> {
        either!(self, qp => qp.destroy())
    }
}

/// A shared receive queue.
#[derive(Clone, Debug)]
pub enum Srq {
    /// Of a device of Longarm.
    Longarm(device::Srq),
    /// Of a device of the system.
    Verbs(verbs::Srq),
}

impl Srq {
    /// Its number.
    pub fn id(&self) -> SrqId {
        either!(self, srq => srq.id())
    }

    /// Posts a list of receive work requests; the first that is refused ends it.
    ///
    /// # Errors
    /// See [`PostFailure`].
    #[inline]
    pub fn post(&self, wrs: impl IntoIterator<Item = RecvWr>) -> Result<(), PostFailure> {
        either!(self, srq => srq.post(wrs))
    }

    /// Arms the limit event; zero disarms it.
    ///
    /// # Errors
    /// If the device refuses.
    pub fn modify(&self, limit: u32) -> Result<(), Error> {
        either!(self, srq => srq.modify(limit))
    }

    /// Destroys it, and forgets its work requests.
    ///
    /// # Errors
    /// If queue pairs use it, or the device refuses.
    pub fn destroy(&self) -> Result<(), Error> {
        either!(self, srq => srq.destroy())
    }

    pub(crate) fn longarm(&self) -> Result<&device::Srq, Error> {
        match self {
            Srq::Longarm(srq) => Ok(srq),
            Srq::Verbs(_) => Err(Error::OtherDevice("shared receive queue")),
        }
    }

    pub(crate) fn verbs(&self) -> Result<&verbs::Srq, Error> {
        match self {
            Srq::Verbs(srq) => Ok(srq),
            Srq::Longarm(_) => Err(Error::OtherDevice("shared receive queue")),
        }
    }
}
