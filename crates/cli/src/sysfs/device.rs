//! The files of a device and of its node.

use super::{DEVICES, DeviceFacts, NODES, node_name, port};

/// Version of the interface between libibverbs and the kernel, in the file `abi_version`.
pub(super) const VERBS_ABI: u32 = 6;

/// Version of the driver's own interface. Only this driver uses it.
const DRIVER_ABI: u32 = 1;

/// Major and first minor number of the nodes, as Linux assigns them.
const NODE_NUMBERS: (usize, usize) = (231, 192);

/// An unassigned PCI vendor, so that no program takes the device for one that it knows.
const VENDOR: &str = "0x0000";

/// The class of InfiniBand controllers.
const PCI_CLASS: &str = "0x020700";

pub(super) fn describe(tree: &mut super::Tree, described: &DeviceFacts<'_>) {
    let record = described.record;
    let dir = format!("{DEVICES}/{}", record.name);
    let attributes = [
        ("node_type", "1: CA".to_string()),
        ("node_guid", record.node_guid.to_string()),
        ("sys_image_guid", record.node_guid.to_string()),
        ("node_desc", record.name.clone()),
        ("fw_ver", env!("CARGO_PKG_VERSION").to_string()),
        ("hca_type", "Longarm".to_string()),
        ("hw_rev", "0x0".to_string()),
        ("board_id", "LONGARM".to_string()),
    ];
    for (name, value) in attributes {
        tree.value(format!("{dir}/{name}"), value);
    }
    bus_device(tree, &format!("{dir}/device"), described);
    port::describe(tree, &format!("{dir}/ports/1"), record);
    node(tree, described);
}

/// Adds the directory that stands for the card. It does not describe the interface's real card, which
/// programs may know and treat specially.
fn bus_device(tree: &mut super::Tree, dir: &str, described: &DeviceFacts<'_>) {
    let attributes = [
        ("vendor", VENDOR),
        ("device", "0x0000"),
        ("subsystem_vendor", VENDOR),
        ("subsystem_device", "0x0000"),
        ("class", PCI_CLASS),
        ("revision", "0x00"),
    ];
    for (name, value) in attributes {
        tree.value(format!("{dir}/{name}"), value);
    }
    tree.value(format!("{dir}/numa_node"), described.place.numa_node);
    if let Some(mask) = &described.place.local_cpus {
        tree.value(format!("{dir}/local_cpus"), mask);
    }
    let interface = &described.record.interface;
    tree.link(format!("{dir}/net/{interface}"), format!("/sys/class/net/{interface}"));
    tree.link(format!("{dir}/{DEVICES}/{}", described.record.name), "../..");
}

fn node(tree: &mut super::Tree, described: &DeviceFacts<'_>) {
    let name = &described.record.name;
    let dir = format!("{NODES}/{}", node_name(described.number));
    let (major, first_minor) = NODE_NUMBERS;
    tree.value(format!("{dir}/ibdev"), name);
    tree.value(format!("{dir}/abi_version"), DRIVER_ABI);
    tree.value(format!("{dir}/dev"), format!("{major}:{}", first_minor + described.number));
    tree.link(format!("{dir}/device"), format!("../../{DEVICES}/{name}/device"));
}
