//! Sharing objects between contexts: `ibv_import_device` and what follows.
//!
//! A context is known by the file behind its `cmd_fd`. Objects live in their process here, so a
//! copy of the descriptor serves within the process that opened the context; another process is
//! told that importing is not supported.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::abi::*;
use crate::boundary::{Errno, otherwise, pointer};
use crate::device_list::ListedDevice;
use crate::verbs::context::{self, Context};
use crate::verbs::device_memory::{self, DmObject};
use crate::verbs::domain::{PdObject, PdOwn};
use crate::verbs::events::Pointer;
use crate::verbs::mr::MrObject;

/// What contexts share that were opened or imported one from the other.
pub(crate) struct Shared {
    pub(crate) listed: Arc<ListedDevice>,
    fd: OwnedFd,
    objects: Mutex<Objects>,
}

/// Live objects by handle. Who holds the lock may use the pointers.
#[derive(Default)]
pub(crate) struct Objects {
    pds: HashMap<u32, Pointer<ibv_pd>>,
    mrs: HashMap<u32, Pointer<ibv_mr>>,
    dms: HashMap<u32, Pointer<ibv_dm>>,
}

/// A kind of object that can be imported.
pub(crate) trait Shareable: Sized {
    fn place(objects: &mut Objects) -> &mut HashMap<u32, Pointer<Self>>;
    fn handle(&self) -> u32;
}

macro_rules! shareable {
    ($($name:ty: $field:ident),+) => {
        $(
            impl Shareable for $name {
                fn place(objects: &mut Objects) -> &mut HashMap<u32, Pointer<Self>> {
                    &mut objects.$field
                }
                fn handle(&self) -> u32 {
                    self.handle
                }
            }
        )+
    };
}
shareable!(ibv_pd: pds, ibv_mr: mrs, ibv_dm: dms);

/// Contexts of this process, by the file behind their descriptor.
static CONTEXTS: Mutex<Vec<(FileId, Weak<Shared>)>> = Mutex::new(Vec::new());

/// A file: device and inode.
pub(crate) type FileId = (u64, u64);

/// The file behind a descriptor of a program's.
pub(crate) fn file_id(fd: c_int) -> Result<FileId, Errno> {
    if fd < 0 {
        return Err(Errno(libc::EBADF));
    }
    // SAFETY: used for one system call, which says so if it is not open.
    let file = unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned().map(std::fs::File::from)?;
    let meta = file.metadata()?;
    Ok((std::os::unix::fs::MetadataExt::dev(&meta), std::os::unix::fs::MetadataExt::ino(&meta)))
}

impl Shared {
    pub(crate) fn new(listed: Arc<ListedDevice>) -> Result<Arc<Shared>, Errno> {
        // SAFETY: a name, and a flag.
        let fd = unsafe { libc::memfd_create(c"longarm-context".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(Errno::last());
        }
        // SAFETY: just made, and nobody else's.
        let fd = guest::high(unsafe { <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(fd) });
        let id = file_id(fd.as_raw_fd())?;
        let shared = Arc::new(Shared { listed, fd, objects: Mutex::default() });
        let mut contexts = CONTEXTS.lock();
        contexts.retain(|(_, known)| known.strong_count() > 0);
        contexts.push((id, Arc::downgrade(&shared)));
        Ok(shared)
    }

    /// The descriptor that a program may copy and import.
    pub(crate) fn cmd_fd(&self) -> c_int {
        self.fd.as_raw_fd()
    }

    /// Makes an object known.
    ///
    /// # Safety
    /// It exists until it is [withdrawn](Self::withdraw).
    pub(crate) unsafe fn offer<T: Shareable>(&self, object: *mut T) {
        // SAFETY: the caller's promise.
        let handle = unsafe { &*object }.handle();
        T::place(&mut self.objects.lock()).insert(handle, Pointer(object));
    }

    pub(crate) fn withdraw<T: Shareable>(&self, handle: u32) {
        T::place(&mut self.objects.lock()).remove(&handle);
    }

    /// Does something with the object of that handle.
    fn with<T: Shareable, R>(&self, handle: u32, act: impl FnOnce(*mut T) -> Result<R, Errno>) -> Result<R, Errno> {
        let mut objects = self.objects.lock();
        let found = T::place(&mut objects).get(&handle).ok_or(Errno(libc::ENOENT))?;
        act(found.0)
    }
}

/// `ibv_import_device(3)`.
pub(crate) extern "C" fn ibv_import_device(cmd_fd: c_int) -> *mut ibv_context {
    pointer(|| {
        let id = file_id(cmd_fd)?;
        let known = CONTEXTS.lock().iter().find(|(known, _)| *known == id).and_then(|(_, shared)| shared.upgrade());
        let context = context::open(known.ok_or(Errno::NOT_SUPPORTED)?)?;
        // The descriptor belongs to the context from now on, says the man page; ours has its own.
        // SAFETY: the program gave it away.
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
        // SAFETY: the caller's promise.
        let own = unsafe { Context::of(context) }?;
        let part = own.shared.with(handle, |pd: *mut ibv_pd| {
            // SAFETY: it exists while it is known.
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
        // SAFETY: the caller's promise.
        unsafe {
            if let Ok(own) = PdObject::whatever_handle(pd) {
                own.let_go();
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
        // SAFETY: the caller's promise.
        let (context, own) = unsafe {
            PdObject::of(pd)?;
            ((*pd).context, Context::of((*pd).context)?)
        };
        own.shared.with(handle, |mr: *mut ibv_mr| {
            // SAFETY: it exists while it is known.
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
            // SAFETY: the caller's promise.
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
        // SAFETY: the caller's promise.
        let own = unsafe { Context::of(context) }?;
        own.shared.with(handle, |dm: *mut ibv_dm| {
            // SAFETY: it exists while it is known.
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
            // SAFETY: the caller's promise.
            unsafe { DmObject::free(dm) };
        }
    });
}
