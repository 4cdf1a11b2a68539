//! The state that contexts share when one was imported from the other, and the files that name it.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::boundary::Errno;
use crate::device_list::ListedDevice;
use crate::object::ObjectPointer;
use abi::*;

/// The state that a context shares with those imported from it.
pub(crate) struct SharedState {
    pub(crate) listed: Arc<ListedDevice>,
    fd: OwnedFd,
    objects: Mutex<SharedObjects>,
}

/// Live objects by handle. The thread that holds the lock may use the pointers.
#[derive(Default)]
pub(crate) struct SharedObjects {
    pds: HashMap<u32, ObjectPointer<ibv_pd>>,
    mrs: HashMap<u32, ObjectPointer<ibv_mr>>,
    dms: HashMap<u32, ObjectPointer<ibv_dm>>,
}

/// A kind of object that can be imported.
pub(crate) trait Shareable: Sized {
    fn place(objects: &mut SharedObjects) -> &mut HashMap<u32, ObjectPointer<Self>>;
    fn handle(&self) -> u32;
}

macro_rules! shareable {
    ($($name:ty: $field:ident),+) => {
        $(
            impl Shareable for $name {
                fn place(objects: &mut SharedObjects) -> &mut HashMap<u32, ObjectPointer<Self>> {
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
static CONTEXTS: Mutex<Vec<(FileIdentity, Weak<SharedState>)>> = Mutex::new(Vec::new());

/// A file: device and inode.
pub(crate) type FileIdentity = (u64, u64);

/// The file behind a descriptor of a program's.
pub(crate) fn file_id(fd: c_int) -> Result<FileIdentity, Errno> {
    if fd < 0 {
        return Err(Errno(libc::EBADF));
    }
    // SAFETY: used for one system call, which says so if it is not open.
    let file = unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned().map(std::fs::File::from)?;
    let meta = file.metadata()?;
    Ok((std::os::unix::fs::MetadataExt::dev(&meta), std::os::unix::fs::MetadataExt::ino(&meta)))
}

impl SharedState {
    pub(crate) fn new(listed: Arc<ListedDevice>) -> Result<Arc<SharedState>, Errno> {
        // SAFETY: the call takes a string and a flag.
        let fd = unsafe { libc::memfd_create(c"longarm-context".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(Errno::last());
        }
        // SAFETY: just made, and nobody else's.
        let fd = guest::high(unsafe { <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(fd) });
        let id = file_id(fd.as_raw_fd())?;
        let shared = Arc::new(SharedState { listed, fd, objects: Mutex::default() });
        let mut contexts = CONTEXTS.lock();
        contexts.retain(|(_, known)| known.strong_count() > 0);
        contexts.push((id, Arc::downgrade(&shared)));
        Ok(shared)
    }

    /// The state of an open context that has this file.
    pub(super) fn by_file(id: FileIdentity) -> Option<Arc<SharedState>> {
        CONTEXTS.lock().iter().find(|(known, _)| *known == id).and_then(|(_, shared)| shared.upgrade())
    }

    /// The descriptor that a program may copy and import.
    pub(crate) fn cmd_fd(&self) -> c_int {
        self.fd.as_raw_fd()
    }

    /// Makes an object known.
    ///
    /// # Safety
    /// The object exists until it is [withdrawn](Self::withdraw).
    pub(crate) unsafe fn offer<T: Shareable>(&self, object: *mut T) {
        // SAFETY: the contract of `offer`: it exists until it is [withdrawn](Self::withdraw).
        let handle = unsafe { &*object }.handle();
        T::place(&mut self.objects.lock()).insert(handle, ObjectPointer(object));
    }

    pub(crate) fn withdraw<T: Shareable>(&self, handle: u32) {
        T::place(&mut self.objects.lock()).remove(&handle);
    }

    /// Runs `act` on the object of that handle, which exists until `act` returns.
    pub(super) fn with<T: Shareable, R>(
        &self,
        handle: u32,
        act: impl FnOnce(*mut T) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let mut objects = self.objects.lock();
        let found = T::place(&mut objects).get(&handle).ok_or(Errno(libc::ENOENT))?;
        act(found.0)
    }
}
