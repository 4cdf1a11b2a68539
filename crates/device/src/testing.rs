//! Engines without a hub, for tests: a slot of a port group is a device.
//!
//! Not part of the public interface; behind the feature `testing`.

use std::os::fd::OwnedFd;

use hub::{DeviceRecord, Guid};
use udp::{Interface, PortGroup};
use wire::Gid;

use crate::counters::Counters;
use crate::device::{Device, OpenOptions};
use crate::engine::{EngineRef, Parts};

/// Opens the device of an interface of this thread's network namespace, on an engine of its
/// own that has the given slot of the group.
///
/// # Panics
/// If the system refuses any of it.
pub fn open(group: &PortGroup, slot: u8, interface: &str) -> Device {
    group.open_slot(slot.into()).expect("such a slot");
    let socket = group.slot(slot.into()).expect("such a slot");
    open_socket(socket.try_clone_to_owned().expect("a descriptor"), slot, interface)
}

/// Likewise, with the socket of an open slot.
///
/// # Panics
/// If the system refuses any of it.
pub fn open_socket(socket: OwnedFd, slot: u8, interface: &str) -> Device {
    let parts = Parts {
        slot,
        socket,
        devices: udp::interfaces().expect("interfaces").iter().map(record).collect(),
        session: None,
        counters: Counters::new().expect("a counter page"),
        registry: memory::Registry::from_entropy().expect("random numbers"),
        wake: crate::engine::wake_descriptor().expect("a descriptor"),
        near: None,
    };
    let engine = EngineRef::start(parts).expect("an engine");
    Device::on(engine, &OpenOptions { name: Some(interface.to_owned()) }).expect("a device")
}

fn record(interface: &Interface) -> DeviceRecord {
    DeviceRecord {
        name: format!("la_{}", interface.name),
        interface: interface.name.clone(),
        interface_index: interface.index,
        node_guid: Guid(1),
        port_guid: Guid(u64::from(interface.index)),
        mtu_bytes: interface.mtu,
        link_up: interface.running,
        speed_mbps: interface.speed_mbps.unwrap_or(0),
        loopback: interface.loopback,
        preferred: !interface.loopback,
        gids: interface.addresses.iter().map(|address| Gid::from(address.address)).collect(),
    }
}
