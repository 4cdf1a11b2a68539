//! `ibv_get_device_list`, and the queries of devices that are not open yet.

use std::sync::Arc;

use device::{Device, DeviceInfo};

use crate::boundary::{Errno, pointer};
use abi::*;

/// The names that programs may see, separated by commas: all if it is not set.
const DEVICES: &str = "LONGARM_DEVICES";

/// A device in a program's list. Lists and open contexts hold it together.
#[repr(C)]
pub(crate) struct ListedDevice {
    c: verbs_device,
    info: DeviceInfo,
}

// SAFETY: the C part is written once, before anybody else sees it.
unsafe impl Send for ListedDevice {}
// SAFETY: the C part is written once, before anybody else sees it.
unsafe impl Sync for ListedDevice {}

/// A stand-in for a provider's table of functions: its address tells libmlx5 and libefa that the
/// device is none of theirs.
static NO_PROVIDER: [usize; 64] = [0; 64];

impl ListedDevice {
    fn new(info: DeviceInfo, index: c_int) -> Arc<ListedDevice> {
        let mut c = ibv_device::zeroed();
        c.node_type = IBV_NODE_CA;
        c.transport_type = IBV_TRANSPORT_IB;
        let sysfs = crate::verbs::sysfs::root();
        put(&mut c.name, &info.name);
        put(&mut c.dev_name, &format!("uverbs{index}"));
        put(&mut c.dev_path, &format!("{sysfs}/class/infiniband_verbs/uverbs{index}"));
        put(&mut c.ibdev_path, &format!("{sysfs}/class/infiniband/{}", info.name));
        let c = verbs_device { device: c, ops: NO_PROVIDER.as_ptr().cast() };
        Arc::new(ListedDevice { c, info })
    }

    pub(crate) fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn as_c(self: &Arc<Self>) -> *mut ibv_device {
        Arc::as_ptr(self).cast_mut().cast()
    }

    /// # Safety
    /// Null, or from a list that was not freed.
    unsafe fn of<'a>(device: *mut ibv_device) -> Result<&'a ListedDevice, Errno> {
        // SAFETY: the contract of `of`: null, or from a list that was not freed.
        unsafe { device.cast::<ListedDevice>().as_ref() }.ok_or(Errno::INVAL)
    }

    /// A hold on it that outlives the list.
    ///
    /// # Safety
    /// Null, or from a list that was not freed.
    pub(crate) unsafe fn hold(device: *mut ibv_device) -> Result<Arc<ListedDevice>, Errno> {
        if device.is_null() {
            return Err(Errno::INVAL);
        }
        let listed = device.cast::<ListedDevice>().cast_const();
        // SAFETY: it came from `Arc::into_raw`, and the list holds it still.
        unsafe {
            Arc::increment_strong_count(listed);
            Ok(Arc::from_raw(listed))
        }
    }
}

fn put(field: &mut [c_char], text: &str) {
    for (to, from) in field.iter_mut().zip(text.bytes().take(IBV_SYSFS_PATH_MAX - 1)) {
        *to = from as c_char;
    }
    field[field.len() - 1] = 0;
}

/// The devices that this process may see: as they are named, else the preferred first.
fn visible() -> Result<Vec<DeviceInfo>, Errno> {
    let devices = Device::list().map_err(|error| {
        eprintln!("longarm: {error}");
        Errno(error.errno())
    })?;
    let Some(names) = guest::environment::text(DEVICES) else { return Ok(devices) };
    let wanted: Vec<&str> = names.split(',').map(str::trim).collect();
    let place = |device: &DeviceInfo| wanted.iter().position(|name| device.name == *name || device.interface == *name);
    let mut visible: Vec<DeviceInfo> = devices.into_iter().filter(|device| place(device).is_some()).collect();
    visible.sort_by_key(place);
    Ok(visible)
}

/// The same devices as lists hold them.
pub(crate) fn listed() -> Result<Vec<Arc<ListedDevice>>, Errno> {
    Ok((0..).zip(visible()?).map(|(index, info)| ListedDevice::new(info, index)).collect())
}

/// `ibv_get_device_list(3)`.
///
/// # Safety
/// `count` is null or can be written.
pub(crate) unsafe extern "C" fn ibv_get_device_list(count: *mut c_int) -> *mut *mut ibv_device {
    pointer(|| {
        crate::verbs::log::start();
        let mut list: Vec<*mut ibv_device> =
            listed()?.into_iter().map(|listed| Arc::into_raw(listed).cast_mut().cast()).collect();
        // SAFETY: the contract of `ibv_get_device_list`: `count` is null or can be written.
        if let Some(count) = unsafe { count.as_mut() } {
            *count = list.len() as c_int;
        }
        list.push(std::ptr::null_mut());
        Ok(Box::leak(list.into_boxed_slice()).as_mut_ptr())
    })
}

/// `ibv_free_device_list(3)`: contexts that are open stay so.
///
/// # Safety
/// Null, or a list that was not freed.
pub(crate) unsafe extern "C" fn ibv_free_device_list(list: *mut *mut ibv_device) {
    if list.is_null() {
        return;
    }
    // SAFETY: a list of ours ends with a null; each entry is a strong count of an `Arc`.
    unsafe {
        let len = (0..).take_while(|&i| !(*list.add(i)).is_null()).count();
        let list = Box::from_raw(std::ptr::slice_from_raw_parts_mut(list, len + 1));
        for &device in &list[..len] {
            drop(Arc::from_raw(device.cast::<ListedDevice>().cast_const()));
        }
    }
}

/// `ibv_get_device_name(3)`.
///
/// # Safety
/// Null, or from a list that was not freed, or of an open context.
pub(crate) unsafe extern "C" fn ibv_get_device_name(device: *mut ibv_device) -> *const c_char {
    if device.is_null() {
        return std::ptr::null();
    }
    // SAFETY: the contract of `ibv_get_device_name` (see its Safety section).
    unsafe { (&raw const (*device).name).cast() }
}

/// `ibv_get_device_guid(3)`: the node's GUID, big-endian.
///
/// # Safety
/// As [`ibv_get_device_name`].
pub(crate) unsafe extern "C" fn ibv_get_device_guid(device: *mut ibv_device) -> u64 {
    // SAFETY: the contract of `ibv_get_device_guid`, which is that of `ibv_get_device_name`.
    unsafe { ListedDevice::of(device) }.map_or(0, |listed| listed.info.node_guid.to_be())
}

/// `ibv_get_device_index(3)`: −1. The kernel, which gives the indexes, does not know these devices, and
/// programs would ask it by netlink for whatever has the index.
pub(crate) extern "C" fn ibv_get_device_index(_device: *mut ibv_device) -> c_int {
    -1
}

/// The pointer that a context shows.
pub(crate) fn as_c(listed: &Arc<ListedDevice>) -> *mut ibv_device {
    listed.as_c()
}
