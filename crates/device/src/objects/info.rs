//! The description of a device and the state of its port.

use std::net::IpAddr;

use transport::Mtu;
use wire::Gid;

use crate::objects::provider::Provider;

/// One device: a network interface that can carry RoCEv2.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceInfo {
    /// The provider that it is opened by.
    pub provider: Provider,
    /// Its name, such as `la_eth0`, or `mlx5_0` for a device of the system.
    pub name: String,
    /// The network interface.
    pub interface: String,
    /// Its index in the system.
    pub interface_index: u32,
    /// Identifies the machine's (or container's) whole set of devices.
    pub node_guid: u64,
    /// Identifies this device's port.
    pub port_guid: u64,
    /// Whether the interface is a loop-back one.
    pub loopback: bool,
    /// Its port at the time of the call.
    pub port: PortInfo,
}

/// The state of a port, numbered as `enum ibv_port_state`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum PortState {
    /// The interface is down.
    Down = 1,
    /// The interface is up.
    Active = 4,
}

/// The one port of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortInfo {
    /// Whether packets can pass.
    pub state: PortState,
    /// The largest payload per packet that the device can carry at all.
    pub max_mtu: Mtu,
    /// The largest payload that the interface's MTU allows now.
    pub active_mtu: Mtu,
    /// The GID table; the position is the index. Every entry is RoCE v2. A hole is all zeros.
    pub gids: Vec<Gid>,
    /// Link speed in megabits per second; zero if the interface does not say.
    pub speed_mbps: u32,
}

impl PortInfo {
    /// The index of the GID for an address.
    pub fn gid_index(&self, address: IpAddr) -> Option<usize> {
        let gid = Gid::from(address);
        self.gids.iter().position(|g| *g == gid)
    }
}

/// The counters of a device, by name. The names of drop reasons begin with `drop_`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DeviceCounters {
    pub(crate) values: Vec<(&'static str, u64)>,
}

impl DeviceCounters {
    /// Names and values in a fixed order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.values.iter().copied()
    }

    /// One value; zero if there is no such counter.
    pub fn get(&self, name: &str) -> u64 {
        self.iter().find(|(n, _)| *n == name).map_or(0, |(_, value)| value)
    }

    /// Packets dropped, for any reason.
    pub fn dropped(&self) -> u64 {
        self.iter().filter(|(n, _)| n.starts_with("drop_")).map(|(_, value)| value).sum()
    }
}
