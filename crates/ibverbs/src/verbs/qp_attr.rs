//! Modifying and querying queue pairs.

use device::{Access, AttrMask, Mtu, Psn, QKey, QpAttr, QpState, QpType, Qpn};

use crate::boundary::{Errno, errno};
use crate::verbs::address;
use crate::verbs::context::ContextOwn;
use crate::verbs::qp_object::{QpObject, QpOwn};
use abi::*;

/// `ibv_modify_qp(3)`.
///
/// # Safety
/// A queue pair that exists and readable attributes.
pub(crate) unsafe extern "C" fn ibv_modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> c_int {
    errno(|| {
        // SAFETY: the contract of `ibv_modify_qp`: a queue pair that exists and readable attributes.
        let (own, context, attr) = unsafe {
            let own = QpObject::of(qp)?;
            (own, ContextOwn::of((*qp).context)?, attr.as_ref().ok_or(Errno::INVAL)?)
        };
        let mask = AttrMask::from_bits(mask as u32).ok_or(Errno::INVAL)? - unused_attributes(own.qp.qp_type());
        let wanted = wanted(context, attr, mask)?;
        // SAFETY: the contract of `ibv_modify_qp`: a queue pair that exists and readable attributes.
        unsafe { apply(qp, &wanted, mask) }
    })
}

/// Modifies it; the structure shows its state.
///
/// # Safety
/// A queue pair that exists.
pub(crate) unsafe fn apply(qp: *mut ibv_qp, wanted: &QpAttr, mask: AttrMask) -> Result<(), Errno> {
    // SAFETY: the contract of `apply`: a queue pair that exists.
    unsafe {
        let own = QpObject::of(qp)?;
        own.qp.modify(wanted, mask - unused_attributes(own.qp.qp_type()))?;
        (&raw mut (*qp).state).write(own.qp.state() as c_int);
    }
    Ok(())
}

/// Attributes that one end of an XRC connection does not use, though programs name them. The
/// kernel drops them before its checks (`modify_qp_mask`).
fn unused_attributes(qp_type: QpType) -> AttrMask {
    match qp_type {
        QpType::XrcSend => AttrMask::MAX_DEST_RD_ATOMIC | AttrMask::MIN_RNR_TIMER,
        QpType::XrcRecv => AttrMask::MAX_QP_RD_ATOMIC | AttrMask::RETRY_CNT | AttrMask::RNR_RETRY,
        _ => AttrMask::empty(),
    }
}

/// The attributes that the mask names, as the device takes them.
fn wanted(context: &ContextOwn, attr: &ibv_qp_attr, mask: AttrMask) -> Result<QpAttr, Errno> {
    let mut wanted = QpAttr::default();
    if mask.contains(AttrMask::STATE) {
        wanted.state = state(attr.qp_state)?;
    }
    if mask.contains(AttrMask::CUR_STATE) {
        wanted.current_state = state(attr.cur_qp_state)?;
    }
    if mask.contains(AttrMask::ACCESS_FLAGS) {
        // Flags of regions mean nothing for a queue pair.
        wanted.access = Access::from_bits_truncate(attr.qp_access_flags);
    }
    if mask.contains(AttrMask::AV) {
        wanted.address = address::vector(context, &attr.ah_attr)?;
    }
    if mask.contains(AttrMask::PATH_MTU) {
        // Up to the port's maximum, as with rxe and mlx5: a port carries no longer packets.
        wanted.path_mtu = mtu(attr.path_mtu)?;
    }
    if mask.contains(AttrMask::DEST_QPN) {
        wanted.dest_qpn = Qpn::new(attr.dest_qp_num);
    }
    let max_rd_atomic = context.device.limits().max_rd_atomic;
    let too_many = |flag, asked| mask.contains(flag) && asked > max_rd_atomic;
    if too_many(AttrMask::MAX_QP_RD_ATOMIC, attr.max_rd_atomic)
        || too_many(AttrMask::MAX_DEST_RD_ATOMIC, attr.max_dest_rd_atomic)
    {
        return Err(Errno::INVAL);
    }
    wanted.notify_drained = attr.en_sqd_async_notify != 0;
    wanted.pkey_index = attr.pkey_index;
    wanted.port = attr.port_num;
    wanted.qkey = QKey(attr.qkey);
    wanted.timeout = attr.timeout;
    wanted.retry_count = attr.retry_cnt;
    wanted.rnr_retry = attr.rnr_retry;
    wanted.rq_psn = Psn::new(attr.rq_psn);
    wanted.sq_psn = Psn::new(attr.sq_psn);
    wanted.max_rd_atomic = attr.max_rd_atomic;
    wanted.max_dest_rd_atomic = attr.max_dest_rd_atomic;
    wanted.min_rnr_timer = attr.min_rnr_timer;
    Ok(wanted)
}

