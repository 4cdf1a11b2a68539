//! Contexts: open devices.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use device::{Capabilities, CaptureError, DeviceCounters, DeviceInfo, Limits, OpenError, PortInfo, Provider};
use faults::FaultPlan;
use wire::Gid;

use crate::error::ResourceError;
use crate::events::Events;
use crate::flight::RequestKey;

/// An open device: one network interface of this machine, as an RDMA device.
///
/// All other objects are made from it. A clone names the same device; the device is closed when
/// the last object that was made from it is gone.
#[derive(Clone)]
pub struct Device {
    core: Arc<DeviceCore>,
}

struct DeviceCore {
    handle: provider::Device,
    queues: AtomicU32,
    cookies: AtomicU64,
}

impl Device {
    /// All devices of this machine: Longarm's own, and those of the system that its `libibverbs.so.1` knows. The first
    /// call in a process starts the hub, if none is running.
    ///
    /// # Errors
    /// If no hub can be reached or started.
    pub fn list() -> Result<Vec<DeviceInfo>, OpenError> {
        provider::Device::list_all()
    }

    /// Opens the default device.
    ///
    /// The variable `LONGARM_DEVICE` names it, and `LONGARM_PROVIDER` chooses between the devices of the system (`verbs`)
    /// and Longarm's own (`longarm`). Without them it is a device of the system with an active port, if there is one.
    /// Otherwise it is the device of Longarm that reaches furthest.
    ///
    /// # Errors
    /// If no hub can be reached or started, or there is no device (by that name).
    pub fn open() -> Result<Device, OpenError> {
        Device::open_on(None, device_of_environment())
    }

    /// Opens the device `name`, such as `la_eth0`, `mlx5_0`, `rxe0`. The name of its network interface does as well.
    ///
    /// # Errors
    /// As [`open`](Device::open).
    pub fn open_named(name: &str) -> Result<Device, OpenError> {
        Device::open_on(None, Some(name.to_owned()))
    }

    /// Opens the default device of one provider, or the one named by `LONGARM_DEVICE`.
    ///
    /// # Errors
    /// As [`open`](Device::open), and if the system has no RDMA device or library.
    pub fn open_by(provider: Provider) -> Result<Device, OpenError> {
        Device::open_on(Some(provider), device_of_environment())
    }

    pub(crate) fn open_on(provider: Option<Provider>, name: Option<String>) -> Result<Device, OpenError> {
        Ok(Device::of_handle(provider::Device::open(provider, name)?))
    }

    fn of_handle(handle: provider::Device) -> Device {
        Device { core: Arc::new(DeviceCore { handle, queues: AtomicU32::new(0), cookies: AtomicU64::new(0) }) }
    }

    /// Its provider: Longarm, or the system.
    pub fn provider(&self) -> Provider {
        self.core.handle.provider()
    }

    /// The services and operations that the device has. Others are refused with an error.
    pub fn capabilities(&self) -> Capabilities {
        self.core.handle.capabilities()
    }

    /// The device's name, interface and identity.
    pub fn info(&self) -> DeviceInfo {
        self.core.handle.info()
    }

    /// Its port: state, MTU, addresses.
    pub fn port(&self) -> PortInfo {
        self.core.handle.port()
    }

    /// The IP addresses at which programs connect through this device: one of them goes to [`Listener::bind`], and peers on
    /// this host or another [`connect`](crate::connect) to it. IPv4 comes before IPv6, and loop-back last. Link-local
    /// addresses of IPv6 are left out.
    ///
    /// ```
    /// use longarm::{Device, Endpoint, Listener};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let device = Device::open()?;                                   // Longarm's, or a card of the system
    /// let address = *device.addresses().first().ok_or("the device has no address")?;
    /// # let second = std::time::Duration::from_secs(10);
    /// let listener = Listener::bind((address, 0)).wait(second)?;
    /// let calling = Endpoint::connect(listener.local_addr(), b"");
    /// # let server = listener.accept().wait(second)?;
    /// # assert_eq!(calling.wait(second)?.device().info().name, device.info().name);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`Listener::bind`]: crate::Listener::bind
    pub fn addresses(&self) -> Vec<IpAddr> {
        self.core.handle.addresses()
    }

