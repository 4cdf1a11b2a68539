//! Devices of the system.

use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::task::Waker;

use ::device::{AsyncEvent, Capabilities, DeviceInfo, Error, Limits, OpenError, PortInfo};

use crate::channel::CompChannel;
use crate::cm;
use crate::cq::Cq;
use crate::device_handle::DeviceHandle;
use crate::failure::not_loaded;
use crate::info;
use crate::library::{self, Verbs};
use crate::opened::{self, OpenedContext};
use crate::pd::Pd;
use crate::qp::{Qp, QpSpec};
use crate::srq::Srq;

/// An open device of the system. Clones name the same one; it is closed when all objects made from it are gone.
#[derive(Clone, Debug)]
pub struct Device {
    handle: Arc<DeviceHandle>,
}

impl Device {
    /// The devices of the system; none if it has no RDMA libraries. Devices that cannot be opened are left out.
    pub fn list() -> Vec<DeviceInfo> {
        Device::names().iter().filter_map(|name| Some(Device::open(name).ok()?.info())).collect()
    }

    /// The names of the devices of the system.
    pub fn names() -> Vec<String> {
        library::verbs().map(opened::names).unwrap_or_default()
    }

    /// Whether the system's libraries can be loaded and are those of the system, not Longarm's own in their place
    /// (`longarm run`).
    pub fn is_of_system() -> bool {
        library::verbs().is_ok() && !library::is_ours()
    }

    /// Opens the device `name`, or the one with the network interface `name`.
    ///
    /// # Errors
    /// If the system has no RDMA libraries or no such device, or refuses to open it.
    pub fn open(name: &str) -> Result<Device, OpenError> {
        let library = library::verbs().map_err(not_loaded)?;
        let names = opened::names(library);
        if !names.iter().any(|known| known == name) {
            return Device::with_interface(library, &names, name);
        }
        Device::open_by_name(library, name)
    }

    fn with_interface(library: &'static Verbs, names: &[String], interface: &str) -> Result<Device, OpenError> {
        let opened = names.iter().filter_map(|name| Device::open_by_name(library, name).ok());
        let found = opened.into_iter().find(|device| device.info().interface == interface);
        found.ok_or_else(|| OpenError::NoSuchDevice { name: interface.to_owned(), known: names.join(", ") })
    }

    fn open_by_name(library: &'static Verbs, name: &str) -> Result<Device, OpenError> {
        let context = OpenedContext::open(library, name)?;
        Ok(Device { handle: Arc::new(DeviceHandle::new(context, name)?) })
    }

    /// Its name, interface and identity.
    pub fn info(&self) -> DeviceInfo {
        info::device(&self.handle)
    }

    /// Its first port.
    pub fn port(&self) -> PortInfo {
        info::port(&self.handle)
    }

    /// The IP addresses of its first port. On Ethernet the GIDs are made of them; elsewhere the connection manager is
    /// asked, so there are none without `librdmacm.so.1`.
    pub fn addresses(&self) -> Vec<IpAddr> {
        match info::is_ethernet(&self.handle) {
            true => self.handle.gids().into_iter().map(|entry| entry.gid.ip()).collect(),
            false => cm::addresses::of_device(self.handle.name()),
        }
    }

    /// Its limits. The bytes of inline data are found out by making a queue pair.
    pub fn limits(&self) -> Limits {
        self.handle.limits(|| Limits { max_inline_bytes: self.probe_inline(), ..info::limits(&self.handle) })
    }

    /// The services and operations that it has.
    pub fn capabilities(&self) -> Capabilities {
        self.handle.capabilities(|| info::capabilities(&self.handle))
    }

    /// Makes a protection domain.
    ///
    /// # Errors
    /// Those of `ibv_alloc_pd(3)`.
    pub fn alloc_pd(&self) -> Result<Pd, Error> {
        Pd::new(&self.handle)
    }

    /// Makes a channel for events of completion queues.
    ///
    /// # Errors
    /// If the process has no descriptor left.
    pub fn create_channel(&self) -> Result<CompChannel, Error> {
        CompChannel::new()
    }

    /// Makes a completion queue for at least `capacity` completions. `cookie` names it in its events.
    ///
    /// # Errors
    /// Those of `ibv_create_cq(3)`.
    pub fn create_cq(&self, capacity: u32, channel: Option<&CompChannel>, cookie: u64) -> Result<Cq, Error> {
        Cq::new(&self.handle, capacity, channel, cookie)
    }

    /// Makes a shared receive queue.
    ///
    /// # Errors
    /// Those of `ibv_create_srq(3)`.
    pub fn create_srq(&self, pd: &Pd, max_wr: u32, max_sge: u32, limit: u32) -> Result<Srq, Error> {
        Srq::new(pd, max_wr, max_sge, limit)
    }

    /// Makes a queue pair.
    ///
    /// # Errors
    /// Those of `ibv_create_qp(3)`.
    pub fn create_qp(&self, spec: &QpSpec<'_>) -> Result<Qp, Error> {
        Qp::new(&self.handle, &self.limits(), spec)
    }

    /// Takes the oldest asynchronous event.
    pub fn next_event(&self) -> Option<AsyncEvent> {
        self.handle.reactor.events().next()
    }

    /// Sets the waker for the next asynchronous event; it is called once.
    pub fn set_event_waker(&self, waker: Option<Waker>) {
        self.handle.reactor.events().set_waker(waker);
    }

    /// Readable exactly while there are asynchronous events. Do not read from it.
    pub fn event_fd(&self) -> BorrowedFd<'_> {
        self.handle.reactor.events().fd()
    }

    /// The most inline data with which the device makes a queue pair, up to 1024 bytes.
    fn probe_inline(&self) -> u32 {
        const SIZES: [u32; 8] = [1024, 512, 256, 128, 96, 64, 32, 16];
        let fits = |bytes: u32| {
            let (pd, cq) = (self.alloc_pd().ok()?, self.create_cq(4, None, 0).ok()?);
            Qp::probe(&self.handle, &pd, &cq, bytes)
        };
        SIZES.into_iter().find_map(fits).unwrap_or(0)
    }
}
