//! Sharing objects between contexts: `ibv_import_device` and the imports of objects.
//!
//! A context is known by the file behind its `cmd_fd`. Objects live in their process here, so a
//! copy of the descriptor serves only within the process that opened the context. Another process
//! is told that importing is not supported.

use crate::boundary::{Errno, otherwise, pointer};
use crate::verbs::context::ContextOwn;
use crate::verbs::device_memory::{self, DmObject};
use crate::verbs::domain::{PdObject, PdOwn};
use crate::verbs::mr::MrObject;
use crate::verbs::open;
use crate::verbs::shared::{SharedState, file_id};
use abi::*;

/// `ibv_import_device(3)`.
pub(crate) extern "C" fn ibv_import_device(cmd_fd: c_int) -> *mut ibv_context {
    pointer(|| {
        let id = file_id(cmd_fd)?;
        let context = open::open(SharedState::by_file(id).ok_or(Errno::NOT_SUPPORTED)?)?;
        // The descriptor belongs to the context from now on, says the man page; ours has its own.
        // SAFETY: the program passes the descriptor on to this call, which owns it.
        unsafe { libc::close(cmd_fd) };
        Ok(context)
    })
}

/// `ibv_import_pd(3)`.
///
/// # Safety
/// An open context.
pub(crate) unsafe extern "C" fn ibv_import_pd(context: *mut ibv_context, handle: u32) -> *mut ibv_pd {
    pointer(|| {
        // SAFETY: the contract of `ibv_import_pd`: an open context.
        let own = unsafe { ContextOwn::of(context) }?;
        let part = own.shared.with(handle, |pd: *mut ibv_pd| {
            // SAFETY: an object exists while the table knows it, and `with` holds the table's lock.
            Ok(PdOwn::on(unsafe { PdObject::whatever_handle(pd) }?, None))
        })?;
        Ok(PdObject::leak(ibv_pd { context, handle }, part))
    })
}

/// `ibv_unimport_pd`.
///
/// # Safety
/// An imported domain.
pub(crate) unsafe extern "C" fn ibv_unimport_pd(pd: *mut ibv_pd) {
    otherwise((), || {
        // SAFETY: the contract of `ibv_unimport_pd`: an imported domain.
        unsafe {
            if let Ok(own) = PdObject::whatever_handle(pd) {
                own.release_parents();
                PdObject::free(pd);
            }
        }
    });
}

/// `ibv_import_mr(3)`: its address is null.
///
/// # Safety
/// A domain that exists.
pub(crate) unsafe extern "C" fn ibv_import_mr(pd: *mut ibv_pd, handle: u32) -> *mut ibv_mr {
    pointer(|| {
        // SAFETY: the contract of `ibv_import_mr`: a domain that exists.
        let (context, own) = unsafe {
            PdObject::of(pd)?;
            ((*pd).context, ContextOwn::of((*pd).context)?)
        };
        own.shared.with(handle, |mr: *mut ibv_mr| {
            // SAFETY: an object exists while the table knows it, and `with` holds the table's lock.
            let (copy, c) = unsafe { (MrObject::whatever_handle(mr)?.copy(), &*mr) };
            let c = ibv_mr {
                context,
                pd,
                addr: std::ptr::null_mut(),
                length: c.length,
                handle,
                lkey: c.lkey,
                rkey: c.rkey,
            };
            Ok(MrObject::leak(c, copy))
        })
    })
}

/// `ibv_unimport_mr`.
///
/// # Safety
/// An imported region.
pub(crate) unsafe extern "C" fn ibv_unimport_mr(mr: *mut ibv_mr) {
    otherwise((), || {
        if !mr.is_null() {
            // SAFETY: the contract of `ibv_unimport_mr`: an imported region.
            unsafe { MrObject::free(mr) };
        }
    });
}

/// `ibv_import_dm(3)`.
///
/// # Safety
/// An open context.
pub(crate) unsafe extern "C" fn ibv_import_dm(context: *mut ibv_context, handle: u32) -> *mut ibv_dm {
    pointer(|| {
        // SAFETY: the contract of `ibv_import_dm`: an open context.
        let own = unsafe { ContextOwn::of(context) }?;
        own.shared.with(handle, |dm: *mut ibv_dm| {
            // SAFETY: an object exists while the table knows it, and `with` holds the table's lock.
            let copy = unsafe { DmObject::whatever_handle(dm) }?.copy();
            Ok(DmObject::leak(device_memory::structure(context, handle), copy))
        })
    })
}

/// `ibv_unimport_dm`.
///
/// # Safety
/// Imported device memory.
pub(crate) unsafe extern "C" fn ibv_unimport_dm(dm: *mut ibv_dm) {
    otherwise((), || {
        if !dm.is_null() {
            // SAFETY: the contract of `ibv_unimport_dm`: imported device memory.
            unsafe { DmObject::free(dm) };
        }
    });
}
