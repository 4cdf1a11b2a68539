//! Making queue pairs.

use std::sync::Arc;

use device::{Cq, QpCaps, QpSpec, QpType, Srq};

use crate::boundary::{Errno, pointer};
use crate::object::{CObject, ObjectPointer, next_handle};
use crate::verbs::context::{self, ContextOwn};
use crate::verbs::cq_object::CqObject;
use crate::verbs::domain::PdObject;
use crate::verbs::qp_ex;
use crate::verbs::qp_object::QpOwn;
use crate::verbs::srq_object::SrqObject;
use crate::verbs::unacked::Unacked;
use crate::verbs::wr_builder::WrBuilder;
use crate::verbs::xrc::XrcdObject;
use abi::*;

/// `ibv_create_qp(3)`.
///
/// # Safety
/// An allocated domain; attributes to read, whose sizes are written.
pub(crate) unsafe extern "C" fn ibv_create_qp(pd: *mut ibv_pd, attr: *mut ibv_qp_init_attr) -> *mut ibv_qp {
    pointer(|| {
        // SAFETY: the contract of `ibv_create_qp`: an allocated domain; attributes to read, whose sizes are written.
        let (context, attr) = unsafe {
            PdObject::of(pd)?;
            ((*pd).context, attr.as_mut().ok_or(Errno::INVAL)?)
        };
        if attr.qp_type == IBV_QPT_XRC_RECV {
            // Such a queue pair belongs to an XRC domain, which only the extended verb can name.
            return Err(Errno::INVAL);
        }
        let mut wanted = QpRequest::of(attr);
        wanted.pd = pd;
        // SAFETY: the contract of `ibv_create_qp` includes that of `create`.
        let qp = unsafe { create(context, &wanted) }?;
        attr.cap = wanted.granted();
        Ok(qp)
    })
}

const KNOWN_ATTRIBUTES: u32 = IBV_QP_INIT_ATTR_PD
    | IBV_QP_INIT_ATTR_XRCD
    | IBV_QP_INIT_ATTR_CREATE_FLAGS
    | IBV_QP_INIT_ATTR_MAX_TSO_HEADER
    | IBV_QP_INIT_ATTR_IND_TABLE
    | IBV_QP_INIT_ATTR_RX_HASH
    | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;

/// `ibv_create_qp_ex(3)`.
///
/// # Safety
/// An open context; attributes to read, whose sizes are written.
pub(crate) unsafe extern "C" fn create_qp_ex(context: *mut ibv_context, attr: *mut ibv_qp_init_attr_ex) -> *mut ibv_qp {
    pointer(|| {
        // SAFETY: the contract of `create_qp_ex`: an open context; attributes to read, whose sizes are written.
        let attr = unsafe {
            ContextOwn::of(context)?;
            attr.as_mut().ok_or(Errno::INVAL)?
        };
        let wanted = QpRequest::of_extended(attr)?;
        // SAFETY: the contract of `create_qp_ex` includes that of `create`.
        let qp = unsafe { create(context, &wanted) }?;
        attr.cap = wanted.granted();
        Ok(qp)
    })
}

/// The queue pair that a program asks for, by either verb.
struct QpRequest {
    plain: ibv_qp_init_attr,
    pd: *mut ibv_pd,
    xrcd: *mut ibv_xrcd,
    operations: u64,
    blocks_own_multicast: bool,
}

impl QpRequest {
    fn of(attr: &ibv_qp_init_attr) -> QpRequest {
        QpRequest {
            plain: *attr,
            pd: std::ptr::null_mut(),
            xrcd: std::ptr::null_mut(),
            operations: 0,
            blocks_own_multicast: false,
        }
    }

    fn of_extended(attr: &ibv_qp_init_attr_ex) -> Result<QpRequest, Errno> {
        let has = |flag| attr.comp_mask & flag != 0;
        if attr.comp_mask & !KNOWN_ATTRIBUTES != 0 {
            return Err(Errno::INVAL);
        }
        let create_flags = if has(IBV_QP_INIT_ATTR_CREATE_FLAGS) { attr.create_flags } else { 0 };
        let unsupported = has(IBV_QP_INIT_ATTR_IND_TABLE)
            || has(IBV_QP_INIT_ATTR_RX_HASH)
            || create_flags & !IBV_QP_CREATE_BLOCK_SELF_MCAST_LB != 0
            || has(IBV_QP_INIT_ATTR_MAX_TSO_HEADER) && attr.max_tso_header != 0;
        if unsupported {
            return Err(Errno::NOT_SUPPORTED);
        }
        Ok(QpRequest {
            pd: if has(IBV_QP_INIT_ATTR_PD) { attr.pd } else { std::ptr::null_mut() },
            xrcd: if has(IBV_QP_INIT_ATTR_XRCD) { attr.xrcd } else { std::ptr::null_mut() },
            operations: if has(IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) { attr.send_ops_flags } else { 0 },
            blocks_own_multicast: create_flags & IBV_QP_CREATE_BLOCK_SELF_MCAST_LB != 0,
            ..QpRequest::of(&attr.plain())
        })
    }

    /// The service, if this device has it.
    fn service(&self) -> Result<QpType, Errno> {
        let qp_type = match self.plain.qp_type {
            IBV_QPT_RC => QpType::Rc,
            IBV_QPT_UC => QpType::Uc,
            IBV_QPT_UD => QpType::Ud,
            IBV_QPT_XRC_SEND => QpType::XrcSend,
            IBV_QPT_XRC_RECV => QpType::XrcRecv,
            IBV_QPT_RAW_PACKET | IBV_QPT_DRIVER => return Err(Errno::NOT_SUPPORTED),
            _ => return Err(Errno::INVAL),
        };
        if self.operations & !qp_ex::operations_of(qp_type) != 0 {
            return Err(Errno::NOT_SUPPORTED);
        }
        Ok(qp_type)
    }

