//! Devices.

use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::task::Waker;

use device::{
    AsyncEvent, Capabilities, CaptureError, DeviceCounters, DeviceInfo, Error, Limits, OpenError, OpenOptions,
    PortInfo, PortState, Provider,
};
use faults::FaultPlan;
use wire::Gid;

use crate::choice;
use crate::cq::{CompChannel, Cq};
use crate::memory::Pd;
use crate::qp::{Qp, QpSpec, Srq};

/// An open device.
#[derive(Clone, Debug)]
pub enum Device {
    /// See [`Provider::Longarm`].
    Longarm(device::Device),
    /// See [`Provider::Verbs`].
    Verbs(verbs::Device),
}

const NO_MEMORY_WATCH: Error = Error::Invalid("only Longarm's own devices tell of changes of memory");
const NO_INSTRUMENTS: Error = Error::Invalid("only Longarm's own devices inject faults and capture packets");

impl Device {
    /// All devices: Longarm's own, then the system's. Under `longarm run` those are Longarm's again, and listed once.
    ///
    /// # Errors
    /// If Longarm's hub can be neither reached nor started.
    pub fn list_all() -> Result<Vec<DeviceInfo>, OpenError> {
        let mut all = device::Device::list()?;
        if verbs::Device::is_of_system() {
            all.extend(verbs::Device::list());
        }
        Ok(all)
    }

    /// The devices of a provider.
    ///
    /// # Errors
    /// If Longarm's hub can be neither reached nor started.
    pub fn list(provider: Provider) -> Result<Vec<DeviceInfo>, OpenError> {
        match provider {
            Provider::Longarm => device::Device::list(),
            Provider::Verbs => Ok(verbs::Device::list()),
        }
    }

