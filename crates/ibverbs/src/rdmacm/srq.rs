//! The shared receive queue of an id.

use crate::boundary::{Errno, minus_one, otherwise};
use crate::rdmacm::devices::{self, created};
use crate::rdmacm::id_object::{IdOwn, of};
use crate::rdmacm::queues;
use crate::verbs::srq;
use abi::*;

/// `rdma_create_srq(3)`: an XRC one for an id whose queue pairs are.
///
/// # Safety
/// Null or an id that exists; a domain or null; readable attributes.
pub(crate) unsafe extern "C" fn rdma_create_srq(
    c: *mut rdma_cm_id,
    pd: *mut ibv_pd,
    attr: *mut ibv_srq_init_attr,
) -> c_int {
    minus_one(|| {
        // SAFETY: the contract of `rdma_create_srq`: null or an id that exists; a domain or null; readable
        // attributes.
        unsafe {
            let own = of(c)?;
            let attr = attr.as_ref().ok_or(Errno::INVAL)?;
            let mut extended = ibv_srq_init_attr_ex::zeroed();
            (extended.srq_context, extended.attr) = (attr.srq_context, attr.attr);
            extended.comp_mask = IBV_SRQ_INIT_ATTR_TYPE;
            extended.srq_type = if own.id.qp_type() == device::QpType::XrcRecv { IBV_SRQT_XRC } else { IBV_SRQT_BASIC };
            if !pd.is_null() {
                (extended.pd, extended.comp_mask) = (pd, extended.comp_mask | IBV_SRQ_INIT_ATTR_PD);
            }
            create(c, own, &mut extended)?;
        }
        Ok(0)
    })
}

/// `rdma_create_srq_ex(3)`.
///
/// # Safety
/// Null or an id that exists; readable attributes.
pub(crate) unsafe extern "C" fn rdma_create_srq_ex(c: *mut rdma_cm_id, attr: *mut ibv_srq_init_attr_ex) -> c_int {
    minus_one(|| {
        // SAFETY: the contract of `rdma_create_srq_ex`: null or an id that exists; readable attributes.
        unsafe { create(c, of(c)?, attr.as_mut().ok_or(Errno::INVAL)?) }?;
        Ok(0)
    })
}

/// # Safety
/// `c` is the structure that `own` belongs to.
unsafe fn create(c: *mut rdma_cm_id, own: &IdOwn, attr: &mut ibv_srq_init_attr_ex) -> Result<(), Errno> {
    // SAFETY: the contract of `create`: `c` is the structure that `own` belongs to.
    unsafe {
        if !(*c).srq.is_null() || (*c).verbs.is_null() {
            return Err(Errno::INVAL);
        }
        let made = complete(c, own, attr).and_then(|()| created(srq::create_srq_ex((*c).verbs, attr)));
        let made = made.inspect_err(|_| queues::destroy(c, own))?;
        (&raw mut (*c).srq).write(made);
        (&raw mut (*c).pd).write(attr.pd);
        Ok(())
    }
}

/// Fills in the attributes that the program leaves to the library.
///
/// # Safety
/// An id that exists, bound to a device.
unsafe fn complete(c: *mut rdma_cm_id, own: &IdOwn, attr: &mut ibv_srq_init_attr_ex) -> Result<(), Errno> {
    // SAFETY: the contract of `complete`: an id that exists, bound to a device.
    unsafe {
        if attr.comp_mask & IBV_SRQ_INIT_ATTR_PD == 0 || attr.pd.is_null() {
            attr.comp_mask |= IBV_SRQ_INIT_ATTR_PD;
            attr.pd = (*c).pd;
        }
        let is_xrc = attr.comp_mask & IBV_SRQ_INIT_ATTR_TYPE != 0 && attr.srq_type == IBV_SRQT_XRC;
        if is_xrc && (attr.comp_mask & IBV_SRQ_INIT_ATTR_XRCD == 0 || attr.xrcd.is_null()) {
            attr.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD;
            attr.xrcd = devices::xrcd((*c).verbs)?;
        }
        if is_xrc && (attr.comp_mask & IBV_SRQ_INIT_ATTR_CQ == 0 || attr.cq.is_null()) {
            attr.comp_mask |= IBV_SRQ_INIT_ATTR_CQ;
            attr.cq = queues::make_recv(c, own, attr.attr.max_wr)?;
        }
        Ok(())
    }
}

/// `rdma_destroy_srq(3)`.
///
/// # Safety
/// Null or an id that exists.
pub(crate) unsafe extern "C" fn rdma_destroy_srq(c: *mut rdma_cm_id) {
    otherwise((), || {
        // SAFETY: the contract of `rdma_destroy_srq`: null or an id that exists.
        unsafe {
            let Ok(own) = of(c) else { return };
            let srq = (*c).srq;
            if !srq.is_null() && srq::ibv_destroy_srq(srq) == 0 {
                (&raw mut (*c).srq).write(std::ptr::null_mut());
            }
            queues::destroy(c, own);
        }
    });
}
