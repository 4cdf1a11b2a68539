//! One verbs context per device, for all ids of the process: opened when the first id is bound to the device.
//!
//! `rdma_get_devices(3)` says that devices stay open. Those that a program has got from it do. Others are closed when
//! the last id and the last channel have gone and no object that was made on them is left. The structures stay: a
//! program may still use `id->verbs` that it has remembered (librpma looks devices up so). Then the device is opened
//! again, and stays open, as all of them do with Linux.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use parking_lot::Mutex;

use crate::boundary::{Errno, otherwise, pointer};
use crate::device_list::{self, ListedDevice};
use crate::verbs::context::ContextOwn;
use crate::verbs::shared::SharedState;
use crate::verbs::{context, domain, open, teardown, xrc};
use abi::*;

/// A device that ids use.
#[derive(Clone, Copy)]
pub(super) struct DeviceHandles {
    pub(super) context: *mut ibv_context,
    /// The domain of ids whose program names none.
    pub(super) pd: *mut ibv_pd,
}

/// All devices that ids use. They belong to the process that opened them, not to its children.
struct DeviceTable {
    process: u32,
    devices: Vec<OpenDevice>,
}

struct OpenDevice {
    name: String,
    opened: DeviceHandles,
    /// True while the device is open.
    is_open: bool,
    /// A program has got it from `rdma_get_devices`, or has used it without an id.
    stays: bool,
    /// The XRC domain for ids whose program names none; null until one is needed.
    xrcd: *mut ibv_xrcd,
}

// SAFETY: contexts and domains are used by any thread; contexts never go, domains with the table's lock held.
unsafe impl Send for OpenDevice {}

static TABLE: Mutex<DeviceTable> = Mutex::new(DeviceTable { process: 0, devices: Vec::new() });

/// Ids and channels that exist.
static USERS: AtomicUsize = AtomicUsize::new(0);
/// Devices that are open.
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// Counts an id or a channel that was made.
pub(super) fn count_user() {
    USERS.fetch_add(1, SeqCst);
}

/// Counts an id or a channel that was destroyed.
pub(super) fn discount_user() {
    let before = USERS.fetch_sub(1, SeqCst);
    assert!(before > 0, "more ids and channels were destroyed than made");
    close_if_idle();
}

/// Closes the devices that nothing uses. Called after an object was destroyed that may have been the last.
fn close_if_idle() {
    if OPEN.load(SeqCst) == 0 || USERS.load(SeqCst) > 0 {
        return;
    }
    // The holder of the lock opens or closes devices itself.
    let Some(mut table) = TABLE.try_lock() else { return };
    if table.process == std::process::id() && table.is_idle() {
        table.devices.iter_mut().filter(|entry| entry.is_open && !entry.stays).for_each(OpenDevice::close);
    }
}

impl OpenDevice {
    /// The number of its objects that keep the device's engine: the context, the domain and the XRC domain.
    fn holds(&self) -> usize {
        if self.is_open { 2 + usize::from(!self.xrcd.is_null()) } else { 0 }
    }

    fn close(&mut self) {
        // SAFETY: the table made these objects, and `is_idle` found no others on the device.
        unsafe {
            if !self.xrcd.is_null() {
                xrc::close_xrcd(std::mem::replace(&mut self.xrcd, std::ptr::null_mut()));
            }
            domain::ibv_dealloc_pd(std::mem::replace(&mut self.opened.pd, std::ptr::null_mut()));
            context::retire(self.opened.context, reopen);
        }
        self.is_open = false;
        OPEN.fetch_sub(1, SeqCst);
    }
}

impl DeviceTable {
    fn forget_parents_devices(&mut self) {
        let process = std::process::id();
        if self.process != process {
            self.process = process;
            self.devices.clear();
            OPEN.store(0, SeqCst);
        }
    }

    /// True if this process has no objects but those that the table itself made.
    fn is_idle(&self) -> bool {
        let own: usize = self.devices.iter().map(OpenDevice::holds).sum();
        let open = self.devices.iter().find(|entry| entry.is_open);
        // SAFETY: the table holds open contexts only while `is_open` is set.
        let context = open.and_then(|entry| unsafe { ContextOwn::of(entry.opened.context) }.ok());
        USERS.load(SeqCst) == 0 && context.is_some_and(|context| context.device.holds() == own)
    }

    fn open(&mut self, listed: &Arc<ListedDevice>) -> Result<DeviceHandles, Errno> {
        let name = &listed.info().name;
        let known = self.devices.iter_mut().find(|entry| entry.name == *name);
        if let Some(known) = known.as_ref().filter(|known| known.is_open) {
            return Ok(known.opened);
        }
        let shared = SharedState::new(listed.clone())?;
        let context = match &known {
            // SAFETY: it was retired; only the holder of the table's lock opens it.
            Some(known) => unsafe { context::revive(known.opened.context, shared) }.map(|()| known.opened.context)?,
            None => open::open(shared)?,
        };
        // SAFETY: an open context, on which nothing is if that fails.
        let pd = unsafe { created(domain::ibv_alloc_pd(context)).inspect_err(|_| context::retire(context, reopen))? };
        OPEN.fetch_add(1, SeqCst);
        teardown::listen(close_if_idle);
        let opened = DeviceHandles { context, pd };
        match known {
            Some(known) => (known.opened, known.is_open) = (opened, true),
            None => {
                let (name, xrcd) = (name.clone(), std::ptr::null_mut());
                self.devices.push(OpenDevice { name, opened, is_open: true, stays: false, xrcd });
            }
        }
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
/// ENODEV if the process may not see the device, and the errors of opening it.
pub(super) fn open(name: &str) -> Result<DeviceHandles, Errno> {
    let mut table = TABLE.lock();
    table.forget_parents_devices();
    if let Some(known) = table.devices.iter().find(|entry| entry.is_open && entry.name == name) {
        return Ok(known.opened);
    }
    let listed = device_list::listed()?;
    let listed = listed.iter().find(|listed| listed.info().name == name).ok_or(Errno(libc::ENODEV))?;
    table.open(listed)
}

/// Opens a device again whose context a program has remembered.
///
/// # Errors
/// ENODEV if the table does not know the context, and the errors of opening a device.
#[cold]
fn reopen(context: *mut ibv_context) -> Result<(), Errno> {
    let mut table = TABLE.lock();
    table.forget_parents_devices();
    let mut known = table.devices.iter();
    let place = known.position(|entry| entry.opened.context == context).ok_or(Errno(libc::ENODEV))?;
    let listed = device_list::listed()?;
    let name = &table.devices[place].name;
    let listed = listed.iter().find(|listed| listed.info().name == *name).ok_or(Errno(libc::ENODEV))?;
    table.open(listed)?;
    table.devices[place].stays = true;
    Ok(())
}

/// True if the process may see a device other than the loop-back one.
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
        // SAFETY: the table holds open contexts only while `is_open` is set.
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
        table.forget_parents_devices();
        let mut array = Vec::with_capacity(listed.len() + 1);
        for device in &listed {
            array.push(table.open(device)?.context);
        }
        table.devices.iter_mut().for_each(|entry| entry.stays |= entry.is_open);
        // SAFETY: the contract of `rdma_get_devices`: `count` is null or can be written.
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
