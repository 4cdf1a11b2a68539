//! Devices that sockets share: each is opened once, has one protection domain, and is closed with the last socket that
//! uses it.

use std::net::IpAddr;
use std::sync::{Arc, Weak};

use device::{Device, OpenOptions, Pd};
use parking_lot::Mutex;

use crate::errno::{Errno, Result};

/// An open device.
#[derive(Debug)]
pub(crate) struct OpenedDevice {
    pub(crate) device: Device,
    pub(crate) pd: Pd,
    name: String,
    process: u32,
}

/// A hold on an open device.
pub(crate) type SharedDevices = Arc<OpenedDevice>;

static OPEN: Mutex<Vec<Weak<OpenedDevice>>> = Mutex::new(Vec::new());

/// The device of that name. A forked child opens its own.
pub(crate) fn open(name: &str) -> Result<SharedDevices> {
    let process = std::process::id();
    let mut open = OPEN.lock();
    open.retain(|known| known.strong_count() > 0);
    let mut known = open.iter().filter_map(Weak::upgrade);
    if let Some(known) = known.find(|known| known.process == process && known.name == name) {
        return Ok(known);
    }
    let device = Device::open(&OpenOptions { name: Some(name.to_owned()) })?;
    let shared = Arc::new(OpenedDevice { pd: device.alloc_pd()?, device, name: name.to_owned(), process });
    open.push(Arc::downgrade(&shared));
    Ok(shared)
}

/// The device that has an address.
pub(crate) fn with_address(address: IpAddr) -> Result<SharedDevices> {
    let all = Device::list()?;
    let found = all.iter().find(|info| info.port.gid_index(address).is_some());
    open(&found.ok_or(Errno(libc::EADDRNOTAVAIL))?.name)
}
