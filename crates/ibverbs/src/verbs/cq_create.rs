//! Making completion queues.

use device::CqSpec;

use crate::boundary::{Errno, pointer};
use crate::object::{CObject, ObjectPointer, next_handle};
use crate::verbs::channel::{self, ChannelObject};
use crate::verbs::context::{self, ContextOwn};
use crate::verbs::cq_ex;
use crate::verbs::cq_object::CqOwn;
use crate::verbs::domain::PdObject;
use abi::*;

/// The arguments that make a queue, by either verb.
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
        // SAFETY: the contract of `ibv_create_cq` includes that of `create`.
        unsafe { create(context, &new) }.map(|cq| cq.cast())
    })
}

/// # Safety
/// As [`ibv_create_cq`].
pub(crate) unsafe fn create(context: *mut ibv_context, new: &NewCq) -> Result<*mut ibv_cq_ex, Errno> {
    // SAFETY: the contract of `create`, which is that of `ibv_create_cq`.
    let own = unsafe { ContextOwn::of(context) }?;
    if !(0..i64::from(context::comp_vectors())).contains(&new.comp_vector) {
        return Err(Errno::INVAL);
    }
    // SAFETY: the contract of `create`, which is that of `ibv_create_cq`.
    let channel = match new.channel.is_null() {
        true => None,
        false => {
            // SAFETY: the contract of `create`, which is that of `ibv_create_cq`.
            let (channel, its) = unsafe { (ChannelObject::of(new.channel)?, (*new.channel).context) };
            context::same(its, context)?;
            Some(&channel.channel)
        }
    };
    // The cookie must be the object's address, which is there only with the object: make room first.
    let place = Box::new(std::mem::MaybeUninit::<CObject<ibv_cq_ex, CqOwn>>::uninit());
    let c: *mut ibv_cq_ex = Box::into_raw(place).cast();
    let cookie = c.expose_provenance() as u64;
    let spec = CqSpec { capacity: new.cqe, channel, cookie, timestamps: new.timestamps };
    let cq = own.device.create_cq_with(&spec).map_err(|error| {
        // SAFETY: this function boxed the place above, and nothing is in it.
        drop(unsafe { Box::from_raw(c.cast::<std::mem::MaybeUninit<CObject<ibv_cq_ex, CqOwn>>>()) });
        Errno::from(error)
    })?;
    // SAFETY: the place was made above, for an object of these types.
    unsafe {
        CObject::write(c, structure(context, new), CqOwn::new(cq));
        if !new.channel.is_null() {
            channel::count_user(new.channel, true);
        }
    }
    own.targets.lock().cqs.insert(cookie, ObjectPointer(c.cast()));
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
    cq_ex::table(base)
}

const SUPPORTED_FIELDS: u64 =
    IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

/// `ibv_create_cq_ex(3)`.
///
/// # Safety
/// An open context and readable attributes.
pub(crate) unsafe extern "C" fn create_cq_ex(
    context: *mut ibv_context,
    attr: *mut ibv_cq_init_attr_ex,
) -> *mut ibv_cq_ex {
    pointer(|| {
        // SAFETY: the contract of `create_cq_ex`: an open context and readable attributes.
        let attr = unsafe {
            ContextOwn::of(context)?;
            attr.as_ref().ok_or(Errno::INVAL)?
        };
        check(attr)?;
        let new = NewCq {
            cqe: attr.cqe,
            cq_context: attr.cq_context,
            channel: attr.channel,
            comp_vector: attr.comp_vector.into(),
            timestamps: attr.wc_flags & !IBV_WC_STANDARD_FLAGS != 0,
        };
        // SAFETY: the contract of `create_cq_ex` includes that of `create`.
        unsafe { create(context, &new) }
    })
}

fn check(attr: &ibv_cq_init_attr_ex) -> Result<(), Errno> {
    if attr.comp_mask & !(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD) != 0 {
        return Err(Errno::INVAL);
    }
    if attr.wc_flags & !SUPPORTED_FIELDS != 0 {
        return Err(Errno::NOT_SUPPORTED);
    }
    if attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS != 0 {
        let unknown = attr.flags & !(IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN);
        // An overrun cannot be ignored here: completions would be lost unseen.
        if unknown != 0 || attr.flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN != 0 {
            return Err(Errno::NOT_SUPPORTED);
        }
    }
    if attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_PD != 0 {
        // SAFETY: the contract of `create_cq_ex`: readable attributes name a domain that exists.
        unsafe { PdObject::of(attr.parent_domain) }?;
    }
    Ok(())
}
