//! Memory windows.

use device::{Access, BindMw, LKey, Mw, MwType, Payload, RKey, SendFlags, SendOp, SendWr};

use crate::boundary::{Errno, errno, pointer};
use crate::object::{CObject, next_handle};
use crate::verbs::domain::PdObject;
use crate::verbs::mr;
use crate::verbs::qp_object::QpObject;
use abi::*;

pub(crate) type MwObject = CObject<ibv_mw, Mw>;

/// `ibv_alloc_mw(3)`.
///
/// # Safety
/// An allocated domain.
pub(crate) unsafe extern "C" fn alloc_mw(pd: *mut ibv_pd, mw_type: c_int) -> *mut ibv_mw {
    pointer(|| {
        // SAFETY: the contract of `alloc_mw`: an allocated domain.
        let own = unsafe { PdObject::of(pd) }?;
        let kind = match mw_type {
            IBV_MW_TYPE_1 => MwType::One,
            IBV_MW_TYPE_2 => MwType::Two,
            _ => return Err(Errno::INVAL),
        };
        let mw = own.pd.alloc_mw(kind)?;
        // SAFETY: `PdObject::of` found the domain allocated.
        let context = unsafe { (*pd).context };
        let c = ibv_mw { context, pd, rkey: mw.rkey().0, handle: next_handle(), r#type: mw_type };
        Ok(MwObject::leak(c, mw))
    })
}

/// `ibv_dealloc_mw(3)`.
///
/// # Safety
/// Null, or allocated.
pub(crate) unsafe extern "C" fn dealloc_mw(mw: *mut ibv_mw) -> c_int {
    errno(|| {
        // SAFETY: the contract of `dealloc_mw`: null, or allocated.
        unsafe {
            MwObject::of(mw)?.destroy()?;
            MwObject::free(mw);
        }
        Ok(())
    })
}

/// `ibv_bind_mw(3)`: binds a type 1 window and gives it its next key.
///
/// # Safety
/// A queue pair and a window that exist, and a readable bind.
pub(crate) unsafe extern "C" fn bind_mw(qp: *mut ibv_qp, mw: *mut ibv_mw, bind: *mut ibv_mw_bind) -> c_int {
    errno(|| {
        // SAFETY: the contract of `bind_mw`: a queue pair and a window that exist, and a readable bind.
        let (own, window, bind) = unsafe {
            (QpObject::whatever_handle(qp)?, MwObject::whatever_handle(mw)?, bind.as_ref().ok_or(Errno::INVAL)?)
        };
        if window.mw_type() != MwType::One {
            return Err(Errno::INVAL);
        }
        // SAFETY: the contract of `bind_mw`: a window that exists.
        let present = unsafe { (*mw).rkey };
        let next = next_key(present);
        let op = SendOp::Bind(binding(present, next, &bind.bind_info)?);
        let flags = SendFlags::from_verbs(bind.send_flags & !IBV_SEND_INLINE);
        let wr = SendWr { wr_id: bind.wr_id, op, flags, ..blank() };
        own.qp.post_send([wr]).map_err(|failure| Errno::from(failure.error))?;
        // SAFETY: an existing window; the verb gives the window its new key.
        unsafe { (*mw).rkey = next };
        Ok(())
    })
}

/// The next key of a window: its low byte counts up (`ibv_inc_rkey(3)`).
fn next_key(rkey: u32) -> u32 {
    (rkey & !0xff) | (rkey.wrapping_add(1) & 0xff)
}

/// The operation that binds a window.
///
/// # Safety
/// A window that exists, or null.
pub(crate) unsafe fn bind_op(window: *mut ibv_mw, rkey: u32, info: &ibv_mw_bind_info) -> Result<SendOp, Errno> {
    if window.is_null() {
        return Err(Errno::INVAL);
    }
    // SAFETY: the contract of `bind_op`: a window that exists, or null.
    Ok(SendOp::Bind(binding(unsafe { (*window).rkey }, rkey, info)?))
}

/// A bind as the device takes it.
pub(crate) fn binding(window: u32, new_rkey: u32, info: &ibv_mw_bind_info) -> Result<BindMw, Errno> {
    // SAFETY: a bind names null or a registered region (`boundary.rs`, Contracts).
    let region = unsafe { info.mr.as_ref() }.map_or(0, |mr| mr.lkey);
    if region == 0 && info.length > 0 {
        return Err(Errno::INVAL);
    }
    Ok(BindMw {
        window: RKey(window),
        new_rkey: RKey(new_rkey),
        region: LKey(region),
        addr: info.addr,
        len_bytes: info.length,
        // A window grants no right to the region's owner; programs name that right anyway.
        access: mr::access(info.mw_access_flags)? - Access::LOCAL_WRITE,
    })
}

/// A work request without payload, to be filled in.
pub(crate) fn blank() -> SendWr {
    SendWr {
        wr_id: 0,
        op: SendOp::Send,
        flags: SendFlags::empty(),
        payload: Payload::empty(),
        datagram: None,
        xrc_srq: None,
    }
}
