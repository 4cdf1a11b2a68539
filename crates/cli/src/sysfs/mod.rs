//! A tree like the kernel's `/sys/class/infiniband`, for programs that read it there.
//!
//! UCX, NCCL, perftest and others read facts from these files that the verbs interface
//! lacks: the type of a GID, the interface behind it, the NUMA node, the counters.
//! The layout is that of Linux (`Documentation/ABI/stable/sysfs-class-infiniband`); each
//! device has one port.
//!
//! [`class_tree`] computes the tree from the hub's records alone; [`Tree::write`] writes it to
//! a directory. The files do not change afterwards, and the counters are zero: `longarm status`
//! shows the real ones.

mod device;
mod port;
mod rate;
#[cfg(test)]
mod tests;
mod tree;

use hub::DeviceRecord;

pub(crate) use tree::Tree;

/// Directory of the devices below `/sys/class`.
pub(crate) const DEVICES: &str = "infiniband";

/// Directory of their nodes below `/sys/class`.
pub(crate) const NODES: &str = "infiniband_verbs";

/// The facts about one device that programs find in `/sys`.
#[derive(Clone, Debug)]
pub(crate) struct DeviceFacts<'a> {
    /// The hub's record of the device.
    pub(crate) record: &'a DeviceRecord,
    /// The number of its node: N of `/dev/infiniband/uverbsN`.
    pub(crate) number: usize,
    /// The device's location in the machine.
    pub(crate) place: DeviceLocation,
}

/// The location of a device in the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeviceLocation {
    /// The NUMA node, -1 if there is none.
    pub(crate) numa_node: i32,
    /// The processors of the NUMA node as a mask, if known.
    pub(crate) local_cpus: Option<String>,
}

impl DeviceLocation {
    /// The location of a device without a NUMA node.
    pub(crate) const NOWHERE: DeviceLocation = DeviceLocation { numa_node: -1, local_cpus: None };
}

/// The name of a device's node.
pub(crate) fn node_name(number: usize) -> String {
    format!("uverbs{number}")
}

/// The trees `infiniband` and `infiniband_verbs`, as they are below `/sys/class`.
pub(crate) fn class_tree(devices: &[DeviceFacts<'_>]) -> Tree {
    let mut tree = Tree::default();
    tree.directory(DEVICES);
    tree.value(format!("{NODES}/abi_version"), device::VERBS_ABI);
    for described in devices {
        device::describe(&mut tree, described);
    }
    tree
}