    /// The device's limits.
    pub fn limits(&self) -> Limits {
        self.core.handle.limits()
    }

    /// The asynchronous events of this device: queue pairs that fail, ports that go down.
    pub fn events(&self) -> Events {
        Events::new(self.core.handle.clone())
    }

    /// The device's counters in this process, among them dropped packets by reason. A device of the system has none.
    pub fn counters(&self) -> DeviceCounters {
        self.core.handle.counters()
    }

    /// Injects faults into everything that this process sends and receives from now on; `None`
    /// ends it. The variable `LONGARM_FAULTS` sets a plan for programs that do not call this.
    ///
    /// ```no_run
    /// # let device = longarm::Device::open()?;
    /// device.set_faults(Some("seed=7,loss=0.05,dup=0.01".parse()?))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If it is a device of the system.
    pub fn set_faults(&self, plan: Option<FaultPlan>) -> Result<(), ResourceError> {
        Ok(self.core.handle.set_faults(plan)?)
    }

    /// Writes every packet from now on to a new file, in pcapng format. Returns the file's name.
    /// Messages to other processes of this host travel through shared memory. The capture shows them as the
    /// equivalent packets, at an interface of their own. It lacks the accesses that peers make to our memory.
    ///
    /// # Errors
    /// If the file cannot be made, or it is a device of the system.
    pub fn capture(&self, path: impl AsRef<Path>) -> Result<PathBuf, CaptureError> {
        self.core.handle.capture(path)
    }

    /// Ends the capture, if there is one. The file is complete then.
    pub fn stop_capture(&self) {
        self.core.handle.stop_capture();
    }

    pub(crate) fn handle(&self) -> &provider::Device {
        &self.core.handle
    }

    /// True if both are the same device of the machine, opened once or twice.
    pub(crate) fn names_same(&self, other: &Device) -> bool {
        self.is_same(other) || (self.provider() == other.provider() && self.info().name == other.info().name)
    }

    /// True if both are one open device.
    pub(crate) fn is_same(&self, other: &Device) -> bool {
        Arc::ptr_eq(&self.core, &other.core)
    }

    /// A number for a work queue. The numbers repeat after 2^24 queues.
    pub(crate) fn next_queue(&self) -> u32 {
        self.core.queues.fetch_add(1, Relaxed) % RequestKey::MAX_QUEUES
    }

    pub(crate) fn next_cookie(&self) -> u64 {
        self.core.cookies.fetch_add(1, Relaxed) + 1
    }

    /// Our source address for `peer`: the preferred one, or the first of the same
    /// family. Link-local addresses go with link-local peers.
    pub(crate) fn source_for(&self, peer: Gid, preferred: Gid) -> Option<Gid> {
        if same_kind(preferred, peer) {
            return Some(preferred);
        }
        let gids = self.gids();
        let found = gids.iter().find(|gid| same_kind(**gid, peer));
        found.or_else(|| gids.iter().find(|gid| gid.ip().is_ipv4() == peer.ip().is_ipv4())).copied()
    }

    /// The addresses of the port, without the holes of its table.
    fn gids(&self) -> Vec<Gid> {
        self.port().gids.into_iter().filter(|gid| *gid != Gid::default()).collect()
    }

    /// Our address for queue pairs whose builder sets none: IPv4 before IPv6, link-local
    /// ones last.
    pub(crate) fn default_gid(&self) -> Option<Gid> {
        self.gids().into_iter().min_by_key(|gid| (is_link_local(*gid), gid.ip().is_ipv6()))
    }
}

impl From<device::Device> for Device {
    /// A device on a device of Longarm that was opened by other means.
    fn from(device: device::Device) -> Device {
        Device::of_handle(provider::Device::Longarm(device))
    }
}

fn device_of_environment() -> Option<String> {
    guest::environment::text("LONGARM_DEVICE").filter(|name| !name.is_empty())
}

fn same_kind(a: Gid, b: Gid) -> bool {
    a.ip().is_ipv4() == b.ip().is_ipv4() && is_link_local(a) == is_link_local(b)
}

fn is_link_local(gid: Gid) -> bool {
    match gid.ip() {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({})", self.info().name)
    }
}
