//! The files of a device's port.

use hub::DeviceRecord;
use std::net::Ipv6Addr;

use super::{Tree, rate};

/// The least number of entries of the GID table, used or not, as `ibv_query_port` reports it.
pub(super) const GID_TABLE_LEN: usize = 16;

/// Capabilities: the port has a connection manager, and GIDs are IP addresses (bits 16 and 26).
const CAPABILITIES: u32 = 1 << 16 | 1 << 26;

/// The counters that every port has (IBA release 1.5, 16.1.3.5 and 16.1.4.11).
const COUNTERS: [&str; 21] = [
    "VL15_dropped",
    "excessive_buffer_overrun_errors",
    "link_downed",
    "link_error_recovery",
    "local_link_integrity_errors",
    "multicast_rcv_packets",
    "multicast_xmit_packets",
    "port_rcv_constraint_errors",
    "port_rcv_data",
    "port_rcv_errors",
    "port_rcv_packets",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_xmit_constraint_errors",
    "port_xmit_data",
    "port_xmit_discards",
    "port_xmit_packets",
    "port_xmit_wait",
    "symbol_error",
    "unicast_rcv_packets",
    "unicast_xmit_packets",
];

/// Counters of RoCE, with the names of Linux's Soft-RoCE.
const HW_COUNTERS: [&str; 16] = [
    "ack_deferred",
    "completer_retry_err",
    "duplicate_request",
    "lifespan",
    "link_downed",
    "out_of_seq_request",
    "rcvd_pkts",
    "rcvd_rnr_err",
    "rcvd_seq_err",
    "rdma_recvs",
    "rdma_sends",
    "retry_exceeded_err",
    "retry_rnr_exceeded_err",
    "send_err",
    "send_rnr_err",
    "sent_pkts",
];

pub(super) fn describe(tree: &mut Tree, dir: &str, record: &DeviceRecord) {
    let (state, physical) = match record.link_up {
        true => ("4: ACTIVE", "5: LinkUp"),
        false => ("1: DOWN", "3: Disabled"),
    };
    let attributes = [
        ("state", state.to_string()),
        ("phys_state", physical.to_string()),
        ("rate", rate::text(record.speed_mbps)),
        ("link_layer", "Ethernet".to_string()),
        ("lid", "0x0".to_string()),
        ("lid_mask_count", "0".to_string()),
        ("sm_lid", "0x0".to_string()),
        ("sm_sl", "0".to_string()),
        ("cap_mask", format!("{CAPABILITIES:#010x}")),
        ("pkeys/0", "0xffff".to_string()),
    ];
    for (name, value) in attributes {
        tree.value(format!("{dir}/{name}"), value);
    }
    for (set, names) in [("counters", &COUNTERS[..]), ("hw_counters", &HW_COUNTERS[..])] {
        for name in names {
            tree.value(format!("{dir}/{set}/{name}"), 0);
        }
    }
    gids(tree, dir, record);
}

/// Adds the GID table. Linux returns EINVAL for type and interface of an unused entry; here these
/// files are missing.
fn gids(tree: &mut Tree, dir: &str, record: &DeviceRecord) {
    for index in 0..record.gids.len().max(GID_TABLE_LEN) {
        let gid = record.gids.get(index).copied().unwrap_or_default();
        tree.value(format!("{dir}/gids/{index}"), long_form(gid.0));
    }
    tree.directory(format!("{dir}/gid_attrs/types"));
    tree.directory(format!("{dir}/gid_attrs/ndevs"));
    for (index, _) in record.valid_gids() {
        tree.value(format!("{dir}/gid_attrs/types/{index}"), "RoCE v2");
        tree.value(format!("{dir}/gid_attrs/ndevs/{index}"), &record.interface);
    }
}

/// A GID as eight groups of four digits.
fn long_form(gid: [u8; 16]) -> String {
    let groups = Ipv6Addr::from(gid).segments().map(|group| format!("{group:04x}"));
    groups.join(":")
}