    fn signals_all(&self) -> bool {
        self.plain.sq_sig_all != 0
    }

    fn receives_of_its_own(&self) -> bool {
        self.plain.srq.is_null() && !matches!(self.plain.qp_type, IBV_QPT_XRC_SEND | IBV_QPT_XRC_RECV)
    }

    /// The sizes it gets: those it asked for, and no receive queue where none is used. Inline data may
    /// fill the room of the list's entries, as with other devices: programs send a few bytes inline without
    /// having asked.
    fn granted(&self) -> ibv_qp_cap {
        let mut cap = self.plain.cap;
        let room = cap.max_send_sge.saturating_mul(size_of::<ibv_sge>() as u32);
        cap.max_inline_data = cap.max_inline_data.max(room);
        if !self.receives_of_its_own() {
            (cap.max_recv_wr, cap.max_recv_sge) = (0, 0);
        }
        if self.plain.qp_type == IBV_QPT_XRC_RECV {
            (cap.max_send_wr, cap.max_send_sge, cap.max_inline_data) = (0, 0, 0);
        }
        cap
    }

    fn caps(&self) -> QpCaps {
        let cap = self.granted();
        QpCaps {
            max_send_wr: cap.max_send_wr,
            max_recv_wr: cap.max_recv_wr,
            max_send_sge: cap.max_send_sge,
            max_recv_sge: cap.max_recv_sge,
            max_inline_bytes: cap.max_inline_data,
        }
    }
}

/// # Safety
/// An open context, and objects that exist.
unsafe fn create(context: *mut ibv_context, wanted: &QpRequest) -> Result<*mut ibv_qp, Errno> {
    // SAFETY: the contract of `create`: an open context, and objects that exist.
    let own = unsafe { ContextOwn::of(context) }?;
    let qp_type = wanted.service()?;
    let qp = match qp_type {
        QpType::XrcRecv => {
            // SAFETY: the contract of `create`: an open context, and objects that exist.
            let (xrcd, its) = unsafe { (XrcdObject::of(wanted.xrcd)?, (*wanted.xrcd).context) };
            context::same(its, context)?;
            own.device.create_xrc_recv_qp(&xrcd.xrcd)?
        }
        // SAFETY: the contract of `create` includes that of `with_queues`.
        _ => unsafe { with_queues(own, context, wanted, qp_type) }?,
    };
    if wanted.blocks_own_multicast {
        qp.block_own_multicast();
    }
    let qpn = qp.qpn();
    let base = structure(context, wanted, qpn.get());
    let part = QpOwn {
        qp,
        caps: wanted.caps(),
        signal_all: wanted.signals_all(),
        unacked: Unacked::default(),
        builder: WrBuilder::default(),
        extended: wanted.operations != 0,
        handles: Arc::default(),
    };
    let c: *mut ibv_qp = CObject::leak(qp_ex::table(base), part).cast();
    own.targets.lock().qps.insert(qpn, ObjectPointer(c));
    Ok(c)
}

/// # Safety
/// As [`create`].
unsafe fn with_queues(
    own: &ContextOwn,
    context: *mut ibv_context,
    wanted: &QpRequest,
    qp_type: QpType,
) -> Result<device::Qp, Errno> {
    // SAFETY: the contract of `with_queues`, which is that of `create`.
    let (pd, send_cq) = unsafe { (PdObject::of(wanted.pd)?, queue(context, wanted.plain.send_cq)?) };
    // SAFETY: the contract of `with_queues`, which is that of `create`.
    context::same(unsafe { (*wanted.pd).context }, context)?;
    let recv_cq = match qp_type {
        QpType::XrcSend => send_cq,
        // SAFETY: the contract of `with_queues`, which is that of `create`.
        _ => unsafe { queue(context, wanted.plain.recv_cq) }?,
    };
    let srq: Option<&Srq> = match wanted.plain.srq.is_null() || qp_type == QpType::XrcSend {
        true => None,
        false => {
            // SAFETY: the contract of `with_queues`, which is that of `create`.
            let (srq, its) = unsafe { (SrqObject::of(wanted.plain.srq)?, (*wanted.plain.srq).context) };
            context::same(its, context)?;
            Some(&srq.srq)
        }
    };
    let spec =
        QpSpec { qp_type, pd: &pd.pd, send_cq, recv_cq, srq, caps: wanted.caps(), signal_all: wanted.signals_all() };
    Ok(own.device.create_qp(&spec)?)
}

/// A completion queue of the same context.
///
/// # Safety
/// Null, or created.
unsafe fn queue<'a>(context: *mut ibv_context, cq: *mut ibv_cq) -> Result<&'a Cq, Errno> {
    // SAFETY: the contract of `queue`: null, or created.
    unsafe {
        let own = CqObject::of(cq)?;
        context::same((*cq).context, context)?;
        Ok(&own.cq)
    }
}

fn structure(context: *mut ibv_context, wanted: &QpRequest, qp_num: u32) -> ibv_qp {
    ibv_qp {
        context,
        qp_context: wanted.plain.qp_context,
        pd: wanted.pd,
        send_cq: wanted.plain.send_cq,
        recv_cq: wanted.plain.recv_cq,
        srq: wanted.plain.srq,
        handle: next_handle(),
        qp_num,
        state: device::QpState::Reset as c_int,
        qp_type: wanted.plain.qp_type,
        mutex: libc::PTHREAD_MUTEX_INITIALIZER,
        cond: libc::PTHREAD_COND_INITIALIZER,
        events_completed: 0,
    }
}