/// A state by its number.
pub(crate) fn state(number: c_int) -> Result<QpState, Errno> {
    use QpState::{Error, Init, Reset, Rtr, Rts, Sqd, Sqe};
    [Reset, Init, Rtr, Rts, Sqd, Sqe, Error].into_iter().find(|state| *state as c_int == number).ok_or(Errno::INVAL)
}

fn mtu(number: c_int) -> Result<Mtu, Errno> {
    Mtu::ALL.into_iter().find(|mtu| *mtu as c_int == number).ok_or(Errno::INVAL)
}

/// `ibv_query_qp(3)`. The mask is a hint: all attributes are reported.
///
/// # Safety
/// A queue pair that exists, and places for the answer.
pub(crate) unsafe extern "C" fn ibv_query_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    _mask: c_int,
    init: *mut ibv_qp_init_attr,
) -> c_int {
    errno(|| {
        // SAFETY: the contract of `ibv_query_qp`: a queue pair that exists, and places for the answer.
        unsafe {
            let own = QpObject::of(qp)?;
            let context = ContextOwn::of((*qp).context)?;
            let attr = attr.as_mut().ok_or(Errno::INVAL)?;
            *attr = describe(context, own);
            (&raw mut (*qp).state).write(attr.qp_state);
            if let Some(init) = init.as_mut() {
                *init = made_with(&*qp, own);
            }
        }
        Ok(())
    })
}

fn describe(context: &ContextOwn, own: &QpOwn) -> ibv_qp_attr {
    let current = own.qp.query();
    let mut attr = in_c(context, &current);
    attr.qp_state = current.state as c_int;
    attr.cur_qp_state = current.state as c_int;
    attr.cap = caps(own);
    attr.en_sqd_async_notify = current.notify_drained.into();
    attr.sq_draining = current.draining.into();
    attr
}

/// The attributes of the device in C's structure. States, sizes and draining are left zero.
pub(crate) fn in_c(context: &ContextOwn, device: &QpAttr) -> ibv_qp_attr {
    let mut attr = ibv_qp_attr::zeroed();
    attr.path_mtu = device.path_mtu as c_int;
    attr.qkey = device.qkey.0;
    attr.rq_psn = device.rq_psn.get();
    attr.sq_psn = device.sq_psn.get();
    attr.dest_qp_num = device.dest_qpn.get();
    attr.qp_access_flags = device.access.bits();
    attr.ah_attr = address::attr_of(context, &device.address);
    attr.pkey_index = device.pkey_index;
    attr.port_num = device.port;
    attr.max_rd_atomic = device.max_rd_atomic;
    attr.max_dest_rd_atomic = device.max_dest_rd_atomic;
    attr.min_rnr_timer = device.min_rnr_timer;
    attr.timeout = device.timeout;
    attr.retry_cnt = device.retry_count;
    attr.rnr_retry = device.rnr_retry;
    attr
}

fn caps(own: &QpOwn) -> ibv_qp_cap {
    ibv_qp_cap {
        max_send_wr: own.caps.max_send_wr,
        max_recv_wr: own.caps.max_recv_wr,
        max_send_sge: own.caps.max_send_sge,
        max_recv_sge: own.caps.max_recv_sge,
        max_inline_data: own.caps.max_inline_bytes,
    }
}

fn made_with(qp: &ibv_qp, own: &QpOwn) -> ibv_qp_init_attr {
    ibv_qp_init_attr {
        qp_context: qp.qp_context,
        send_cq: qp.send_cq,
        recv_cq: qp.recv_cq,
        srq: qp.srq,
        cap: caps(own),
        qp_type: qp.qp_type,
        sq_sig_all: own.signal_all.into(),
    }
}

/// `ibv_query_qp_data_in_order(3)`: whether the bytes of a message appear in order. They do not
/// always: a lost packet is not waited for by those of the next message.
pub(crate) extern "C" fn ibv_query_qp_data_in_order(_qp: *mut ibv_qp, _op: c_int, _flags: u32) -> c_int {
    0
}
