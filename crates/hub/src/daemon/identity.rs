//! From network interfaces to devices: names, GUIDs and GID tables.
//!
//! Every interface that is up and has an address is a device. A known device stays
//! known while its interface exists, if necessary with its link down. So programs that
//! have it open see a port event, not a removed device.
//!
//! GUIDs are the same in every run. A port's GUID is the EUI-64 of the interface's MAC address
//! or, without one, a hash of the node's GUID and the interface's name. The node's GUID is
//! a hash of the machine's identity and of its lowest MAC address, which distinguishes containers of
//! one machine.
//!
//! Outside this module: it reads nothing from the system but the machine's identity.

use crate::record::{DeviceRecord, Guid};
use std::net::IpAddr;
use udp::Interface;
use wire::Gid;

/// Prefix of a device's name, before the interface's.
const DEVICE_PREFIX: &str = "la_";

/// Most GIDs of a device, as many as ports of real devices commonly have.
const MAX_GIDS: usize = 256;

/// The machine's identity: its machine-id, else its host name.
pub(super) fn machine() -> String {
    let files = ["/etc/machine-id", "/var/lib/dbus/machine-id"];
    let ids = files.iter().filter_map(|path| std::fs::read_to_string(path).ok());
    let id = ids.map(|id| id.trim().to_owned()).find(|id| !id.is_empty());
    let host = || rustix::system::uname().nodename().to_string_lossy().into_owned();
    id.unwrap_or_else(host)
}

/// The devices of these interfaces. `known` are the devices so far.
pub(super) fn devices(machine: &str, interfaces: &[Interface], known: &[DeviceRecord]) -> Vec<DeviceRecord> {
    let node_guid = node_guid(machine, interfaces);
    let mut devices: Vec<DeviceRecord> = interfaces
        .iter()
        .filter_map(|interface| {
            let before = known.iter().find(|device| is_of(device, interface));
            device(node_guid, interface, before)
        })
        .collect();
    if let Some(preferred) = preferred(&devices) {
        devices[preferred].preferred = true;
    }
    devices
}

/// Whether a device is this interface's, which has kept its number and its name.
fn is_of(device: &DeviceRecord, interface: &Interface) -> bool {
    (device.interface_index, device.interface.as_str()) == (interface.index, &interface.name)
}

/// The device of one interface, if it is or was usable.
fn device(node_guid: Guid, interface: &Interface, before: Option<&DeviceRecord>) -> Option<DeviceRecord> {
    let usable = interface.up && !interface.addresses.is_empty();
    if !usable && before.is_none() {
        return None;
    }
    Some(DeviceRecord {
        name: format!("{DEVICE_PREFIX}{}", interface.name),
        interface: interface.name.clone(),
        interface_index: interface.index,
        node_guid,
        port_guid: port_guid(node_guid, interface),
        mtu_bytes: interface.mtu,
        link_up: usable && interface.running,
        speed_mbps: interface.speed_mbps.unwrap_or(0),
        loopback: interface.loopback,
        preferred: false,
        gids: gid_table(before.map_or(&[], |device| &device.gids), gids_of(interface)),
    })
}

/// Index of the device for programs that name none. It is the first that is up and that other
/// machines can reach. Without one, it is loop-back if that is up, else the first that is up, else
/// the first.
fn preferred(devices: &[DeviceRecord]) -> Option<usize> {
    let reachable = |device: &DeviceRecord| device.valid_gids().any(|(_, gid)| !is_local(gid.ip())) && !device.loopback;
    let tests: [&dyn Fn(&DeviceRecord) -> bool; 4] = [
        &|device| device.link_up && reachable(device),
        &|device| device.link_up && device.loopback,
        &|device| device.link_up,
        &|_| true,
    ];
    tests.iter().find_map(|test| devices.iter().position(test))
}

/// Whether an address is of this host or one link only.
fn is_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local() || v4.is_loopback(),
        IpAddr::V6(v6) => v6.is_unicast_link_local() || v6.is_loopback(),
    }
}

/// The GIDs of an interface: global addresses before link-local ones, IPv4
/// before IPv6, else in the system's order.
fn gids_of(interface: &Interface) -> Vec<Gid> {
    let mut addresses: Vec<IpAddr> = interface.addresses.iter().map(|a| a.address).collect();
    addresses.retain(|address| !address.is_unspecified() && !address.is_multicast());
    let link_local = |address: &IpAddr| is_local(*address) && !address.is_loopback();
    addresses.sort_by_key(|address| (link_local(address), address.is_ipv6()));
    addresses.into_iter().map(Gid::from).collect()
}

/// The table after a change: remaining GIDs keep their index, new ones fill the holes.
fn gid_table(before: &[Gid], mut now: Vec<Gid>) -> Vec<Gid> {
    let keep = |gid: &Gid| if now.contains(gid) { *gid } else { Gid::default() };
    let mut table: Vec<Gid> = before.iter().map(keep).collect();
    now.retain(|gid| !table.contains(gid));
    for gid in now {
        match table.iter().position(|place| *place == Gid::default()) {
            Some(hole) => table[hole] = gid,
            None if table.len() < MAX_GIDS => table.push(gid),
            None => log::warn!("no room for GID {gid}: {MAX_GIDS} are the most"),
        }
    }
    while table.last() == Some(&Gid::default()) {
        table.pop();
    }
    table
}

fn node_guid(machine: &str, interfaces: &[Interface]) -> Guid {
    let mac = interfaces.iter().filter_map(usable_mac).min().unwrap_or_default();
    Guid(local_guid(&[b"node", machine.as_bytes(), &mac]))
}

fn port_guid(node: Guid, interface: &Interface) -> Guid {
    match usable_mac(interface) {
        Some(mac) => Guid(eui64(mac)),
        None => Guid(local_guid(&[b"port", &node.0.to_be_bytes(), interface.name.as_bytes()])),
    }
}

fn usable_mac(interface: &Interface) -> Option<[u8; 6]> {
    interface.mac.filter(|mac| *mac != [0; 6])
}

/// The EUI-64 of a MAC address: `ff:fe` in the middle, and the universal/local bit inverted
/// as in IPv6 interface identifiers (RFC 4291, appendix A).
fn eui64([a, b, c, d, e, f]: [u8; 6]) -> u64 {
    u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f])
}

/// A GUID out of a hash: never 0, and not marked as universally administered, as those of
/// [`eui64`] may be (that bit is clear), nor as a group's (the bit below).
fn local_guid(parts: &[&[u8]]) -> u64 {
    const UNIVERSAL_AND_GROUP: u64 = 3 << 56;
    (hash(parts) & !UNIVERSAL_AND_GROUP) | 1
}

/// 64-bit FNV-1a over all parts, each followed by its length, and a final mix. The same in every run and
/// version; not for secrets.
fn hash(parts: &[&[u8]]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for part in parts {
        for byte in part.iter().copied().chain((part.len() as u64).to_le_bytes()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ hash >> 33
}

#[cfg(test)]
mod tests;
