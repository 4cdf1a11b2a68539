//! Devices: the way in.

use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::Waker;

use ::faults::FaultPlan;

use crate::engine::{EngineRef, start};
use crate::error::{CaptureError, Error, OpenError};
use crate::handles::channel::CompChannel;
use crate::handles::cq::{Cq, CqSpec};
use crate::handles::pd::Pd;
use crate::handles::qp::{Qp, QpSpec};
use crate::handles::srq::Srq;
use crate::handles::xrc::Xrcd;
use crate::objects::devices::Context;
use crate::objects::events::AsyncEvent;
use crate::objects::info::{DeviceCounters, DeviceInfo, PortInfo, PortState};
use crate::objects::limits;
use crate::objects::limits::Limits;
use crate::objects::srq::SrqAttr;

/// How to open a device.
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
    context: Arc<Context>,
    /// As it was when it was opened, for when its interface is gone.
    opened: Arc<DeviceInfo>,
}

impl Device {
    /// All devices. Attaches to the hub as [`open`](Device::open) does.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn list() -> Result<Vec<DeviceInfo>, OpenError> {
        Ok(start::engine()?.devices.list())
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
        let Some(info) = engine.devices.find(options.name.as_deref()) else {
            return Err(no_such_device(&engine, options));
        };
        let context = engine.devices.open(&info)?;
        Ok(Device { engine, context, opened: Arc::new(info) })
    }

    #[cfg(test)]
    pub(crate) fn engine(&self) -> &EngineRef {
        &self.engine
    }

    /// How many handles of whatever kind keep what all devices of this process share: sockets, memory, a thread.
    /// This device is one of them, each object that is not destroyed another.
    pub fn holds(&self) -> usize {
        self.engine.holds()
    }

    /// What it is, and how its port stands now.
    pub fn info(&self) -> DeviceInfo {
        self.engine.devices.of(&self.context).unwrap_or_else(|| {
            let mut gone = DeviceInfo::clone(&self.opened);
            gone.port.state = PortState::Down;
            gone
        })
    }

    /// How its port stands now.
    pub fn port(&self) -> PortInfo {
        self.info().port
    }

    /// What it can do at most.
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

    /// Makes a completion queue for `capacity` completions; its events go to `channel` and
    /// carry `cookie`.
    ///
    /// # Errors
    /// If the capacity is zero or above the limit, or the channel another device's.
    pub fn create_cq(&self, capacity: u32, channel: Option<&CompChannel>, cookie: u64) -> Result<Cq, Error> {
        self.create_cq_with(&CqSpec { capacity, channel, cookie, timestamps: false })
    }

    /// Makes a completion queue with everything that it may have.
    ///
    /// # Errors
    /// As [`create_cq`](Device::create_cq).
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

    /// Makes a shared receive queue of an XRC domain: target queue pairs of the domain receive
    /// into it what names its [`number`](Srq::number), and complete to `cq`.
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

    /// Takes the oldest asynchronous event. Never waits.
    pub fn next_event(&self) -> Option<AsyncEvent> {
        self.engine.check().ok()?;
        self.context.events().pop()
    }

    /// The waker to call, once, at the next asynchronous event. Events that are there already
    /// do not call it: look after setting it. It may be called with locks of this crate held, so
    /// it must only pass the news on, as wakers of executors do.
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

    /// What the engine has counted: for all devices of this process together, since its
    /// first was opened.
    pub fn counters(&self) -> DeviceCounters {
        self.engine.tell_tallies();
        self.engine.counters.snapshot()
    }

    /// Injects faults into everything this process sends from now on (and receivers not
    /// ready into what it receives); `None` ends it. The variable `LONGARM_FAULTS` sets the
    /// plan at first.
    pub fn set_faults(&self, plan: Option<FaultPlan>) {
        if self.engine.check().is_ok() {
            self.engine.set_faults(plan);
        }
    }

    /// The plan of faults in force.
    pub fn faults(&self) -> Option<FaultPlan> {
        self.engine.check().ok()?;
        self.engine.faults.plan()
    }

    /// Writes every packet that this process sends or receives from now on to a new file
    /// in pcapng format, and returns its name: if another process is writing to a file of
    /// that name, the process id is appended. The variable `LONGARM_CAPTURE` names a file from
    /// the start.
    ///
    /// What goes to peers on this host through shared memory is written as the packets that it would have been, at an
    /// interface of its own. What the peers' processors do in our memory is not seen, and so not written.
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

    /// Drives the device once, as polling an empty completion queue does. Returns whether
    /// anything had arrived.
    pub fn progress(&self) -> bool {
        self.engine.check().is_ok() && self.engine.progress()
    }
}

fn no_such_device(engine: &EngineRef, options: &OpenOptions) -> OpenError {
    let known: Vec<_> = engine.devices.list().into_iter().map(|info| info.name).collect();
    match &options.name {
        Some(name) if !known.is_empty() => OpenError::NoSuchDevice { name: name.clone(), known: known.join(", ") },
        _ => OpenError::NoDevice,
    }
}
