//! Shared receive queues.

use device::{Srq, SrqAttr};

use crate::boundary::{Errno, errno, pointer};
use crate::object::{ObjectPointer, next_handle};
use crate::verbs::context::{self, ContextOwn};
use crate::verbs::cq_object::CqObject;
use crate::verbs::domain::PdObject;
use crate::verbs::srq_object::{SrqObject, SrqOwn};
use crate::verbs::unacked::Unacked;
use crate::verbs::xrc::XrcdObject;
use abi::*;

/// `ibv_create_srq(3)`.
///
/// # Safety
/// An allocated domain; attributes to read, whose sizes are written.
pub(crate) unsafe extern "C" fn ibv_create_srq(pd: *mut ibv_pd, attr: *mut ibv_srq_init_attr) -> *mut ibv_srq {
    pointer(|| {
        // SAFETY: the contract of `ibv_create_srq`: an allocated domain; attributes to read, whose sizes are written.
        let (own, attr) = unsafe { (PdObject::of(pd)?, attr.as_ref().ok_or(Errno::INVAL)?) };
        check(&attr.attr)?;
        // SAFETY: an allocated domain and its context.
        let (context, pd_context) = unsafe { (ContextOwn::of((*pd).context)?, (*pd).context) };
        // The limit is armed by `ibv_modify_srq`; here it is "irrelevant", says the man page.
        let srq = context.device.create_srq(&own.pd, attr.attr.max_wr, attr.attr.max_sge, 0)?;
        Ok(present(context, pd_context, pd, srq, attr.srq_context))
    })
}

fn check(attr: &ibv_srq_attr) -> Result<(), Errno> {
    if attr.max_wr == 0 { Err(Errno::INVAL) } else { Ok(()) }
}

fn present(
    own: &ContextOwn,
    context: *mut ibv_context,
    pd: *mut ibv_pd,
    srq: Srq,
    srq_context: *mut c_void,
) -> *mut ibv_srq {
    let c = ibv_srq {
        context,
        srq_context,
        pd,
        handle: next_handle(),
        mutex: libc::PTHREAD_MUTEX_INITIALIZER,
        cond: libc::PTHREAD_COND_INITIALIZER,
        events_completed: 0,
    };
    let id = srq.id();
    let object = SrqObject::leak(c, SrqOwn { srq, unacked: Unacked::default() });
    own.targets.lock().srqs.insert(id, ObjectPointer(object));
    object
}

const KNOWN_ATTRIBUTES: u32 = IBV_SRQ_INIT_ATTR_TYPE
    | IBV_SRQ_INIT_ATTR_PD
    | IBV_SRQ_INIT_ATTR_XRCD
    | IBV_SRQ_INIT_ATTR_CQ
    | IBV_SRQ_INIT_ATTR_TM;

/// `ibv_create_srq_ex(3)`: basic and XRC; there is no tag matching in software.
///
/// # Safety
/// An open context and readable attributes.
pub(crate) unsafe extern "C" fn create_srq_ex(
    context: *mut ibv_context,
    attr: *mut ibv_srq_init_attr_ex,
) -> *mut ibv_srq {
    pointer(|| {
        // SAFETY: the contract of `create_srq_ex`: an open context and readable attributes.
        let (own, attr) = unsafe { (ContextOwn::of(context)?, attr.as_ref().ok_or(Errno::INVAL)?) };
        let has = |flag| attr.comp_mask & flag != 0;
        if attr.comp_mask & !KNOWN_ATTRIBUTES != 0 || !has(IBV_SRQ_INIT_ATTR_PD) {
            return Err(Errno::INVAL);
        }
        check(&attr.attr)?;
        // SAFETY: the contract of `create_srq_ex`: an open context and readable attributes.
        let (pd, its) = unsafe { (PdObject::of(attr.pd)?, (*attr.pd).context) };
        context::same(its, context)?;
        let ibv_srq_attr { max_wr, max_sge, .. } = attr.attr;
        let srq = match if has(IBV_SRQ_INIT_ATTR_TYPE) { attr.srq_type } else { IBV_SRQT_BASIC } {
            IBV_SRQT_BASIC => own.device.create_srq(&pd.pd, max_wr, max_sge, 0)?,
            IBV_SRQT_XRC if has(IBV_SRQ_INIT_ATTR_XRCD) && has(IBV_SRQ_INIT_ATTR_CQ) => {
                // SAFETY: the contract of `create_srq_ex`: an open context and readable attributes.
                let (xrcd, cq) = unsafe { (XrcdObject::of(attr.xrcd)?, CqObject::of(attr.cq)?) };
                // SAFETY: the contract of `create_srq_ex`: an open context and readable attributes.
                for its in unsafe { [(*attr.xrcd).context, (*attr.cq).context] } {
                    context::same(its, context)?;
                }
                own.device.create_xrc_srq(&pd.pd, &xrcd.xrcd, &cq.cq, &SrqAttr { max_wr, max_sge, limit: 0 })?
            }
            IBV_SRQT_XRC => return Err(Errno::INVAL),
            _ => return Err(Errno::NOT_SUPPORTED),
        };
        Ok(present(own, context, attr.pd, srq, attr.srq_context))
    })
}

