//! Devices and addresses of this host.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6};

use hub::DeviceRecord;
use transport::Mtu;
use wire::Gid;

use super::id_state::Binding;
use crate::error::Error;

/// The device that has an address. `interface` is that of a link-local address; 0 means any.
pub(super) fn binding(devices: &[DeviceRecord], address: IpAddr, interface: u32) -> Result<Binding, Error> {
    let gid = Gid::from(address);
    let here = |device: &&DeviceRecord| interface == 0 || device.interface_index == interface || !is_scoped(address);
    let found = devices.iter().filter(here).find_map(|device| {
        let (gid_index, _) = device.valid_gids().find(|(_, own)| *own == gid)?;
        Some((device, gid_index))
    });
    let (device, gid_index) = found.ok_or(Error::NotAvailable(address))?;
    Ok(Binding {
        device: device.name.clone(),
        gid,
        gid_index,
        interface: device.interface_index,
        mtu: Mtu::fitting(device.mtu_bytes).unwrap_or(Mtu::B256),
    })
}

/// The address that packets to `destination` leave from.
///
/// A host without a network has no route for multicast groups. Then all members are on this host, and packets
/// leave by loop-back, which needs no route for IPv4 groups.
pub(super) fn source(destination: SocketAddr) -> Result<IpAddr, Error> {
    let unreachable = [libc::ENETUNREACH, libc::EHOSTUNREACH].map(Some);
    match udp::source_toward(destination.ip(), scope(destination)) {
        Err(error) if unreachable.contains(&error.raw_os_error()) => match destination.ip() {
            IpAddr::V4(group) if group.is_multicast() => Ok(Ipv4Addr::LOCALHOST.into()),
            other => Err(Error::Unreachable(other)),
        },
        other => other.map_err(Error::Os),
    }
}

/// The interface that a link-local address names, 0 for others.
pub(super) fn scope(address: SocketAddr) -> u32 {
    match address {
        SocketAddr::V6(v6) => v6.scope_id(),
        SocketAddr::V4(_) => 0,
    }
}

/// Whether an address is of one link only.
fn is_scoped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

/// An IPv4-mapped address as IPv4; others unchanged.
pub(super) fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip @ IpAddr::V4(_) => SocketAddr::new(ip, address.port()),
        IpAddr::V6(_) => address,
    }
}

/// An address of this host with its scope, if it needs one.
pub(super) fn with_scope(ip: IpAddr, port: u16, interface: u32) -> SocketAddr {
    match ip {
        IpAddr::V6(v6) if is_scoped(ip) => SocketAddrV6::new(v6, port, 0, interface).into(),
        _ => SocketAddr::new(ip, port),
    }
}

/// The flow label of a connection between two ports, not zero. Both sides derive their UDP source port from
/// it.
pub(super) fn flow_label(local: u16, remote: u16) -> u32 {
    let mixed = (u32::from(local) << 16 | u32::from(remote)).wrapping_mul(0x9e37_79b1);
    (mixed >> 12).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(name: &str, index: u32, addresses: &[&str]) -> DeviceRecord {
        DeviceRecord {
            name: name.into(),
            interface: name.into(),
            interface_index: index,
            node_guid: Default::default(),
            port_guid: Default::default(),
            mtu_bytes: 1500,
            link_up: true,
            speed_mbps: 0,
            loopback: false,
            preferred: false,
            gids: addresses.iter().map(|a| Gid::from(a.parse::<IpAddr>().unwrap())).collect(),
        }
    }

    #[test]
    fn a_link_local_address_needs_its_interface() {
        let devices = [device("a", 2, &["192.0.2.1", "fe80::1"]), device("b", 3, &["fe80::1"])];
        let of = |address: &str, interface| binding(&devices, address.parse().unwrap(), interface);
        assert_eq!(of("fe80::1", 3).unwrap().device, "b");
        assert_eq!(of("fe80::1", 2).unwrap().gid_index, 1);
        assert_eq!(of("192.0.2.1", 0).unwrap().mtu, Mtu::B1024);
        assert!(matches!(of("192.0.2.2", 0), Err(Error::NotAvailable(_))));
    }

    #[test]
    fn flow_labels_have_twenty_bits() {
        for (local, remote) in [(0, 0), (1, 2), (65535, 65535), (7471, 40000)] {
            assert!((1..1 << 20).contains(&flow_label(local, remote)));
        }
    }
}
