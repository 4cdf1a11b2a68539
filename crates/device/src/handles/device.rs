//! Devices: the entry to this crate.

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::Waker;

use ::faults::FaultPlan;

use crate::engine::{EngineRef, start};
use crate::error::{CaptureError, Error, OpenError};
use crate::handles::channel::CompChannel;
use crate::handles::cq::{Cq, CqSpec};
use crate::handles::memory_watch::MemoryWatch;
use crate::handles::pd::Pd;
use crate::handles::qp::{Qp, QpSpec};
use crate::handles::srq::Srq;
use crate::handles::xrc::Xrcd;
use crate::objects::devices::DeviceContext;
use crate::objects::events::AsyncEvent;
use crate::objects::info::{DeviceCounters, DeviceInfo, PortInfo, PortState};
use crate::objects::limits;
use crate::objects::limits::Limits;
use crate::objects::srq::SrqAttr;

/// Options for opening a device.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// The device's name, or its interface's. `None`: the one that the hub prefers.
    pub name: Option<String>,
}

/// An open device. Each `open` gives a context of its own, with its own events; the engine
/// behind all of them is one per process.
#[derive(Clone, Debug)]
pub struct Device {
    engine: EngineRef,
    context: Arc<DeviceContext>,
    /// Its description at the time of `open`, for the case that its interface is gone.
    opened: Arc<DeviceInfo>,
}

