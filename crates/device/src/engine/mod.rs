//! The engine: what all devices of a process share.
//!
//! Lock order, from the outside in: receive side, queue pair, shared receive queue,
//! completion queue. Never two queue pairs at once. Nothing foreign (a waker, the caller's
//! channel) is called while one of them is held.

pub(crate) mod activity;
pub(crate) mod background;
pub(crate) mod look;
mod nap;
mod overrun;
pub(crate) mod progress;
pub(crate) mod rest;
pub(crate) mod scratch;
pub(crate) mod start;
mod usage;
pub(crate) mod watch;

use std::io;
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::thread::JoinHandle;

use hub::DeviceRecord;
use hub::client::Session;
use memory::Registry;
use parking_lot::Mutex;
use transport::{Mtu, ReorderBudget, Tuning};
use udp::{RxSocket, TxPool};

use crate::error::{CaptureError, Error};
use crate::objects::capture::Capture;
use crate::objects::counters::Counters;
use crate::objects::devices::{Context, Devices};
use crate::objects::faults::FaultGate;
use crate::objects::multicast::Groups;
use crate::objects::owner::OwnerProcess;
use crate::objects::quota::Quotas;
use crate::qp::entry::QpEntry;
use crate::qp::slots::Slots;
use crate::schedule::due::DueList;
use crate::schedule::later::Later;
use crate::schedule::stalled::Stalled;
use crate::schedule::timers::Timers;
use crate::shm::ShmSide;
use crate::wire::destination::Destinations;
use activity::Activity;
use background::{Background, wake_descriptor};
use guest::fork;
use scratch::Scratch;
use watch::Watch;

/// How long a sender waits for room in a socket's buffer before it gives packets up.
const TX_WAIT_MS: u16 = 10;

/// What an engine is made of.
pub(crate) struct Parts {
    /// Our slots, by the high byte of their queue pair numbers, with the sockets that get packets for them.
    pub(crate) sockets: Vec<(u8, OwnedFd)>,
    /// The devices there are.
    pub(crate) devices: Vec<DeviceRecord>,
    /// The session with the hub, if there is a hub.
    pub(crate) session: Option<Session>,
    /// The counters, whose page the hub knows.
    pub(crate) counters: Counters,
    /// The memory that the device reaches.
    pub(crate) registry: Registry,
    /// The bell that peers on this host ring when this process sleeps.
    pub(crate) wake: OwnedFd,
    /// What there is for peers on this host, if they may come.
    pub(crate) shm: Option<ShmSide>,
    /// Whether a poll that finds nothing may sleep while others want the processor.
    pub(crate) naps: bool,
}

pub(crate) struct Engine {
    owner: OwnerProcess,
    pub(crate) registry: Arc<Registry>,
    pub(crate) slots: Slots,
    pub(crate) tx: TxPool,
    pub(crate) destinations: Destinations<Arc<QpEntry>>,
    pub(crate) due: DueList,
    /// Queue pairs with more to send than one call should.
    pub(crate) backlog: Mutex<Vec<Arc<QpEntry>>>,
    pub(crate) backlogged: AtomicBool,
    pub(crate) timers: Timers,
    pub(crate) background: Background,
    pub(crate) groups: Groups,
    /// What queue pairs may keep of packets that came before their turn.
    pub(crate) reorder: Arc<ReorderBudget>,
    pub(crate) faults: FaultGate,
    pub(crate) capture: Arc<Capture>,
    pub(crate) counters: Counters,
    pub(crate) devices: Devices,
    pub(crate) ids: AtomicU32,
    pub(crate) activity: Activity,
    pub(crate) watch: Watch,
    pub(crate) naps: bool,
    pub(crate) shm: Option<ShmSide>,
    pub(crate) later: Later,
    pub(crate) stalled: Stalled,
    pub(crate) quotas: Quotas,
}

/// A counted hold on the engine. With the last one the background thread ends.
#[derive(Clone)]
pub(crate) struct EngineRef(Arc<Guard>);

struct Guard {
    engine: Arc<Engine>,
    thread: Option<JoinHandle<()>>,
}

