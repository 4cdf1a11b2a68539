//! Completion queues.

use crate::boundary::hot::otherwise;
use crate::boundary::{Errno, errno};
use crate::object::CObject;
use crate::verbs::context::ContextOwn;
use crate::verbs::cq_object::{CqObject, CqOwn};
use crate::verbs::{channel, teardown, wc};
use abi::*;

/// `ibv_destroy_cq(3)`: EBUSY while queue pairs use it; waits until fetched events are acknowledged.
///
/// # Safety
/// Null, or created.
pub(crate) unsafe extern "C" fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int {
    errno(|| {
        // SAFETY: the contract of `ibv_destroy_cq`: null, or created.
        let own = unsafe { CqObject::of(cq) }?;
        own.cq.destroy()?;
        // SAFETY: the contract of `ibv_destroy_cq`: null, or created.
        unsafe {
            ContextOwn::of((*cq).context)?.targets.lock().cqs.remove(&own.cq.cookie());
            own.wait_until_acknowledged();
            if !(*cq).channel.is_null() {
                channel::count_user((*cq).channel, false);
            }
            CObject::<ibv_cq_ex, CqOwn>::free(cq.cast());
        }
        teardown::object_destroyed();
        Ok(())
    })
}

/// `ibv_resize_cq(3)`.
///
/// # Safety
/// Null, or created.
pub(crate) unsafe extern "C" fn ibv_resize_cq(cq: *mut ibv_cq, cqe: c_int) -> c_int {
    errno(|| {
        // SAFETY: the contract of `ibv_resize_cq`: null, or created.
        let own = unsafe { CqObject::of(cq) }?;
        own.cq.resize(u32::try_from(cqe).map_err(|_| Errno::INVAL)?)?;
        // SAFETY: the contract of `ibv_resize_cq`: null, or created.
        unsafe { (&raw mut (*cq).cqe).write(cqe) };
        Ok(())
    })
}

/// `ibv_modify_cq(3)`: moderation is accepted and changes nothing: events are few already.
///
/// # Safety
/// Null, or created; readable attributes.
pub(crate) unsafe extern "C" fn modify_cq(cq: *mut ibv_cq, attr: *mut ibv_modify_cq_attr) -> c_int {
    errno(|| {
        // SAFETY: the contract of `modify_cq`: null, or created; readable attributes.
        let attr = unsafe {
            CqObject::of(cq)?;
            attr.as_ref().ok_or(Errno::INVAL)?
        };
        if attr.attr_mask & !IBV_CQ_ATTR_MODERATE != 0 { Err(Errno::INVAL) } else { Ok(()) }
    })
}

/// `ibv_poll_cq(3)`: how many completions were written, or negative.
///
/// # Safety
/// A queue that exists, and room for `entries` completions.
pub(crate) unsafe extern "C" fn poll_cq(cq: *mut ibv_cq, entries: c_int, out: *mut ibv_wc) -> c_int {
    otherwise(-libc::EIO, || {
        // SAFETY: the contract of `poll_cq`: a queue that exists, and room for `entries` completions.
        let Ok(own) = (unsafe { CqObject::whatever_handle(cq) }) else { return -libc::EINVAL };
        if entries <= 0 || out.is_null() {
            return if entries == 0 { 0 } else { -libc::EINVAL };
        }
        let mut place = out;
        let polled = own.cq.poll_each(entries as usize, |completion, _| {
            // SAFETY: room for `entries`, and no more than that come.
            unsafe {
                place.write(wc::of(completion));
                place = place.add(1);
            }
        });
        polled.map_or(-libc::EIO, |count| count as c_int)
    })
}

/// `ibv_req_notify_cq(3)`.
///
/// # Safety
/// Null, or created.
pub(crate) unsafe extern "C" fn req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> c_int {
    errno(|| {
        // SAFETY: the contract of `req_notify_cq`: null, or created.
        let own = unsafe { CqObject::whatever_handle(cq) }?;
        own.cq.arm(solicited_only != 0).map_err(|_| Errno(libc::EIO))
    })
}