impl Device {
    /// All devices. Attaches to the hub as [`open`](Device::open) does.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn list() -> Result<Vec<DeviceInfo>, OpenError> {
        Ok(start::engine()?.services.devices.list())
    }

    /// Opens one. The first in a process attaches to the hub (and starts it if need be) and
    /// starts the background thread.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(options: &OpenOptions) -> Result<Device, OpenError> {
        Device::on(start::engine()?, options)
    }

    /// Opens one of an engine's devices.
    pub(crate) fn on(engine: EngineRef, options: &OpenOptions) -> Result<Device, OpenError> {
        let Some(info) = engine.services.devices.find(options.name.as_deref()) else {
            return Err(no_such_device(&engine, options));
        };
        let context = engine.services.devices.open(&info)?;
        Ok(Device { engine, context, opened: Arc::new(info) })
    }

    #[cfg(test)]
    pub(crate) fn engine(&self) -> &EngineRef {
        &self.engine
    }

    /// The number of handles that keep the state which all devices of this process share: sockets, memory, a thread.
    /// This device is one of them. Each object that is not dropped is another.
    pub fn holds(&self) -> usize {
        self.engine.holds()
    }

    /// Its description, with the present state of its port.
    pub fn info(&self) -> DeviceInfo {
        self.engine.services.devices.of(&self.context).unwrap_or_else(|| {
            let mut gone = DeviceInfo::clone(&self.opened);
            gone.port.state = PortState::Down;
            gone
        })
    }

    /// The present state of its port.
    pub fn port(&self) -> PortInfo {
        self.info().port
    }

    /// Its limits.
    pub fn limits(&self) -> Limits {
        limits::reachable()
    }

    /// Makes a protection domain.
    ///
    /// # Errors
    /// Only in a forked child.
    pub fn alloc_pd(&self) -> Result<Pd, Error> {
        Pd::new(&self.engine)
    }

    /// Makes a completion channel.
    ///
    /// # Errors
    /// If the process has no descriptor left.
    pub fn create_channel(&self) -> Result<CompChannel, Error> {
        CompChannel::new(&self.engine)
    }

    /// Makes a watch over the memory of this process, for a thread that sleeps until a peer changes it.
    ///
    /// # Errors
    /// If the process has no descriptor left.
    pub fn watch_memory(&self) -> Result<MemoryWatch, Error> {
        MemoryWatch::new(&self.engine)
    }

    /// Makes a completion queue for `capacity` completions; its events go to `channel` and
    /// carry `cookie`.
    ///
    /// # Errors
    /// If the capacity is zero or above the limit, or the channel another device's.
    pub fn create_cq(&self, capacity: u32, channel: Option<&CompChannel>, cookie: u64) -> Result<Cq, Error> {
        self.create_cq_with(&CqSpec { capacity, channel, cookie, timestamps: false })
    }

    /// Makes a completion queue with all optional attributes.
    ///
    /// # Errors
    /// Those of [`create_cq`](Device::create_cq).
    pub fn create_cq_with(&self, spec: &CqSpec<'_>) -> Result<Cq, Error> {
        Cq::new(&self.engine, self.context.events(), spec)
    }

    /// Makes a shared receive queue. `limit` other than zero arms its limit event.
    ///
    /// # Errors
    /// If a size is above the limit.
    pub fn create_srq(&self, pd: &Pd, max_wr: u32, max_sge: u32, limit: u32) -> Result<Srq, Error> {
        Srq::new(&self.engine, self.context.events(), pd, &SrqAttr { max_wr, max_sge, limit })
    }

    /// Opens an XRC domain, for this process alone.
    ///
    /// # Errors
    /// Only in a forked child.
    pub fn open_xrcd(&self) -> Result<Xrcd, Error> {
        Xrcd::new(&self.engine)
    }

    /// Makes a shared receive queue of an XRC domain. Target queue pairs of the domain receive requests into it that name
    /// its [`number`](Srq::number), and complete to `cq`.
    ///
    /// # Errors
    /// If a size is above the limit, or a parent is another device's or destroyed.
    pub fn create_xrc_srq(&self, pd: &Pd, xrcd: &Xrcd, cq: &Cq, attr: &SrqAttr) -> Result<Srq, Error> {
        Srq::new_xrc(&self.engine, self.context.events(), (pd, xrcd, cq), attr)
    }

    /// Makes the target of an extended reliable connection, in state Reset. It has no queues of
    /// its own; the initiator is made by [`create_qp`](Device::create_qp) as
    /// [`QpType::XrcSend`](crate::QpType::XrcSend).
    ///
    /// # Errors
    /// If the domain is another device's or destroyed, or every number is taken.
    pub fn create_xrc_recv_qp(&self, xrcd: &Xrcd) -> Result<Qp, Error> {
        Qp::new_xrc_target(&self.engine, &self.context, xrcd)
    }

    /// Makes a queue pair, in state Reset.
    ///
    /// # Errors
    /// If a size is above the limit, a parent is another device's or destroyed, or every
    /// number is taken.
    pub fn create_qp(&self, spec: &QpSpec<'_>) -> Result<Qp, Error> {
        Qp::new(&self.engine, &self.context, spec)
    }

    /// Takes the oldest asynchronous event. Does not wait.
    pub fn next_event(&self) -> Option<AsyncEvent> {
        self.engine.check().ok()?;
        self.context.events().pop()
    }

    /// Sets the waker, which is called once, at the next asynchronous event. Pending events do not call it, so fetch
    /// events after this call. The caller of the waker may hold locks of this crate, so the waker must only pass the news
    /// on, as wakers of executors do.
    pub fn set_event_waker(&self, waker: Option<Waker>) {
        if self.engine.check().is_ok() {
            self.context.events().set_waker(waker);
        }
    }

    /// A descriptor that is readable exactly while [`next_event`](Device::next_event) has
    /// something. Do not read from it.
    pub fn event_fd(&self) -> BorrowedFd<'_> {
        self.context.events().fd()
    }

    /// The counters of all devices of this process together, since the first one was opened.
    pub fn counters(&self) -> DeviceCounters {
        self.engine.publish_tallies();
        self.engine.services.counters.snapshot()
    }

    /// Injects faults into everything that this process sends from now on, and receivers that are not ready into
    /// everything that it receives. `None` ends that. The variable `LONGARM_FAULTS` sets the first plan.
    pub fn set_faults(&self, plan: Option<FaultPlan>) {
        if self.engine.check().is_ok() {
            self.engine.set_faults(plan);
        }
    }

    /// The plan of faults in force.
    pub fn faults(&self) -> Option<FaultPlan> {
        self.engine.check().ok()?;
        self.engine.services.faults.plan()
    }

    /// Writes every packet that this process sends or receives from now on to a new file
    /// in pcapng format, and returns its name: if another process is writing to a file of
    /// that name, the process id is appended. The variable `LONGARM_CAPTURE` names a file from
    /// the start.
    ///
    /// Messages through shared memory are written as the packets that the wire would have carried, at an interface of
    /// their own. Accesses by the peers' processors to our memory cannot be seen, and so are not written.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn capture(&self, path: impl AsRef<Path>) -> Result<PathBuf, CaptureError> {
        self.engine.start_capture(path.as_ref())
    }

    /// Ends the capture, if there is one; the file is complete then.
    pub fn stop_capture(&self) {
        if self.engine.check().is_ok() {
            self.engine.stop_capture();
        }
    }

    /// Drives the device once, like a poll of an empty completion queue. Returns whether
    /// anything had arrived.
    pub fn progress(&self) -> bool {
        self.engine.check().is_ok() && self.engine.progress()
    }
}

fn no_such_device(engine: &EngineRef, options: &OpenOptions) -> OpenError {
    let known: Vec<_> = engine.services.devices.list().into_iter().map(|info| info.name).collect();
    match &options.name {
        Some(name) if !known.is_empty() => OpenError::NoSuchDevice { name: name.clone(), known: known.join(", ") },
        _ => OpenError::NoDevice,
    }
}