/// `ibv_modify_srq(3)`: the size, the limit, or both.
///
/// # Safety
/// A queue that exists and readable attributes.
pub(crate) unsafe extern "C" fn ibv_modify_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr, mask: c_int) -> c_int {
    errno(|| {
        // SAFETY: the contract of `ibv_modify_srq`: a queue that exists and readable attributes.
        let (own, attr) = unsafe { (SrqObject::of(srq)?, attr.as_ref().ok_or(Errno::INVAL)?) };
        if mask & !(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT) != 0 {
            return Err(Errno::INVAL);
        }
        if mask & IBV_SRQ_MAX_WR != 0 {
            check(attr)?;
            own.srq.resize(attr.max_wr)?;
        }
        if mask & IBV_SRQ_LIMIT != 0 {
            own.srq.modify(attr.srq_limit)?;
        }
        Ok(())
    })
}

/// `ibv_query_srq(3)`.
///
/// # Safety
/// A queue that exists and a place for the answer.
pub(crate) unsafe extern "C" fn ibv_query_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr) -> c_int {
    errno(|| {
        // SAFETY: the contract of `ibv_query_srq`: a queue that exists and a place for the answer.
        let (own, attr) = unsafe { (SrqObject::of(srq)?, attr.as_mut().ok_or(Errno::INVAL)?) };
        let is = own.srq.query();
        *attr = ibv_srq_attr { max_wr: is.max_wr, max_sge: is.max_sge, srq_limit: is.limit };
        Ok(())
    })
}

/// `ibv_destroy_srq(3)`: EBUSY while queue pairs use it; waits until fetched events are acknowledged.
///
/// # Safety
/// Null, or created.
pub(crate) unsafe extern "C" fn ibv_destroy_srq(srq: *mut ibv_srq) -> c_int {
    errno(|| {
        // SAFETY: the contract of `ibv_destroy_srq`: null, or created.
        let own = unsafe { SrqObject::of(srq) }?;
        own.srq.destroy()?;
        // SAFETY: the contract of `ibv_destroy_srq`: null, or created.
        unsafe {
            ContextOwn::of((*srq).context)?.forget_srq(own.srq.id());
            own.unacked.wait();
            SrqObject::free(srq);
        }
        Ok(())
    })
}

/// `ibv_get_srq_num(3)`: the number of an XRC queue.
///
/// # Safety
/// A queue that exists and a place for the answer.
pub(crate) unsafe extern "C" fn get_srq_num(srq: *mut ibv_srq, number: *mut u32) -> c_int {
    errno(|| {
        // SAFETY: the contract of `get_srq_num`: a queue that exists and a place for the answer.
        let (own, place) = unsafe { (SrqObject::of(srq)?, number.as_mut().ok_or(Errno::INVAL)?) };
        *place = own.srq.number().ok_or(Errno::NOT_SUPPORTED)?;
        Ok(())
    })
}
