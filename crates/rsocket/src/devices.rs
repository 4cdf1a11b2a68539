//! Devices that sockets share: each is opened once, and has one protection domain.

use std::net::IpAddr;

use device::{Device, OpenOptions, Pd};
use parking_lot::Mutex;

use crate::errno::{Errno, Result};

/// An open device.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub(crate) device: Device,
    pub(crate) pd: Pd,
}

static OPEN: Mutex<Vec<(u32, String, Shared)>> = Mutex::new(Vec::new());

/// The device of that name. A forked child opens its own.
pub(crate) fn open(name: &str) -> Result<Shared> {
    let process = std::process::id();
    let mut open = OPEN.lock();
    if let Some((.., shared)) = open.iter().find(|(owner, known, _)| *owner == process && known == name) {
        return Ok(shared.clone());
    }
    let device = Device::open(&OpenOptions { name: Some(name.to_owned()) })?;
    let shared = Shared { pd: device.alloc_pd()?, device };
    open.push((process, name.to_owned(), shared.clone()));
    Ok(shared)
}

/// The device that has an address.
pub(crate) fn with_address(address: IpAddr) -> Result<Shared> {
    let all = Device::list()?;
    let found = all.iter().find(|info| info.port.gid_index(address).is_some());
    open(&found.ok_or(Errno(libc::EADDRNOTAVAIL))?.name)
}
