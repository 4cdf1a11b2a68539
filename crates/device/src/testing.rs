//! Engines without a hub, for tests: a slot of a port group is a device.
//!
//! Not part of the public interface; behind the feature `testing`.

use std::cell::RefCell;
use std::os::fd::OwnedFd;

use hub::{DeviceRecord, Guid};
use local::{Export, Introduction, Link, Side};
use memory::Registry;
use udp::{Interface, PortGroup};
use wire::Gid;

use crate::counters::Counters;
use crate::device::{Device, OpenOptions};
use crate::engine::{EngineRef, Parts, WeakEngine};
use crate::near::NearSide;

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

/// Likewise, with several slots.
///
/// # Panics
/// If the system refuses any of it.
pub fn open_slots(group: &PortGroup, slots: &[u8], interface: &str) -> Device {
    let socket = |slot: &u8| {
        group.open_slot((*slot).into()).expect("such a slot");
        let socket = group.slot((*slot).into()).expect("such a slot");
        (*slot, socket.try_clone_to_owned().expect("a descriptor"))
    };
    open_sockets(slots.iter().map(socket).collect(), interface)
}

/// Likewise, with the socket of an open slot.
///
/// # Panics
/// If the system refuses any of it.
pub fn open_socket(socket: OwnedFd, slot: u8, interface: &str) -> Device {
    open_sockets(vec![(slot, socket)], interface)
}

fn open_sockets(sockets: Vec<(u8, OwnedFd)>, interface: &str) -> Device {
    let slots: Vec<u8> = sockets.iter().map(|(slot, _)| *slot).collect();
    let registry = Registry::from_entropy().expect("random numbers");
    let near = NEAR.with_borrow(Option::is_some).then(|| near_side(&registry));
    let parts = Parts {
        sockets,
        devices: udp::interfaces().expect("interfaces").iter().map(record).collect(),
        session: None,
        counters: Counters::new().expect("a counter page"),
        registry,
        wake: crate::engine::wake_descriptor().expect("a descriptor"),
        near,
    };
    let engine = EngineRef::start(parts).expect("an engine");
    NEAR.with_borrow_mut(|others| introduce_to(others, &engine, &slots));
    Device::on(engine, &OpenOptions { name: Some(interface.to_owned()) }).expect("a device")
}

/// The slots of an engine.
type Opened = (Vec<u8>, WeakEngine);

thread_local! {
    /// Engines that reach each other without packets, if those that are opened now are to.
    static NEAR: RefCell<Option<Vec<Opened>>> = const { RefCell::new(None) };
}

/// Whether engines that this thread opens reach each other as processes on one host do: by shared
/// memory. They are introduced without a hub.
pub fn set_near(near: bool) {
    NEAR.set(near.then(Vec::new));
}

/// What [`set_near`] was called with last in this thread.
pub fn is_near() -> bool {
    NEAR.with_borrow(Option::is_some)
}

fn near_side(registry: &Registry) -> NearSide {
    let export = Export::new(&registry.remote_keys()).expect("an export");
    NearSide::new(export).expect("a descriptor")
}

fn introduce_to(others: &mut Option<Vec<Opened>>, engine: &EngineRef, slots: &[u8]) {
    let Some(others) = others else { return };
    others.retain(|(other, _)| other != slots);
    for (other_slots, other) in others.iter() {
        if let Some(other) = other.upgrade() {
            introduce((engine, slots), (&other, other_slots));
        }
    }
    others.push((slots.to_vec(), engine.downgrade()));
}

/// As the hub does it.
fn introduce(a: (&EngineRef, &[u8]), b: (&EngineRef, &[u8])) {
    let (ours, theirs) = Link::create().expect("a link");
    for ((engine, _), (other, slots), ends, side) in [(a, b, ours, Side::Asked), (b, a, theirs, Side::Offered)] {
        let (near, far) = (engine.near.as_ref().expect("it is near"), other.near.as_ref().expect("it is near"));
        let introduction = Introduction {
            export: far.export.export().fd().try_clone_to_owned().expect("a descriptor"),
            wake: other.wake_descriptor().expect("a descriptor"),
            pid: std::process::id(),
        };
        let link = Link::open(ends, introduction, side).expect("a link");
        near.links.adopt(link, slots.iter().copied(), &near.export);
    }
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
