//! The devices that the library knows, and opening one.

use std::ffi::{CStr, c_int};
use std::io;
use std::ptr::NonNull;

use ::device::OpenError;
use abi::{ibv_context, ibv_device};

use crate::library::Verbs;

/// `IBV_TRANSPORT_IWARP`.
const TRANSPORT_IWARP: c_int = 1;

/// An open context. Dropping it closes it.
#[derive(Debug)]
pub(crate) struct OpenedContext {
    pub(crate) library: &'static Verbs,
    pub(crate) context: NonNull<ibv_context>,
    pub(crate) is_iwarp: bool,
}

// SAFETY: the functions of libibverbs may be called with a context by any thread.
unsafe impl Send for OpenedContext {}
// SAFETY: as above, and by several threads at once.
unsafe impl Sync for OpenedContext {}

impl OpenedContext {
    /// # Errors
    /// If there is no device `name`, or the system refuses to open it.
    pub(crate) fn open(library: &'static Verbs, name: &str) -> Result<OpenedContext, OpenError> {
        let opened = with_devices(library, |devices| {
            let device = devices.iter().copied().find(|device| name_of(library, *device) == name)?;
            // SAFETY: a device of the list, which exists until `with_devices` returns.
            let (context, transport) = unsafe { ((library.ibv_open_device)(device), (*device).transport_type) };
            let error = io::Error::last_os_error();
            Some(NonNull::new(context).ok_or(error).map(|context| (context, transport == TRANSPORT_IWARP)))
        });
        let missing = || OpenError::NoSuchDevice { name: name.to_owned(), known: names(library).join(", ") };
        let (context, is_iwarp) = opened.ok_or_else(missing)??;
        Ok(OpenedContext { library, context, is_iwarp })
    }
}

impl Drop for OpenedContext {
    fn drop(&mut self) {
        // SAFETY: the context is open, and all objects made from it are gone.
        let result = unsafe { (self.library.ibv_close_device)(self.context.as_ptr()) };
        if result != 0 {
            log::warn!("ibv_close_device: {}", io::Error::last_os_error());
        }
    }
}

/// The names of all devices.
pub(crate) fn names(library: &Verbs) -> Vec<String> {
    with_devices(library, |devices| devices.iter().map(|device| name_of(library, *device)).collect())
}

fn with_devices<R>(library: &Verbs, work: impl FnOnce(&[*mut ibv_device]) -> R) -> R {
    let mut count = 0;
    // SAFETY: a place for the count.
    let list = unsafe { (library.ibv_get_device_list)(&mut count) };
    if list.is_null() {
        return work(&[]);
    }
    // SAFETY: the list has `count` devices until it is freed.
    let result = work(unsafe { std::slice::from_raw_parts(list, usize::try_from(count).unwrap_or(0)) });
    // SAFETY: the list is freed once.
    unsafe { (library.ibv_free_device_list)(list) };
    result
}

fn name_of(library: &Verbs, device: *mut ibv_device) -> String {
    // SAFETY: a device of a list that exists; its name is a string of C.
    unsafe { CStr::from_ptr((library.ibv_get_device_name)(device)) }.to_string_lossy().into_owned()
}
