//! Protection domains, thread domains, parent domains.

use std::sync::Arc;

use device::Pd;
use parking_lot::Mutex;

use crate::abi::*;
use crate::boundary::{Errno, errno, pointer};
use crate::object::{Object, next_handle};
use crate::verbs::context::{self, Context};
use crate::verbs::teardown;

/// What belongs to a protection domain; a parent domain shares it with the one it was made of.
pub(crate) struct PdOwn {
    pub(crate) pd: Pd,
    parent: Option<Arc<Users>>,
    users: Arc<Users>,
    td: Option<Arc<Users>>,
}

/// How many parent domains and address handles use a domain.
pub(crate) type Users = Mutex<u32>;

impl PdOwn {
    /// Another domain that is the same as `base` underneath, and keeps it alive.
    pub(crate) fn on(base: &PdOwn, td: Option<Arc<Users>>) -> PdOwn {
        for users in [Some(&base.users), td.as_ref()].into_iter().flatten() {
            *users.lock() += 1;
        }
        PdOwn { pd: base.pd.clone(), parent: Some(base.users.clone()), users: Arc::default(), td }
    }

    /// An address handle of the domain comes or goes.
    pub(crate) fn count_user(&self, comes: bool) {
        let mut users = self.users.lock();
        *users = if comes { *users + 1 } else { users.saturating_sub(1) };
    }

    /// It does not use its parent and its thread domain any more.
    pub(crate) fn let_go(&self) {
        for users in [&self.parent, &self.td].into_iter().flatten() {
            *users.lock() -= 1;
        }
    }
}

pub(crate) type PdObject = Object<ibv_pd, PdOwn>;
type TdObject = Object<ibv_td, Arc<Users>>;

/// `ibv_alloc_pd(3)`.
///
/// # Safety
/// An open context.
pub(crate) unsafe extern "C" fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    pointer(|| {
        // SAFETY: the caller's promise.
        let pd = unsafe { Context::of(context) }?.device.alloc_pd()?;
        let own = PdOwn { pd, parent: None, users: Arc::default(), td: None };
        let object = PdObject::leak(ibv_pd { context, handle: next_handle() }, own);
        // SAFETY: it is withdrawn when it goes.
        unsafe { Context::of(context)?.shared.offer(object) };
        Ok(object)
    })
}

/// `ibv_dealloc_pd(3)`: EBUSY while something uses it. Also ends a parent domain.
///
/// # Safety
/// Null, or allocated.
pub(crate) unsafe extern "C" fn ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int {
    errno(|| {
        // SAFETY: the caller's promise.
        let own = unsafe { PdObject::of(pd) }?;
        if *own.users.lock() > 0 {
            return Err(Errno(libc::EBUSY));
        }
        if own.parent.is_none() {
            own.pd.destroy()?;
        }
        own.let_go();
        // SAFETY: as above.
        unsafe {
            Context::of((*pd).context)?.shared.withdraw::<ibv_pd>((*pd).handle);
            PdObject::free(pd);
        }
        teardown::object_destroyed();
        Ok(())
    })
}

/// `ibv_alloc_td(3)`: a promise of the program to use what belongs to it from one thread at a
/// time. Nothing here is faster for it.
///
/// # Safety
/// An open context and readable attributes.
pub(crate) unsafe extern "C" fn alloc_td(context: *mut ibv_context, attr: *mut ibv_td_init_attr) -> *mut ibv_td {
    pointer(|| {
        // SAFETY: the caller's promise.
        let attr = unsafe {
            Context::of(context)?;
            attr.as_ref().ok_or(Errno::INVAL)?
        };
        if attr.comp_mask != 0 {
            return Err(Errno::INVAL);
        }
        Ok(TdObject::leak(ibv_td { context }, Arc::default()))
    })
}

/// `ibv_dealloc_td(3)`.
///
/// # Safety
/// Null, or allocated.
pub(crate) unsafe extern "C" fn dealloc_td(td: *mut ibv_td) -> c_int {
    errno(|| {
        // SAFETY: the caller's promise.
        let users = unsafe { TdObject::of(td) }?;
        if *users.lock() > 0 {
            return Err(Errno(libc::EBUSY));
        }
        // SAFETY: as above.
        unsafe { TdObject::free(td) };
        Ok(())
    })
}

const PARENT_ALLOCATORS: u32 = 1;
const PARENT_PD_CONTEXT: u32 = 1 << 1;
const PARENT_ALLOW_CC_UNPROTECTED_ALLOC: u32 = 1 << 2;

/// `ibv_alloc_parent_domain(3)`. Allocators of the program are accepted and never called: no
/// queue of this device lies in memory that a program could supply. The leave to allocate memory that a
/// confidential guest shares with its host changes nothing: this device reaches protected memory as well.
///
/// # Safety
/// An open context and readable attributes.
pub(crate) unsafe extern "C" fn alloc_parent_domain(
    context: *mut ibv_context,
    attr: *mut ibv_parent_domain_init_attr,
) -> *mut ibv_pd {
    pointer(|| {
        // SAFETY: the caller's promise.
        let (attr, base) = unsafe {
            Context::of(context)?;
            let attr = attr.as_ref().ok_or(Errno::INVAL)?;
            (attr, PdObject::of(attr.pd)?)
        };
        if attr.comp_mask & !(PARENT_ALLOCATORS | PARENT_PD_CONTEXT | PARENT_ALLOW_CC_UNPROTECTED_ALLOC) != 0 {
            return Err(Errno::INVAL);
        }
        // SAFETY: an allocated domain.
        context::same(unsafe { (*attr.pd).context }, context)?;
        // SAFETY: null or allocated, says the caller.
        let td = (!attr.td.is_null()).then(|| unsafe { TdObject::of(attr.td) }).transpose()?.cloned();
        let object = PdObject::leak(ibv_pd { context, handle: next_handle() }, PdOwn::on(base, td));
        // SAFETY: it is withdrawn when it goes.
        unsafe { Context::of(context)?.shared.offer(object) };
        Ok(object)
    })
}
