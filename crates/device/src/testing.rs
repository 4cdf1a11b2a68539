//! Engines without a hub, for tests: a slot of a port group is a device.
//!
//! Not part of the public interface; behind the feature `testing`.

use std::cell::{Cell, RefCell};
use std::os::fd::OwnedFd;

use hub::{DeviceRecord, Guid};
use memory::Registry;
use shm::{Export, Introduction, Link, LinkSide};
use udp::{Interface, PortGroup};
use wire::Gid;

use crate::engine::{EngineRef, Parts, WeakEngine};
use crate::handles::device::{Device, OpenOptions};
use crate::objects::counters::Counters;
use crate::shm::ShmSide;

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
    if let Some(engine) = ONE.with_borrow(|one| one.as_ref().and_then(WeakEngine::upgrade)) {
        return open_on(engine, interface);
    }
    let slots: Vec<u8> = sockets.iter().map(|(slot, _)| *slot).collect();
    let registry = Registry::from_entropy().expect("random numbers");
    let shm = (way() != Way::Packets).then(|| shm_side(&registry));
    let parts = Parts {
        sockets,
        devices: udp::interfaces().expect("interfaces").iter().map(record).collect(),
        session: None,
        counters: Counters::new().expect("a counter page"),
        registry,
        wake: crate::engine::background::wake_descriptor().expect("a descriptor"),
        shm,
        naps: NAPS.get(),
    };
    let engine = EngineRef::start(parts).expect("an engine");
    match way() {
        Way::Packets => {}
        Way::OneHost => SHM.with_borrow_mut(|others| introduce_to(others, &engine, &slots)),
        Way::OneProcess => ONE.set(Some(engine.downgrade())),
    }
    open_on(engine, interface)
}

fn open_on(engine: EngineRef, interface: &str) -> Device {
    Device::on(engine, &OpenOptions { name: Some(interface.to_owned()) }).expect("a device")
}

/// How devices that a thread opens reach each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Way {
    /// By packets.
    #[default]
    Packets,
    /// As processes on one host do: by shared memory. They are introduced without a hub.
    OneHost,
    /// As contexts of one process: they share an engine, which has the slot of the first of them.
    OneProcess,
}

/// The slots of an engine.
type Opened = (Vec<u8>, WeakEngine);

thread_local! {
    static WAY: Cell<Way> = const { Cell::new(Way::Packets) };
    static NAPS: Cell<bool> = const { Cell::new(true) };
    /// Engines of one host.
    static SHM: RefCell<Vec<Opened>> = const { RefCell::new(Vec::new()) };
    /// The engine of one process.
    static ONE: RefCell<Option<WeakEngine>> = const { RefCell::new(None) };
}

/// How devices reach each other that this thread opens from now on.
pub fn set_way(way: Way) {
    WAY.set(way);
    SHM.take();
    ONE.take();
}

/// Whether polls nap on a busy machine, of devices that this thread opens from now on.
pub fn set_naps(naps: bool) {
    NAPS.set(naps);
}

/// What [`set_way`] was called with last in this thread.
pub fn way() -> Way {
    WAY.get()
}

fn shm_side(registry: &Registry) -> ShmSide {
    let export = Export::new(&registry.remote_keys()).expect("an export");
    ShmSide::new(export).expect("a descriptor")
}

fn introduce_to(others: &mut Vec<Opened>, engine: &EngineRef, slots: &[u8]) {
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
    for ((engine, _), (other, slots), ends, side) in [(a, b, ours, LinkSide::Asked), (b, a, theirs, LinkSide::Offered)]
    {
        let (shm, far) = (engine.shm.as_ref().expect("it is near"), other.shm.as_ref().expect("it is near"));
        let introduction = Introduction {
            export: far.export.export().fd().try_clone_to_owned().expect("a descriptor"),
            wake: other.wake_descriptor().expect("a descriptor"),
            pid: std::process::id(),
        };
        let link = Link::open(ends, introduction, side).expect("a link");
        shm.links.adopt(link, slots.iter().copied(), &shm.export);
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
