//! The devices, and news of them.

use crate::identity;
use crate::record::DeviceRecord;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use udp::InterfaceMonitor;

/// The devices of this network namespace, kept up to date.
#[derive(Debug)]
pub(super) struct Devices {
    machine: String,
    monitor: InterfaceMonitor,
    list: Vec<DeviceRecord>,
}

impl Devices {
    /// The devices that there are now.
    pub(super) fn new() -> io::Result<Devices> {
        // The monitor first, so that no change is missed.
        let monitor = InterfaceMonitor::new()?;
        let mut devices = Devices { machine: identity::machine(), monitor, list: Vec::new() };
        devices.list_again()?;
        Ok(devices)
    }

    /// All of them.
    pub(super) fn list(&self) -> &[DeviceRecord] {
        &self.list
    }

    /// To be called when the monitor is readable. Returns whether the devices changed.
    pub(super) fn take_changes(&mut self) -> io::Result<bool> {
        Ok(self.monitor.take_changes()? && self.list_again()?)
    }

    /// Asks the kernel anew. Returns whether the devices changed.
    pub(super) fn list_again(&mut self) -> io::Result<bool> {
        let list = identity::devices(&self.machine, &udp::interfaces()?, &self.list);
        let changed = list != self.list;
        self.list = list;
        Ok(changed)
    }
}

impl AsFd for Devices {
    /// Readable when there are changes to take.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.monitor.as_fd()
    }
}
