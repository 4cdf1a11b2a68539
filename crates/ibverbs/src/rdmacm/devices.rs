//! One verbs context per device, for all ids of the process: opened when the first id is bound to
//! the device, and kept, as `rdma_get_devices(3)` says.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::abi::*;
use crate::boundary::{Errno, otherwise, pointer};
use crate::device_list::{self, ListedDevice};
use crate::verbs::import::Shared;
use crate::verbs::{context, domain, xrc};

/// A device that ids use.
#[derive(Clone, Copy)]
pub(super) struct Opened {
    pub(super) context: *mut ibv_context,
    /// The domain of ids whose program names none.
    pub(super) pd: *mut ibv_pd,
}

/// All of them. They are of the process that opened them, not of its children.
struct Table {
    process: u32,
    devices: Vec<Entry>,
}

struct Entry {
    name: String,
    opened: Opened,
    /// Of ids whose program names none; null until one is needed.
    xrcd: *mut ibv_xrcd,
}

// SAFETY: contexts and domains are used by any thread, and never go.
unsafe impl Send for Entry {}

static TABLE: Mutex<Table> = Mutex::new(Table { process: 0, devices: Vec::new() });

impl Table {
    fn forget_those_of_a_parent(&mut self) {
        let process = std::process::id();
        if self.process != process {
            self.process = process;
            self.devices.clear();
        }
    }

    fn open(&mut self, listed: &Arc<ListedDevice>) -> Result<Opened, Errno> {
        let name = &listed.info().name;
        if let Some(known) = self.devices.iter().find(|entry| entry.name == *name) {
            return Ok(known.opened);
        }
        let context = context::open(Shared::new(listed.clone())?)?;
        // SAFETY: an open context.
        let pd = created(unsafe { domain::ibv_alloc_pd(context) })?;
        let opened = Opened { context, pd };
        self.devices.push(Entry { name: name.clone(), opened, xrcd: std::ptr::null_mut() });
        Ok(opened)
    }
}

/// The result of a verb that returns null and sets errno.
pub(super) fn created<T>(object: *mut T) -> Result<*mut T, Errno> {
    if object.is_null() { Err(Errno::last()) } else { Ok(object) }
}

/// The context of a device.
///
/// # Errors
/// ENODEV if the process may not see the device, and whatever opening it says.
pub(super) fn open(name: &str) -> Result<Opened, Errno> {
    let mut table = TABLE.lock();
    table.forget_those_of_a_parent();
    if let Some(known) = table.devices.iter().find(|entry| entry.name == name) {
        return Ok(known.opened);
    }
    let listed = device_list::listed()?;
    let listed = listed.iter().find(|listed| listed.info().name == name).ok_or(Errno(libc::ENODEV))?;
    table.open(listed)
}

/// Whether the process may see a device that is not the loop-back one.
pub(super) fn reach_a_network() -> bool {
    device_list::listed().is_ok_and(|listed| listed.iter().any(|listed| !listed.info().loopback))
}

/// The XRC domain of ids whose program names none.
pub(super) fn xrcd(context: *mut ibv_context) -> Result<*mut ibv_xrcd, Errno> {
    let mut table = TABLE.lock();
    let entry = table.devices.iter_mut().find(|entry| entry.opened.context == context).ok_or(Errno::INVAL)?;
    if entry.xrcd.is_null() {
        let comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
        let mut attr = ibv_xrcd_init_attr { comp_mask, fd: -1, oflags: libc::O_CREAT };
        // SAFETY: an open context.
        entry.xrcd = created(unsafe { xrc::open_xrcd(context, &raw mut attr) })?;
    }
    Ok(entry.xrcd)
}

/// `rdma_get_devices(3)`: an array that ends with a null. ENODEV if there are none.
///
/// # Safety
/// `count` is null or can be written.
pub(crate) unsafe extern "C" fn rdma_get_devices(count: *mut c_int) -> *mut *mut ibv_context {
    pointer(|| {
        let listed = device_list::listed()?;
        if listed.is_empty() {
            return Err(Errno(libc::ENODEV));
        }
        let mut table = TABLE.lock();
        table.forget_those_of_a_parent();
        let mut array = Vec::with_capacity(listed.len() + 1);
        for device in &listed {
            array.push(table.open(device)?.context);
        }
        // SAFETY: the caller's promise.
        if let Some(count) = unsafe { count.as_mut() } {
            *count = array.len() as c_int;
        }
        array.push(std::ptr::null_mut());
        Ok(Box::leak(array.into_boxed_slice()).as_mut_ptr())
    })
}

/// `rdma_free_devices(3)`: the devices stay open.
///
/// # Safety
/// Null, or an array that was not freed.
pub(crate) unsafe extern "C" fn rdma_free_devices(list: *mut *mut ibv_context) {
    otherwise((), || {
        if list.is_null() {
            return;
        }
        // SAFETY: an array of ours ends with a null.
        unsafe {
            let len = (0..).take_while(|&i| !(*list.add(i)).is_null()).count();
            drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(list, len + 1)));
        }
    });
}
