//! The queue pair of an id.

use crate::boundary::{Errno, minus_one, otherwise};
use crate::rdmacm::devices::{self, created};
use crate::rdmacm::id_object::{IdOwn, of};
use crate::rdmacm::{queues, states};
use crate::verbs::{qp, qp_create};
use abi::*;

/// `rdma_create_qp(3)`: without a domain, on the one of the id's device. The queue pair may receive,
/// one for datagrams may send as well.
///
/// # Safety
/// Null or an id that exists; a domain or null; attributes to read, whose sizes are written.
pub(crate) unsafe extern "C" fn rdma_create_qp(
    c: *mut rdma_cm_id,
    pd: *mut ibv_pd,
    attr: *mut ibv_qp_init_attr,
) -> c_int {
    minus_one(|| {
        // SAFETY: the contract of `rdma_create_qp` (see its Safety section).
        unsafe {
            create(c, pd, attr.as_mut().ok_or(Errno::INVAL)?)?;
        }
        Ok(0)
    })
}

/// # Safety
/// As [`rdma_create_qp`].
pub(super) unsafe fn create(c: *mut rdma_cm_id, pd: *mut ibv_pd, attr: &mut ibv_qp_init_attr) -> Result<(), Errno> {
    let mut extended = ibv_qp_init_attr_ex::of(attr);
    if !pd.is_null() {
        (extended.pd, extended.comp_mask) = (pd, IBV_QP_INIT_ATTR_PD);
    }
    // SAFETY: the contract of `create`, which is that of `rdma_create_qp`.
    unsafe { create_extended(c, &mut extended) }?;
    attr.cap = extended.cap;
    Ok(())
}

/// `rdma_create_qp_ex(3)`.
///
/// # Safety
/// Null or an id that exists; attributes to read, whose sizes are written.
pub(crate) unsafe extern "C" fn rdma_create_qp_ex(c: *mut rdma_cm_id, attr: *mut ibv_qp_init_attr_ex) -> c_int {
    minus_one(|| {
        // SAFETY: the contract of `rdma_create_qp_ex` (see its Safety section).
        unsafe { create_extended(c, attr.as_mut().ok_or(Errno::INVAL)?) }?;
        Ok(0)
    })
}

/// # Safety
/// As [`rdma_create_qp_ex`].
unsafe fn create_extended(c: *mut rdma_cm_id, attr: &mut ibv_qp_init_attr_ex) -> Result<(), Errno> {
    // SAFETY: the contract of `create_extended`, which is that of `rdma_create_qp_ex`.
    unsafe {
        let own = of(c)?;
        let bound = !(*c).verbs.is_null();
        if !(*c).qp.is_null() || !bound || attr.qp_type != own.id.qp_type() as c_int {
            return Err(Errno::INVAL);
        }
        let made = complete(c, own, attr).and_then(|()| make(c, own, attr));
        made.inspect_err(|_| queues::destroy(c, own))
    }
}

/// Fills in the attributes that the program leaves to the library.
///
/// # Safety
/// An id that exists, bound to a device.
unsafe fn complete(c: *mut rdma_cm_id, own: &IdOwn, attr: &mut ibv_qp_init_attr_ex) -> Result<(), Errno> {
    // SAFETY: the contract of `complete`: an id that exists, bound to a device.
    unsafe {
        if attr.comp_mask & IBV_QP_INIT_ATTR_PD == 0 || attr.pd.is_null() {
            attr.comp_mask |= IBV_QP_INIT_ATTR_PD;
            attr.pd = (*c).pd;
        }
        if attr.pd.is_null() || (*attr.pd).context != (*c).verbs {
            return Err(Errno::INVAL);
        }
        let (sends, receives) = (attr.qp_type != IBV_QPT_XRC_RECV, attr.qp_type != IBV_QPT_XRC_SEND);
        if !sends && (attr.comp_mask & IBV_QP_INIT_ATTR_XRCD == 0 || attr.xrcd.is_null()) {
            attr.comp_mask |= IBV_QP_INIT_ATTR_XRCD;
            attr.xrcd = devices::xrcd((*c).verbs)?;
        }
        if attr.srq.is_null() {
            attr.srq = (*c).srq;
        }
        if attr.send_cq.is_null() && sends {
            attr.send_cq = queues::make_send(c, own, attr.cap.max_send_wr)?;
        }
        if attr.recv_cq.is_null() && receives && sends {
            attr.recv_cq = queues::make_recv(c, own, attr.cap.max_recv_wr)?;
        }
        Ok(())
    }
}

/// # Safety
/// An id that exists, bound to a device; complete attributes.
unsafe fn make(c: *mut rdma_cm_id, own: &IdOwn, attr: &mut ibv_qp_init_attr_ex) -> Result<(), Errno> {
    // SAFETY: the contract of `make`: an id that exists, bound to a device; complete attributes.
    unsafe {
        let qp = created(qp_create::create_qp_ex((*c).verbs, attr))?;
        let ready = if own.is_ud() { states::initialize_datagrams(qp, own) } else { states::initialize(qp, own) };
        if let Err(error) = ready {
            qp::destroy(qp);
            return Err(error);
        }
        (&raw mut (*c).qp).write(qp);
        (&raw mut (*c).pd).write(attr.pd);
        Ok(())
    }
}

/// `rdma_destroy_qp(3)`: completion queues that the library made go with it.
///
/// # Safety
/// Null or an id that exists.
pub(crate) unsafe extern "C" fn rdma_destroy_qp(c: *mut rdma_cm_id) {
    otherwise((), || {
        // SAFETY: the contract of `rdma_destroy_qp`: null or an id that exists.
        unsafe {
            let Ok(own) = of(c) else { return };
            let qp = (*c).qp;
            if !qp.is_null() && qp::destroy(qp) == 0 {
                (&raw mut (*c).qp).write(std::ptr::null_mut());
            }
            queues::destroy(c, own);
        }
    });
}
