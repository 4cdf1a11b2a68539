//! The RDMA devices of this network namespace, and their changes.

use super::identity;
use crate::record::DeviceRecord;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use udp::InterfaceMonitor;
use wire::Gid;

/// The list of devices, kept up to date.
#[derive(Debug)]
pub(super) struct DeviceMonitor {
    machine: String,
    monitor: InterfaceMonitor,
    list: Vec<DeviceRecord>,
}

impl DeviceMonitor {
    /// Lists the devices and begins to watch the interfaces.
    pub(super) fn new() -> io::Result<DeviceMonitor> {
        // The monitor comes first, so that no change is missed.
        let monitor = InterfaceMonitor::new()?;
        let mut devices = DeviceMonitor { machine: identity::machine(), monitor, list: Vec::new() };
        devices.refresh()?;
        Ok(devices)
    }

    pub(super) fn list(&self) -> &[DeviceRecord] {
        &self.list
    }

    /// Reads the monitor's messages. Returns whether the devices changed.
    pub(super) fn take_changes(&mut self) -> io::Result<bool> {
        Ok(self.monitor.take_changes()? && self.refresh()?)
    }

    /// Lists the interfaces again. Returns whether the devices changed.
    pub(super) fn refresh(&mut self) -> io::Result<bool> {
        let list = identity::devices(&self.machine, &udp::interfaces()?, &self.list);
        let changed = list != self.list;
        self.list = list;
        Ok(changed)
    }
}

impl AsFd for DeviceMonitor {
    /// Readable when the monitor has messages.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.monitor.as_fd()
    }
}

/// The interface of this host that has an address. Link-local addresses may be on several: then it
/// is the `named` one. For a link-local address no other will do, unless `named` is 0.
pub(super) fn owning_interface(devices: &[DeviceRecord], address: IpAddr, named: u32) -> Option<u32> {
    let gid = Gid::from(address.to_canonical());
    let owners = || devices.iter().filter(|device| device.valid_gids().any(|(_, own)| own == gid));
    if owners().any(|device| device.interface_index == named) {
        return Some(named);
    }
    let first = owners().next().map(|device| device.interface_index);
    first.filter(|_| named == 0 || !is_link_local(address))
}

/// Whether an address is of one link only.
pub(super) fn is_link_local(address: IpAddr) -> bool {
    matches!(address.to_canonical(), IpAddr::V6(v6) if v6.is_unicast_link_local())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Guid;

    fn device(index: u32, addresses: &[&str]) -> DeviceRecord {
        DeviceRecord {
            name: format!("la_eth{index}"),
            interface: format!("eth{index}"),
            interface_index: index,
            node_guid: Guid(1),
            port_guid: Guid(2),
            mtu_bytes: 1500,
            link_up: true,
            speed_mbps: 0,
            loopback: false,
            preferred: false,
            gids: addresses.iter().map(|address| Gid::from(address.parse::<IpAddr>().unwrap())).collect(),
        }
    }

    #[test]
    fn an_address_of_this_host_has_an_interface() {
        let devices = [device(3, &["192.0.2.1", "fe80::1"]), device(4, &["192.0.2.1", "fe80::1", "fe80::2"])];
        let cases = [
            ("192.0.2.1", 0, Some(3)),
            ("192.0.2.1", 4, Some(4)),
            ("192.0.2.1", 1, Some(3)),
            ("::ffff:192.0.2.1", 0, Some(3)),
            ("192.0.2.2", 3, None),
            ("0.0.0.0", 0, None),
            ("::", 0, None),
            ("fe80::1", 4, Some(4)),
            ("fe80::2", 0, Some(4)),
            ("fe80::2", 3, None),
            ("fe80::2", 1, None),
        ];
        for (address, named, interface) in cases {
            assert_eq!(owning_interface(&devices, address.parse().unwrap(), named), interface, "{address} on {named}");
        }
    }
}
