//! Engines without a hub, for tests: a slot of a port group is a device.
//!
//! Not part of the public interface; behind the feature `testing`.

use std::cell::{Cell, RefCell};
use std::os::fd::OwnedFd;
use std::time::Duration;

use hub::{DeviceRecord, Guid};
use memory::Registry;
use shm::{Export, IntroducedPeer, Link, LinkSide};
use udp::{Interface, PortGroup};
use wire::Gid;

use crate::clock;
use crate::engine::scratch::ThreadScratch;
use crate::engine::{EngineParts, EngineRef, WeakEngine};
use crate::handles::device::{Device, OpenOptions};
use crate::objects::counters::EngineCounters;
use crate::path::shm::LanePath;
use crate::schedule::background::wake_descriptor;

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

/// Does the same with several slots.
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

/// Does the same with the socket of an open slot.
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
    let shm = (engine_path() != EnginePath::Packets).then(|| shm_path(&registry));
    let parts = EngineParts {
        sockets,
        devices: udp::interfaces().expect("interfaces").iter().map(record).collect(),
        session: None,
        counters: EngineCounters::new().expect("a counter page"),
        registry,
        bell: wake_descriptor().expect("a descriptor"),
        shm,
        naps: NAPS.get(),
    };
    let engine = EngineRef::start(parts).expect("an engine");
    match engine_path() {
        EnginePath::Packets => {}
        EnginePath::OneHost => SHM.with_borrow_mut(|others| introduce_to(others, &engine, &slots)),
        EnginePath::OneProcess => ONE.set(Some(engine.downgrade())),
    }
    open_on(engine, interface)
}

fn open_on(engine: EngineRef, interface: &str) -> Device {
    Device::on(engine, &OpenOptions { name: Some(interface.to_owned()) }).expect("a device")
}

/// The path between the devices that a thread opens.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum EnginePath {
    /// Packets.
    #[default]
    Packets,
    /// Shared memory, as between two processes of one host. They are introduced without a hub.
    OneHost,
    /// Shared memory within one process: the devices share an engine, which has the slot of the first of them.
    OneProcess,
}

/// The slots of an engine.
type OpenedSlots = (Vec<u8>, WeakEngine);

thread_local! {
    static ENGINE_PATH: Cell<EnginePath> = const { Cell::new(EnginePath::Packets) };
    static NAPS: Cell<bool> = const { Cell::new(true) };
    /// Engines of one host.
    static SHM: RefCell<Vec<OpenedSlots>> = const { RefCell::new(Vec::new()) };
    /// The engine of one process.
    static ONE: RefCell<Option<WeakEngine>> = const { RefCell::new(None) };
}

/// Sets the path between the devices that this thread opens from now on.
pub fn set_engine_path(path: EnginePath) {
    ENGINE_PATH.set(path);
    SHM.take();
    ONE.take();
}

/// Sets whether polls nap on a busy machine, for the devices that this thread opens from now on.
pub fn set_naps(naps: bool) {
    NAPS.set(naps);
}

/// Lets this thread rest from now on, as if it had lost its processor on a busy machine.
pub fn rest_this_thread(time: Duration) {
    ThreadScratch::with(|scratch| scratch.rest.rest_until(clock::now() + time));
}

/// The path that this thread has set last.
pub fn engine_path() -> EnginePath {
    ENGINE_PATH.get()
}

fn shm_path(registry: &Registry) -> LanePath {
    let export = Export::new(&registry.remote_keys()).expect("an export");
    LanePath::new(export).expect("a descriptor")
}

fn introduce_to(others: &mut Vec<OpenedSlots>, engine: &EngineRef, slots: &[u8]) {
    others.retain(|(other, _)| other != slots);
    for (other_slots, other) in others.iter() {
        if let Some(other) = other.upgrade() {
            introduce((engine, slots), (&other, other_slots));
        }
    }
    others.push((slots.to_vec(), engine.downgrade()));
}

/// Introduces two engines to each other, as the hub does.
fn introduce(a: (&EngineRef, &[u8]), b: (&EngineRef, &[u8])) {
    let (ours, theirs) = Link::create().expect("a link");
    for ((engine, _), (other, slots), ends, side) in [(a, b, ours, LinkSide::Asked), (b, a, theirs, LinkSide::Offered)]
    {
        let (shm, far) = (
            engine.shm.as_ref().expect("it has peers on this host"),
            other.shm.as_ref().expect("it has peers on this host"),
        );
        let introduction = IntroducedPeer {
            export: far.export.export().fd().try_clone_to_owned().expect("a descriptor"),
            wake: other.watch.copy_bell().expect("a descriptor"),
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
