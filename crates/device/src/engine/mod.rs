//! The engine: the state that all devices of a process share, and the steps that drive it.
//!
//! Lock order, from the outside in: receive side of a socket or consumer of a lane, queue pair, shared receive queue,
//! completion queue. No thread locks two queue pairs at once. No foreign code (a waker, the caller's channel) runs while
//! a thread holds one of these locks.

mod caller;
mod leave;
pub(crate) mod memory_watchers;
pub(crate) mod nap;
mod peers;
mod post;
pub(crate) mod pump;
pub(crate) mod rest;
pub(crate) mod scratch;
mod session;
mod settle;
mod sockets;
pub(crate) mod start;
mod step;
mod usage;
pub(crate) mod watch;
mod worker;

use std::io;
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread::JoinHandle;

use guest::fork;
use hub::DeviceRecord;
use hub::client::Session;
use memory::Registry;
use transport::{Mtu, ReorderBudget, Tuning};
use udp::RxSocket;

use crate::error::{CaptureError, Error};
use crate::objects::counters::EngineCounters;
use crate::objects::devices::{DeviceContext, DeviceRecords};
use crate::objects::faults::FaultGate;
use crate::objects::owner::OwnerProcess;
use crate::objects::quota::Quotas;
use crate::path::shm::LanePath;
use crate::path::wire::WirePath;
use crate::qp::services::QpServices;
use crate::qp::slots::PortSlots;
use crate::schedule::Schedule;
use crate::schedule::activity::Activity;
use memory_watchers::MemoryWatchers;
use scratch::ThreadScratch;
use watch::SocketWatch;

/// The values that an engine is made from.
pub(crate) struct EngineParts {
    /// Our slots, by the high byte of their queue pair numbers, with the sockets that receive their packets.
    pub(crate) sockets: Vec<(u8, OwnedFd)>,
    /// The devices of this host.
    pub(crate) devices: Vec<DeviceRecord>,
    /// The session with the hub, if there is a hub.
    pub(crate) session: Option<Session>,
    /// The counters, whose page the hub knows.
    pub(crate) counters: EngineCounters,
    /// The memory that the device reaches.
    pub(crate) registry: Registry,
    /// The bell that peers on this host ring when this process sleeps.
    pub(crate) bell: OwnedFd,
    /// The path to peers on this host, unless it is turned off.
    pub(crate) shm: Option<LanePath>,
    /// Whether a poll that finds nothing may sleep while others want the processor.
    pub(crate) naps: bool,
}

/// See the module.
pub(crate) struct Engine {
    owner: OwnerProcess,
    pub(crate) services: QpServices,
    pub(crate) schedule: Schedule,
    pub(crate) wire: WirePath,
    pub(crate) shm: Option<LanePath>,
    pub(crate) activity: Activity,
    pub(crate) watch: SocketWatch,
    pub(crate) memory_watchers: MemoryWatchers,
    pub(crate) naps: bool,
    pub(crate) quotas: Quotas,
    ids: AtomicU32,
}

/// A counted hold on the engine. With the last one the background thread ends.
#[derive(Clone)]
pub(crate) struct EngineRef(Arc<EngineGuard>);

struct EngineGuard {
    engine: Arc<Engine>,
    thread: Option<JoinHandle<()>>,
}

impl Engine {
    fn new(parts: EngineParts) -> io::Result<(Engine, Option<Session>)> {
        let slots = PortSlots::new(parts.sockets, parts.shm.as_ref().map(|shm| &*shm.export))?;
        let wire = WirePath::new(slots.first().socket.receive_buffer_bytes()?);
        let services = QpServices {
            registry: Arc::new(parts.registry),
            reorder: Arc::new(ReorderBudget::new(ReorderBudget::DEFAULT_BYTES)),
            faults: FaultGate::default(),
            capture: Arc::default(),
            counters: parts.counters,
            devices: DeviceRecords::new(parts.devices),
            groups: Default::default(),
            slots,
        };
        let engine = Engine {
            owner: OwnerProcess::this(),
            services,
            schedule: Schedule::new()?,
            wire,
            shm: parts.shm,
            activity: Activity::default(),
            watch: SocketWatch::new(parts.bell)?,
            memory_watchers: MemoryWatchers::default(),
            naps: parts.naps,
            quotas: Quotas::default(),
            ids: AtomicU32::new(1),
        };
        if let Some(shm) = &engine.shm {
            engine.registry().set_mirror(shm.export.clone());
        }
        Ok((engine, parts.session))
    }

