//! Attributes of a device in our words.

use ::device::{Capabilities, DeviceInfo, Limits, PortInfo, PortState, Provider};
use abi::{
    IBV_ATOMIC_GLOB, IBV_ATOMIC_HCA, IBV_DEVICE_MEM_WINDOW, IBV_DEVICE_MEM_WINDOW_TYPE_2B, IBV_LINK_LAYER_ETHERNET,
    IBV_PORT_ACTIVE, IBV_QP_EX_WITH_ATOMIC_WRITE, IBV_QP_EX_WITH_FLUSH, Zeroed, ibv_device_attr, ibv_port_attr,
};
use transport::{MAX_MESSAGE_BYTES, Mtu};
use wire::Gid;

use crate::addresses::PORT;
use crate::device_handle::DeviceHandle;
use crate::extended;

/// `IBV_DEVICE_MEM_WINDOW_TYPE_2A`.
const WINDOW_TYPE_2A: u32 = 1 << 23;

/// Name, interface and identity.
pub(crate) fn device(handle: &DeviceHandle) -> DeviceInfo {
    let gids = handle.gids();
    let interface_index = gids.iter().map(|entry| entry.interface_index).find(|index| *index != 0).unwrap_or(0);
    DeviceInfo {
        provider: Provider::Verbs,
        name: handle.name().to_owned(),
        interface: interface_name(interface_index),
        interface_index,
        node_guid: u64::from_be(attributes(handle).node_guid),
        port_guid: 0,
        loopback: false,
        port: port(handle),
    }
}

fn interface_name(index: u32) -> String {
    let mut name = [0 as libc::c_char; libc::IF_NAMESIZE];
    // SAFETY: room for a name of an interface.
    let found = unsafe { libc::if_indextoname(index, name.as_mut_ptr()) };
    if found.is_null() {
        return String::new();
    }
    let bytes = name.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8);
    String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned()
}

/// The first port.
pub(crate) fn port(handle: &DeviceHandle) -> PortInfo {
    let attr = port_attributes(handle);
    let mut gids = Vec::new();
    for entry in handle.gids() {
        gids.resize(gids.len().max(usize::from(entry.index) + 1), Gid::default());
        gids[usize::from(entry.index)] = entry.gid;
    }
    PortInfo {
        state: if attr.state == IBV_PORT_ACTIVE { PortState::Active } else { PortState::Down },
        max_mtu: mtu(attr.max_mtu),
        active_mtu: mtu(attr.active_mtu),
        gids,
        speed_mbps: speed(attr.active_width, attr.active_speed),
    }
}

/// The payload per packet on the first port.
pub(crate) fn active_mtu(handle: &DeviceHandle) -> Mtu {
    mtu(port_attributes(handle).active_mtu)
}

/// An MTU by its number in `enum ibv_mtu`.
fn mtu(number: i32) -> Mtu {
    Mtu::ALL.into_iter().find(|mtu| *mtu as i32 == number).unwrap_or(Mtu::B1024)
}

/// The vendor of the device, or of its driver.
pub(crate) fn vendor_id(handle: &DeviceHandle) -> u32 {
    attributes(handle).vendor_id
}

/// Megabits per second, of all lanes (IB specification 14.2.5.6).
fn speed(width: u8, speed: u8) -> u32 {
    let lanes = match width {
        1 => 1,
        2 => 4,
        4 => 8,
        8 => 12,
        16 => 2,
        _ => 0,
    };
    let each = match speed {
        1 => 2_500,
        2 => 5_000,
        4 | 8 => 10_000,
        16 => 14_000,
        32 => 25_000,
        64 => 50_000,
        128 => 100_000,
        _ => 0,
    };
    lanes * each
}

/// Limits, without the bytes of inline data.
pub(crate) fn limits(handle: &DeviceHandle) -> Limits {
    let attr = attributes(handle);
    let count = |number: i32| u32::try_from(number).unwrap_or(0);
    let regions = count(attr.max_mr);
    Limits {
        max_qp: count(attr.max_qp),
        max_qp_wr: count(attr.max_qp_wr),
        max_sge: count(attr.max_sge),
        max_read_sge: count(attr.max_sge_rd),
        max_inline_bytes: 0,
        max_cq: count(attr.max_cq),
        max_cqe: count(attr.max_cqe),
        max_mr: regions,
        max_mr_bytes: attr.max_mr_size,
        max_mw: count(attr.max_mw),
        max_pd: count(attr.max_pd),
        max_srq: count(attr.max_srq),
        max_ah: count(attr.max_ah),
        max_srq_wr: count(attr.max_srq_wr),
        max_srq_sge: count(attr.max_srq_sge),
        max_rd_atomic: u8::try_from(attr.max_qp_rd_atom.min(attr.max_qp_init_rd_atom)).unwrap_or(u8::MAX),
        max_mcast_groups: count(attr.max_mcast_grp),
        max_mcast_qp: count(attr.max_mcast_qp_attach),
        max_message_bytes: u64::from(port_attributes(handle).max_msg_sz).min(MAX_MESSAGE_BYTES),
        max_pkeys: attr.max_pkeys,
    }
}

/// The services and operations.
pub(crate) fn capabilities(handle: &DeviceHandle) -> Capabilities {
    let attr = attributes(handle);
    let has = |flag| attr.device_cap_flags & flag != 0;
    let operations = if handle.is_iwarp() { 0 } else { extended::operations(handle) };
    let (roce, window_2) = (!handle.is_iwarp(), has(WINDOW_TYPE_2A) || has(IBV_DEVICE_MEM_WINDOW_TYPE_2B));
    Capabilities {
        by_address_only: handle.is_iwarp(),
        initiator_sends_first: handle.is_iwarp(),
        uc: roce,
        ud: roce,
        immediate: roce,
        atomics: roce && attr.atomic_cap >= IBV_ATOMIC_HCA,
        host_atomics: roce && attr.atomic_cap >= IBV_ATOMIC_GLOB,
        windows_1: has(IBV_DEVICE_MEM_WINDOW) && attr.max_mw > 0,
        windows_2: window_2 && attr.max_mw > 0,
        shared_receive: attr.max_srq > 0,
        multicast: roce && attr.max_mcast_grp > 0,
        solicited_events: handle.quirks().tells_solicited,
        atomic_write: operations & IBV_QP_EX_WITH_ATOMIC_WRITE != 0,
        flush: operations & IBV_QP_EX_WITH_FLUSH != 0,
        ..Capabilities::NONE
    }
}

pub(crate) fn is_ethernet(handle: &DeviceHandle) -> bool {
    !handle.is_iwarp() && port_attributes(handle).link_layer == IBV_LINK_LAYER_ETHERNET
}

fn attributes(handle: &DeviceHandle) -> ibv_device_attr {
    let mut attr = ibv_device_attr::zeroed();
    // SAFETY: the handle keeps its object, an open context. If the call fails the attributes stay zero.
    unsafe { (handle.library.ibv_query_device)(handle.context(), &mut attr) };
    attr
}

fn port_attributes(handle: &DeviceHandle) -> ibv_port_attr {
    let mut attr = ibv_port_attr::zeroed();
    // SAFETY: as for the device's attributes. This function writes no more than the structure had in its first version.
    unsafe { (handle.library.ibv_query_port)(handle.context(), PORT, &mut attr) };
    attr
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_speed_is_that_of_all_lanes() {
        assert_eq!(speed(2, 32), 100_000);
        assert_eq!(speed(1, 4), 10_000);
        assert_eq!(speed(0, 0), 0);
    }
}
