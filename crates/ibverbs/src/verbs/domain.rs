//! Protection domains, thread domains, parent domains.

use std::sync::Arc;

use device::Pd;
use parking_lot::Mutex;

use crate::boundary::{Errno, errno, pointer};
use crate::object::{CObject, next_handle};
use crate::verbs::context::{self, ContextOwn};
use crate::verbs::teardown;
use abi::*;

/// Our part of a protection domain. A parent domain shares the device's domain with its base.
pub(crate) struct PdOwn {
    pub(crate) pd: Pd,
    parent: Option<Arc<DomainUsers>>,
    users: Arc<DomainUsers>,
    td: Option<Arc<DomainUsers>>,
}

/// The number of parent domains and address handles that use a domain.
pub(crate) type DomainUsers = Mutex<u32>;

impl PdOwn {
    /// A domain that has the device's domain of `base`, and keeps `base` alive.
    pub(crate) fn on(base: &PdOwn, td: Option<Arc<DomainUsers>>) -> PdOwn {
        for users in [Some(&base.users), td.as_ref()].into_iter().flatten() {
            *users.lock() += 1;
        }
        PdOwn { pd: base.pd.clone(), parent: Some(base.users.clone()), users: Arc::default(), td }
    }

    /// Counts an address handle that was made (`comes`) or destroyed.
    pub(crate) fn count_user(&self, comes: bool) {
        let mut users = self.users.lock();
        *users = if comes { *users + 1 } else { users.saturating_sub(1) };
    }

    /// Gives its parent and its thread domain back.
    pub(crate) fn release_parents(&self) {
        for users in [&self.parent, &self.td].into_iter().flatten() {
            let mut users = users.lock();
            assert!(*users > 0, "a domain without users is released");
            *users -= 1;
        }
    }
}

pub(crate) type PdObject = CObject<ibv_pd, PdOwn>;
type TdObject = CObject<ibv_td, Arc<DomainUsers>>;

/// `ibv_alloc_pd(3)`.
///
/// # Safety
/// An open context.
pub(crate) unsafe extern "C" fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    pointer(|| {
        // SAFETY: the contract of `ibv_alloc_pd`: an open context.
        let pd = unsafe { ContextOwn::of(context) }?.device.alloc_pd()?;
        let own = PdOwn { pd, parent: None, users: Arc::default(), td: None };
        let object = PdObject::leak(ibv_pd { context, handle: next_handle() }, own);
        // SAFETY: the verb that destroys the object withdraws it first.
        unsafe { ContextOwn::of(context)?.shared.offer(object) };
        Ok(object)
    })
}

/// `ibv_dealloc_pd(3)`: EBUSY while something uses it. Also ends a parent domain.
///
/// # Safety
/// Null, or allocated.
pub(crate) unsafe extern "C" fn ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int {
    errno(|| {
        // SAFETY: the contract of `ibv_dealloc_pd`: null, or allocated.
        let own = unsafe { PdObject::of(pd) }?;
        if *own.users.lock() > 0 {
            return Err(Errno(libc::EBUSY));
        }
        if own.parent.is_none() {
            own.pd.destroy()?;
        }
        own.release_parents();
        // SAFETY: the contract of `ibv_dealloc_pd`: null, or allocated.
        unsafe {
            ContextOwn::of((*pd).context)?.shared.withdraw::<ibv_pd>((*pd).handle);
            PdObject::free(pd);
        }
        teardown::object_destroyed();
        Ok(())
    })
}

/// `ibv_alloc_td(3)`: the program promises to use objects of the domain from one thread at a
/// time. This library does not use the promise.
///
/// # Safety
/// An open context and readable attributes.
pub(crate) unsafe extern "C" fn alloc_td(context: *mut ibv_context, attr: *mut ibv_td_init_attr) -> *mut ibv_td {
    pointer(|| {
        // SAFETY: the contract of `alloc_td`: an open context and readable attributes.
        let attr = unsafe {
            ContextOwn::of(context)?;
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
        // SAFETY: the contract of `dealloc_td`: null, or allocated.
        let users = unsafe { TdObject::of(td) }?;
        if *users.lock() > 0 {
            return Err(Errno(libc::EBUSY));
        }
        // SAFETY: the contract of `dealloc_td`: null, or allocated.
        unsafe { TdObject::free(td) };
        Ok(())
    })
}

const PARENT_ALLOCATORS: u32 = 1;
const PARENT_PD_CONTEXT: u32 = 1 << 1;
const PARENT_ALLOW_CC_UNPROTECTED_ALLOC: u32 = 1 << 2;

/// `ibv_alloc_parent_domain(3)`. Allocators of the program are accepted and never called: no queue of
/// this device lies in memory that a program could supply. The permission to allocate memory that a
/// confidential guest shares with its host changes nothing: this device reaches protected memory as well.
///
/// # Safety
/// An open context and readable attributes.
pub(crate) unsafe extern "C" fn alloc_parent_domain(
    context: *mut ibv_context,
    attr: *mut ibv_parent_domain_init_attr,
) -> *mut ibv_pd {
    pointer(|| {
        // SAFETY: the contract of `alloc_parent_domain`: an open context and readable attributes.
        let (attr, base) = unsafe {
            ContextOwn::of(context)?;
            let attr = attr.as_ref().ok_or(Errno::INVAL)?;
            (attr, PdObject::of(attr.pd)?)
        };
        if attr.comp_mask & !(PARENT_ALLOCATORS | PARENT_PD_CONTEXT | PARENT_ALLOW_CC_UNPROTECTED_ALLOC) != 0 {
            return Err(Errno::INVAL);
        }
        // SAFETY: `PdObject::of` found the domain allocated.
        context::same(unsafe { (*attr.pd).context }, context)?;
        // SAFETY: the contract of `alloc_parent_domain`: a readable attribute names null or an allocated thread domain.
        let td = (!attr.td.is_null()).then(|| unsafe { TdObject::of(attr.td) }).transpose()?.cloned();
        let object = PdObject::leak(ibv_pd { context, handle: next_handle() }, PdOwn::on(base, td));
        // SAFETY: the verb that destroys the object withdraws it first.
        unsafe { ContextOwn::of(context)?.shared.offer(object) };
        Ok(object)
    })
}