    /// Refuses a forked child.
    #[inline]
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.owner.check()
    }

    pub(crate) fn registry(&self) -> &Arc<Registry> {
        &self.services.registry
    }

    /// The behaviour of new queue pairs.
    pub(crate) fn tuning(&self) -> Tuning {
        self.wire.destinations.tuning()
    }

    /// The largest payload of a packet that the port of a context carries now.
    pub(crate) fn mtu_of(&self, context: &DeviceContext) -> Mtu {
        self.services.devices.of(context).map_or(Mtu::B4096, |info| info.port.active_mtu)
    }

    /// The socket that joins multicast groups.
    pub(crate) fn multicast_socket(&self) -> &RxSocket {
        &self.services.slots.first().socket
    }

    /// Injects faults from now on, or ends that.
    pub(crate) fn set_faults(&self, plan: Option<::faults::FaultPlan>) {
        if let Some(shm) = &self.shm {
            shm.links.list.set_direct(plan.is_none());
        }
        self.services.faults.set(plan);
    }

    /// Starts a capture and ends the previous one. Returns the name of its file.
    pub(crate) fn start_capture(&self, path: &Path) -> Result<PathBuf, CaptureError> {
        let path = self.services.capture.start(path)?;
        if let Some(shm) = &self.shm {
            shm.links.list.set_recorded(true);
        }
        Ok(path)
    }

    /// Ends the capture, if there is one.
    pub(crate) fn stop_capture(&self) {
        if let Some(shm) = &self.shm {
            shm.links.list.set_recorded(false);
        }
        self.services.capture.stop();
    }

    /// A number that no other object of this process has.
    pub(crate) fn next_id(&self) -> u32 {
        self.ids.fetch_add(1, Relaxed)
    }

    /// Notes that the application has taken `completions`.
    #[inline]
    pub(crate) fn application_took(&self, completions: u32) {
        self.activity.took(completions);
    }

    /// Notes that the application will wait for an event, so it stops polling now.
    #[inline]
    pub(crate) fn application_may_block(&self) {
        self.activity.armed();
        ThreadScratch::with(|scratch| scratch.rest.spin());
        self.schedule.background.end_nap();
    }
}

impl EngineRef {
    /// Makes an engine and starts its background thread.
    pub(crate) fn start(parts: EngineParts) -> io::Result<EngineRef> {
        fork::watch();
        let (engine, session) = Engine::new(parts)?;
        engine.wire.open_one_socket(engine.services.slots.first().number)?;
        let engine = Arc::new(engine);
        let thread = worker::spawn(engine.clone(), session)?;
        Ok(EngineRef(Arc::new(EngineGuard { engine, thread: Some(thread) })))
    }

    pub(crate) fn is_same(&self, other: &EngineRef) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The number of holds.
    pub(crate) fn holds(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    /// A hold that does not keep the engine alive.
    pub(crate) fn downgrade(&self) -> WeakEngine {
        WeakEngine(Arc::downgrade(&self.0))
    }
}

/// A hold that does not keep the engine alive.
pub(crate) struct WeakEngine(std::sync::Weak<EngineGuard>);

impl WeakEngine {
    /// The engine, if it is still there and is this process's own.
    pub(crate) fn upgrade(&self) -> Option<EngineRef> {
        self.0.upgrade().map(EngineRef).filter(|engine| engine.check().is_ok())
    }
}

impl Deref for EngineRef {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.0.engine
    }
}

impl std::fmt::Debug for EngineRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("slot", &self.services.slots.first().number).finish_non_exhaustive()
    }
}

impl Drop for EngineGuard {
    fn drop(&mut self) {
        if self.engine.check().is_err() {
            // They belong to the parent process: this one must not end its session, and does not have the thread.
            std::mem::forget((self.engine.clone(), self.thread.take()));
            return;
        }
        ThreadScratch::forget();
        self.engine.schedule.background.stop();
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            // The thread ends soon. If it has panicked, it has reported that itself.
            let _ = thread.join();
        }
    }
}