impl Engine {
    fn new(parts: Parts) -> io::Result<(Engine, Option<Session>)> {
        let slots = Slots::new(parts.sockets, parts.shm.as_ref().map(|shm| &*shm.export))?;
        let engine = Engine {
            owner: OwnerProcess::this(),
            registry: Arc::new(parts.registry),
            destinations: Destinations::new(slots.first().socket.receive_buffer_bytes()?),
            slots,
            tx: TxPool::new(TX_WAIT_MS),
            due: DueList::default(),
            backlog: Mutex::default(),
            backlogged: AtomicBool::new(false),
            timers: Timers::default(),
            background: Background::new(wake_descriptor()?),
            groups: Groups::default(),
            reorder: Arc::new(ReorderBudget::new(ReorderBudget::DEFAULT_BYTES)),
            faults: FaultGate::default(),
            capture: Arc::default(),
            counters: parts.counters,
            devices: Devices::new(parts.devices),
            ids: AtomicU32::new(1),
            activity: Activity::default(),
            watch: Watch::new(parts.wake)?,
            naps: parts.naps,
            shm: parts.shm,
            later: Later::default(),
            stalled: Stalled::default(),
            quotas: Quotas::default(),
        };
        if let Some(shm) = &engine.shm {
            engine.registry.set_mirror(shm.export.clone());
        }
        Ok((engine, parts.session))
    }

    /// Refuses a forked child.
    #[inline]
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.owner.check()
    }

    pub(crate) fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// How queue pairs behave here.
    pub(crate) fn tuning(&self) -> Tuning {
        self.destinations.tuning()
    }

    /// The largest payload of a packet that the port of a context carries now.
    pub(crate) fn mtu_of(&self, context: &Context) -> Mtu {
        self.devices.of(context).map_or(Mtu::B4096, |info| info.port.active_mtu)
    }

    /// The socket that multicast groups are joined with.
    pub(crate) fn socket(&self) -> &RxSocket {
        &self.slots.first().socket
    }

    /// Injects faults from now on, or ends that.
    pub(crate) fn set_faults(&self, plan: Option<::faults::FaultPlan>) {
        if let Some(shm) = &self.shm {
            shm.links.set_direct(plan.is_none());
        }
        self.faults.set(plan);
    }

    /// Starts a capture, ending the one there is; returns the name of its file.
    pub(crate) fn start_capture(&self, path: &Path) -> Result<PathBuf, CaptureError> {
        let path = self.capture.start(path)?;
        if let Some(shm) = &self.shm {
            shm.links.set_recorded(true);
        }
        Ok(path)
    }

    /// Ends the capture, if there is one.
    pub(crate) fn stop_capture(&self) {
        if let Some(shm) = &self.shm {
            shm.links.set_recorded(false);
        }
        self.capture.stop();
    }

    /// Whether a queue pair number with this high byte is one of ours.
    #[inline]
    pub(crate) fn is_own_slot(&self, slot: u8) -> bool {
        self.slots.with_number(slot).is_some()
    }

    /// A number that no other completion queue or shared receive queue has.
    pub(crate) fn next_id(&self) -> u32 {
        self.ids.fetch_add(1, Relaxed)
    }
}

impl EngineRef {
    /// Makes an engine and starts its background thread.
    pub(crate) fn start(parts: Parts) -> io::Result<EngineRef> {
        fork::watch();
        let (engine, session) = Engine::new(parts)?;
        engine.open_one_socket()?;
        let engine = Arc::new(engine);
        let thread = background::spawn(engine.clone(), session)?;
        Ok(EngineRef(Arc::new(Guard { engine, thread: Some(thread) })))
    }

    pub(crate) fn is_same(&self, other: &EngineRef) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// How many holds there are.
    pub(crate) fn holds(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    /// A hold that does not keep the engine alive.
    pub(crate) fn downgrade(&self) -> WeakEngine {
        WeakEngine(Arc::downgrade(&self.0))
    }
}

/// What [`EngineRef::downgrade`] gives.
pub(crate) struct WeakEngine(std::sync::Weak<Guard>);

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
        f.debug_struct("Engine").field("slot", &self.slots.first().number).finish_non_exhaustive()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.engine.check().is_err() {
            // The parent's: its session and sockets are not ours to end, and the thread is
            // not here.
            std::mem::forget((self.engine.clone(), self.thread.take()));
            return;
        }
        Scratch::forget();
        self.engine.background.stop();
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            // It ends at once; a panic of its own was reported by itself.
            let _ = thread.join();
        }
    }
}
