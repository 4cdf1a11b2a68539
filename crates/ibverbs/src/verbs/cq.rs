//! Completion queues.

use device::{Cq, CqSpec};
use parking_lot::{Condvar, Mutex};

use crate::abi::*;
use crate::boundary::hot::otherwise;
use crate::boundary::{Errno, errno, pointer};
use crate::object::{Object, next_handle};
use crate::rdmacm::devices;
use crate::verbs::channel::{self, ChannelObject};
use crate::verbs::context::{self, Context};
use crate::verbs::cq_ex::Cursor;
use crate::verbs::events::{Pointer, Unacked};
use crate::verbs::wc;

/// What belongs to a completion queue. Every one has the extended structure, which begins with
/// the plain one.
pub(crate) struct CqOwn {
    pub(crate) cq: Cq,
    pub(crate) unacked: Unacked,
    /// Where an extended poll stands.
    pub(crate) cursor: Cursor,
    acknowledged: (Mutex<()>, Condvar),
}

/// Behind either view of a queue.
pub(crate) struct CqObject;

impl CqObject {
    /// # Safety
    /// Null, or created.
    #[inline]
    pub(crate) unsafe fn of<'a>(cq: *mut ibv_cq) -> Result<&'a CqOwn, Errno> {
        // SAFETY: the caller's promise; `ibv_cq_ex` begins with an `ibv_cq`.
        unsafe { Object::<ibv_cq_ex, CqOwn>::of(cq.cast()) }
    }

    /// For what a driver does without the kernel.
    ///
    /// # Safety
    /// As [`of`](Self::of).
    #[inline]
    pub(crate) unsafe fn whatever_handle<'a>(cq: *mut ibv_cq) -> Result<&'a CqOwn, Errno> {
        // SAFETY: the caller's promise, as above.
        unsafe { Object::<ibv_cq_ex, CqOwn>::whatever_handle(cq.cast()) }
    }
}

impl CqOwn {
    /// Counts events as acknowledged, and lets a destroy that waits for them go on.
    pub(crate) fn acknowledge(&self, count: u32) {
        self.cq.ack_events(count);
        let (lock, changed) = &self.acknowledged;
        drop(lock.lock());
        changed.notify_all();
    }

    /// Waits until every event that a program fetched is acknowledged.
    fn wait_for_acknowledges(&self) {
        let (lock, changed) = &self.acknowledged;
        let mut guard = lock.lock();
        while self.cq.unacked_events() > 0 {
            changed.wait(&mut guard);
        }
        drop(guard);
        self.unacked.wait();
    }
}

/// What a queue is made with, by whichever verb.
pub(crate) struct NewCq {
    pub(crate) cqe: u32,
    pub(crate) cq_context: *mut c_void,
    pub(crate) channel: *mut ibv_comp_channel,
    pub(crate) comp_vector: i64,
    pub(crate) timestamps: bool,
}

/// `ibv_create_cq(3)`.
///
/// # Safety
/// An open context; a channel that exists, or null.
pub(crate) unsafe extern "C" fn ibv_create_cq(
    context: *mut ibv_context,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    comp_vector: c_int,
) -> *mut ibv_cq {
    pointer(|| {
        let cqe = u32::try_from(cqe).map_err(|_| Errno::INVAL)?;
        let new = NewCq { cqe, cq_context, channel, comp_vector: comp_vector.into(), timestamps: false };
        // SAFETY: passed on.
        unsafe { create(context, &new) }.map(|cq| cq.cast())
    })
}

/// # Safety
/// As [`ibv_create_cq`].
pub(crate) unsafe fn create(context: *mut ibv_context, new: &NewCq) -> Result<*mut ibv_cq_ex, Errno> {
    // SAFETY: the caller's promise.
    let own = unsafe { Context::of(context) }?;
    if !(0..i64::from(context::comp_vectors())).contains(&new.comp_vector) {
        return Err(Errno::INVAL);
    }
    // SAFETY: the caller's promise.
    let channel = match new.channel.is_null() {
        true => None,
        false => {
            // SAFETY: the caller's promise.
            let (channel, its) = unsafe { (ChannelObject::of(new.channel)?, (*new.channel).context) };
            context::same(its, context)?;
            Some(&channel.channel)
        }
    };
    // The cookie must be the object's address, which is there only with the object: make room first.
    let place = Box::new(std::mem::MaybeUninit::<Object<ibv_cq_ex, CqOwn>>::uninit());
    let c: *mut ibv_cq_ex = Box::into_raw(place).cast();
    let cookie = c.expose_provenance() as u64;
    let spec = CqSpec { capacity: new.cqe, channel, cookie, timestamps: new.timestamps };
    let cq = own.device.create_cq_with(&spec).map_err(|error| {
        // SAFETY: made above, and nothing is in it.
        drop(unsafe { Box::from_raw(c.cast::<std::mem::MaybeUninit<Object<ibv_cq_ex, CqOwn>>>()) });
        Errno::from(error)
    })?;
    let own_part = CqOwn {
        cq,
        unacked: Unacked::default(),
        cursor: Cursor::default(),
        acknowledged: (Mutex::new(()), Condvar::new()),
    };
    // SAFETY: room for just this.
    unsafe {
        Object::write(c, structure(context, new), own_part);
        if !new.channel.is_null() {
            channel::count_user(new.channel, true);
        }
    }
    own.slots.lock().cqs.insert(cookie, Pointer(c.cast()));
    Ok(c)
}

fn structure(context: *mut ibv_context, new: &NewCq) -> ibv_cq_ex {
    let base = ibv_cq {
        context,
        channel: new.channel,
        cq_context: new.cq_context,
        handle: next_handle(),
        cqe: new.cqe as c_int,
        mutex: libc::PTHREAD_MUTEX_INITIALIZER,
        cond: libc::PTHREAD_COND_INITIALIZER,
        comp_events_completed: 0,
        async_events_completed: 0,
    };
    crate::verbs::cq_ex::table(base)
}

/// `ibv_destroy_cq(3)`: EBUSY while queue pairs use it; waits for acknowledges.
///
/// # Safety
/// Null, or created.
pub(crate) unsafe extern "C" fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int {
    errno(|| {
        // SAFETY: the caller's promise.
        let own = unsafe { CqObject::of(cq) }?;
        own.cq.destroy()?;
        // SAFETY: as above.
        unsafe {
            Context::of((*cq).context)?.slots.lock().cqs.remove(&own.cq.cookie());
            own.wait_for_acknowledges();
            if !(*cq).channel.is_null() {
                channel::count_user((*cq).channel, false);
            }
            Object::<ibv_cq_ex, CqOwn>::free(cq.cast());
        }
        devices::close_if_idle();
        Ok(())
    })
}

/// `ibv_resize_cq(3)`.
///
/// # Safety
/// Null, or created.
pub(crate) unsafe extern "C" fn ibv_resize_cq(cq: *mut ibv_cq, cqe: c_int) -> c_int {
    errno(|| {
        // SAFETY: the caller's promise.
        let own = unsafe { CqObject::of(cq) }?;
        own.cq.resize(u32::try_from(cqe).map_err(|_| Errno::INVAL)?)?;
        // SAFETY: as above.
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
        // SAFETY: the caller's promise.
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
        // SAFETY: the caller's promise.
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
        // SAFETY: the caller's promise.
        let own = unsafe { CqObject::whatever_handle(cq) }?;
        own.cq.arm(solicited_only != 0).map_err(|_| Errno(libc::EIO))
    })
}
