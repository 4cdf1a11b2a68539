//! A tree like the kernel's `/sys/class/infiniband`, for programs that read it there.
//!
//! UCX, NCCL, perftest and others learn things from these files that the verbs interface
//! does not tell: the type of a GID, the interface behind it, the NUMA node, the counters.
//! The layout is that of Linux (`Documentation/ABI/stable/sysfs-class-infiniband`); each
//! device has one port.
//!
//! [`class_tree`] computes the tree from the hub's records alone; [`Tree::write`] puts it
//! somewhere. The files do not change afterwards, and the counters are zero: `longarm status`
//! shows those that count.

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

/// What programs find in `/sys` of one device.
#[derive(Clone, Debug)]
pub(crate) struct Described<'a> {
    /// What the hub knows of it.
    pub(crate) record: &'a DeviceRecord,
    /// The number of its node: N of `/dev/infiniband/uverbsN`.
    pub(crate) number: usize,
    /// Where it is in the machine.
    pub(crate) place: Place,
}

/// Where a device is in the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The NUMA node, -1 if there is none.
    pub(crate) numa_node: i32,
    /// The processors near it as a mask, if known.
    pub(crate) local_cpus: Option<String>,
}

impl Place {
    /// Of a device that is nowhere in particular.
    pub(crate) const NOWHERE: Place = Place { numa_node: -1, local_cpus: None };
}

/// The name of a device's node.
pub(crate) fn node_name(number: usize) -> String {
    format!("uverbs{number}")
}

/// The trees `infiniband` and `infiniband_verbs`, as they are below `/sys/class`.
pub(crate) fn class_tree(devices: &[Described<'_>]) -> Tree {
    let mut tree = Tree::default();
    tree.directory(DEVICES);
    tree.value(format!("{NODES}/abi_version"), device::VERBS_ABI);
    for described in devices {
        device::describe(&mut tree, described);
    }
    tree
}
