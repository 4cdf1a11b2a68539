//! The state transitions of an id's queue pair.

use device::{AttrMask, QpAttr, QpState};

use crate::boundary::Errno;
use crate::rdmacm::id_object::{IdOwn, of};
use crate::rdmacm::id_state::Depth;
use crate::verbs::context::ContextOwn;
use crate::verbs::qp_attr;
use abi::*;

/// A new queue pair of a connection: receives may be posted.
///
/// # Safety
/// A queue pair that exists.
pub(super) unsafe fn initialize(qp: *mut ibv_qp, own: &IdOwn) -> Result<(), Errno> {
    // SAFETY: the contract of `initialize` includes that of `step`.
    unsafe { step(qp, own, QpState::Init, |_| ()) }
}

/// A new queue pair for datagrams: it may send.
///
/// # Safety
/// A queue pair that exists.
pub(super) unsafe fn initialize_datagrams(qp: *mut ibv_qp, own: &IdOwn) -> Result<(), Errno> {
    let ready = |state| QpAttr { state, ..QpAttr::default() };
    // SAFETY: the contract of `initialize_datagrams` includes that of `step`.
    unsafe {
        step(qp, own, QpState::Init, |_| ())?;
        qp_attr::apply(qp, &ready(QpState::Rtr), AttrMask::STATE)?;
        qp_attr::apply(qp, &ready(QpState::Rts), AttrMask::STATE | AttrMask::SQ_PSN)
    }
}

/// From INIT to RTS, with these READs and atomics at a time, or as many as both sides said.
///
/// # Safety
/// An id that exists, with a queue pair.
pub(super) unsafe fn connect(c: *mut rdma_cm_id, own: &IdOwn, depth: Option<Depth>) -> Result<(), Errno> {
    // SAFETY: the contract of `connect`: an id that exists, with a queue pair.
    unsafe {
        let qp = (*c).qp;
        // INIT once more: the peer's rights are known only now.
        step(qp, own, QpState::Init, |_| ())?;
        step(qp, own, QpState::Rtr, |attr| {
            attr.max_dest_rd_atomic = depth.map_or(attr.max_dest_rd_atomic, |depth| depth.responder);
        })?;
        step(qp, own, QpState::Rts, |attr| {
            attr.max_rd_atomic = depth.map_or(attr.max_rd_atomic, |depth| depth.initiator);
        })
    }
}

/// # Safety
/// A queue pair that exists.
unsafe fn step(qp: *mut ibv_qp, own: &IdOwn, state: QpState, adjust: impl Fn(&mut QpAttr)) -> Result<(), Errno> {
    let (mut attr, mask) = own.id.qp_attr(state)?;
    attr.state = state;
    adjust(&mut attr);
    // SAFETY: the contract of `step`: a queue pair that exists.
    unsafe { qp_attr::apply(qp, &attr, mask) }
}

/// Moves the queue pair to the error state, which flushes posted requests. Does nothing for null.
///
/// # Safety
/// Null, or a queue pair that exists.
pub(super) unsafe fn fail(qp: *mut ibv_qp) -> Result<(), Errno> {
    if qp.is_null() {
        return Ok(());
    }
    let attr = QpAttr { state: QpState::Error, ..QpAttr::default() };
    // SAFETY: the contract of `fail`: null, or a queue pair that exists.
    unsafe { qp_attr::apply(qp, &attr, AttrMask::STATE) }
}

/// `rdma_init_qp_attr(3)`: the attributes that a queue pair of the program's own needs for the state that
/// they name.
///
/// # Safety
/// Null or an id that exists; attributes to read and write, a mask to write.
pub(crate) unsafe extern "C" fn rdma_init_qp_attr(
    c: *mut rdma_cm_id,
    attr: *mut ibv_qp_attr,
    mask: *mut c_int,
) -> c_int {
    crate::boundary::minus_one(|| {
        // SAFETY: the contract of `rdma_init_qp_attr` (see its Safety section).
        unsafe {
            let own = of(c)?;
            let (attr, mask) = (attr.as_mut().ok_or(Errno::INVAL)?, mask.as_mut().ok_or(Errno::INVAL)?);
            let context = ContextOwn::of((*c).verbs)?;
            let state = qp_attr::state(attr.qp_state)?;
            if !matches!(state, QpState::Init | QpState::Rtr | QpState::Rts) {
                return Err(Errno::INVAL);
            }
            let (wanted, which) = own.id.qp_attr(state)?;
            *attr = qp_attr::in_c(context, &wanted);
            attr.qp_state = state as c_int;
            *mask = which.bits() as c_int;
        }
        Ok(0)
    })
}