    /// Opens a device: by its own name or that of its network interface, or else the one that the provider prefers. If no
    /// provider is given, the name of a device of the system decides for it; other names are left to the
    /// [preferred](crate::preferred) provider.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(provider: Option<Provider>, name: Option<String>) -> Result<Device, OpenError> {
        let by_name = || name.as_ref().filter(|name| is_of_system(name)).map(|_| Provider::Verbs);
        let provider = match provider.or_else(by_name) {
            Some(provider) => provider,
            None => choice::preferred()?,
        };
        match provider {
            Provider::Longarm => device::Device::open(&OpenOptions { name }).map(Device::Longarm),
            Provider::Verbs => open_of_system(name).map(Device::Verbs),
        }
    }

    /// Its provider.
    pub fn provider(&self) -> Provider {
        match self {
            Device::Longarm(_) => Provider::Longarm,
            Device::Verbs(_) => Provider::Verbs,
        }
    }

    /// Its name, interface and identity.
    pub fn info(&self) -> DeviceInfo {
        either!(self, device => device.info())
    }

    /// Its port.
    pub fn port(&self) -> PortInfo {
        either!(self, device => device.port())
    }

    /// The IP addresses at which programs connect through it, those that reach furthest first: IPv4 before IPv6,
    /// loop-back last. Link-local addresses of IPv6 are left out: alone they name no interface.
    pub fn addresses(&self) -> Vec<IpAddr> {
        let mut addresses = match self {
            Device::Longarm(device) => {
                device.port().gids.into_iter().filter(|gid| *gid != Gid::default()).map(Gid::ip).collect()
            }
            Device::Verbs(device) => device.addresses(),
        };
        addresses.retain(|address| !matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local()));
        addresses.sort_by_key(|address| (address.is_loopback(), address.is_ipv6()));
        addresses.dedup();
        addresses
    }

    /// Its limits.
    pub fn limits(&self) -> Limits {
        either!(self, device => device.limits())
    }

    /// The services and operations that it has.
    pub fn capabilities(&self) -> Capabilities {
        match self {
            Device::Longarm(_) => Capabilities::LONGARM,
            Device::Verbs(device) => device.capabilities(),
        }
    }

    /// Makes a protection domain.
    ///
    /// # Errors
    /// If the device refuses.
    pub fn alloc_pd(&self) -> Result<Pd, Error> {
        Ok(match self {
            Device::Longarm(device) => Pd::Longarm(device.alloc_pd()?),
            Device::Verbs(device) => Pd::Verbs(device.alloc_pd()?),
        })
    }

    /// Makes a watch over the memory of this process.
    ///
    /// # Errors
    /// If the process has no descriptor left, or the device is one of the system: its peers change memory and tell nobody.
    pub fn watch_memory(&self) -> Result<device::MemoryWatch, Error> {
        match self {
            Device::Longarm(device) => device.watch_memory(),
            Device::Verbs(_) => Err(NO_MEMORY_WATCH),
        }
    }

    /// Makes a channel for events of completion queues.
    ///
    /// # Errors
    /// If the process has no descriptor left.
    pub fn create_channel(&self) -> Result<CompChannel, Error> {
        Ok(match self {
            Device::Longarm(device) => CompChannel::Longarm(device.create_channel()?),
            Device::Verbs(device) => CompChannel::Verbs(device.create_channel()?),
        })
    }

    /// Makes a completion queue; `cookie` names it in its events.
    ///
    /// # Errors
    /// If the device refuses, or the channel is of another provider.
    pub fn create_cq(&self, capacity: u32, channel: Option<&CompChannel>, cookie: u64) -> Result<Cq, Error> {
        Ok(match self {
            Device::Longarm(device) => {
                let channel = channel.map(CompChannel::longarm).transpose()?;
                Cq::Longarm(device.create_cq(capacity, channel, cookie)?)
            }
            Device::Verbs(device) => {
                let channel = channel.map(CompChannel::verbs).transpose()?;
                Cq::Verbs(device.create_cq(capacity, channel, cookie)?)
            }
        })
    }

    /// Makes a shared receive queue.
    ///
    /// # Errors
    /// If the device refuses, or the domain is of another provider.
    pub fn create_srq(&self, pd: &Pd, max_wr: u32, max_sge: u32, limit: u32) -> Result<Srq, Error> {
        Ok(match self {
            Device::Longarm(device) => Srq::Longarm(device.create_srq(pd.longarm()?, max_wr, max_sge, limit)?),
            Device::Verbs(device) => Srq::Verbs(device.create_srq(pd.verbs()?, max_wr, max_sge, limit)?),
        })
    }

    /// Makes a queue pair.
    ///
    /// # Errors
    /// If the device refuses, or an object of the specification is of another provider.
    pub fn create_qp(&self, spec: &QpSpec<'_>) -> Result<Qp, Error> {
        Ok(match self {
            Device::Longarm(device) => Qp::Longarm(device.create_qp(&spec.longarm()?)?),
            Device::Verbs(device) => Qp::Verbs(device.create_qp(&spec.verbs()?)?),
        })
    }

    /// Takes the oldest asynchronous event.
    pub fn next_event(&self) -> Option<AsyncEvent> {
        either!(self, device => device.next_event())
    }

    /// Sets the waker for the next asynchronous event; it is called once.
    pub fn set_event_waker(&self, waker: Option<Waker>) {
        either!(self, device => device.set_event_waker(waker));
    }

    /// Readable exactly while there are asynchronous events. Do not read from it.
    pub fn event_fd(&self) -> BorrowedFd<'_> {
        either!(self, device => device.event_fd())
    }

    /// Its counters in this process; a device of the system has none.
    pub fn counters(&self) -> DeviceCounters {
        match self {
            Device::Longarm(device) => device.counters(),
            Device::Verbs(_) => DeviceCounters::default(),
        }
    }

    /// Injects faults from now on; `None` ends it.
    ///
    /// # Errors
    /// If it is a device of the system.
    pub fn set_faults(&self, plan: Option<FaultPlan>) -> Result<(), Error> {
        match self {
            Device::Longarm(device) => {
                device.set_faults(plan);
                Ok(())
            }
            Device::Verbs(_) => Err(NO_INSTRUMENTS),
        }
    }

    /// The plan of the faults that it injects now.
    pub fn faults(&self) -> Option<FaultPlan> {
        match self {
            Device::Longarm(device) => device.faults(),
            Device::Verbs(_) => None,
        }
    }

    /// Writes every packet to a new file from now on. Returns its name.
    ///
    /// # Errors
    /// If the file cannot be made, or it is a device of the system.
    pub fn capture(&self, path: impl AsRef<Path>) -> Result<PathBuf, CaptureError> {
        match self {
            Device::Longarm(device) => device.capture(path),
            Device::Verbs(_) => Err(CaptureError {
                path: path.as_ref().display().to_string(),
                source: std::io::Error::new(std::io::ErrorKind::Unsupported, NO_INSTRUMENTS.to_string()),
            }),
        }
    }

    /// Ends the capture, if there is one.
    pub fn stop_capture(&self) {
        if let Device::Longarm(device) = self {
            device.stop_capture();
        }
    }
}

/// Whether the system has an RDMA device of that name. Longarm's own library in its place does not count.
fn is_of_system(name: &str) -> bool {
    verbs::Device::is_of_system() && verbs::Device::names().iter().any(|known| known == name)
}

fn open_of_system(name: Option<String>) -> Result<verbs::Device, OpenError> {
    match name {
        Some(name) => verbs::Device::open(&name),
        None => {
            let devices = verbs::Device::list();
            let active = devices.iter().find(|info| info.port.state == PortState::Active);
            verbs::Device::open(&active.or(devices.first()).ok_or(OpenError::NoSystemDevice)?.name)
        }
    }
}
