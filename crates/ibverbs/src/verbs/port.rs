//! Ports.

use device::PortState;

use crate::boundary::{Errno, errno, write_with_room};
use crate::verbs::context::ContextOwn;
use crate::verbs::{address, gid};
use abi::*;

/// The room of a caller of the symbol `ibv_query_port`: the size that the structure had when the
/// symbol was made.
const COMPAT_BYTES: usize = 48;

/// `IBV_PORT_PHYS_STATE`: up, and without a link.
const LINK_UP: u8 = 5;
const DISABLED: u8 = 3;

/// `ibv_query_port(3)`, the symbol.
///
/// # Safety
/// An open context and 48 bytes for the answer.
pub(crate) unsafe extern "C" fn ibv_query_port(context: *mut ibv_context, port: u8, attr: *mut ibv_port_attr) -> c_int {
    // SAFETY: the contract of `ibv_query_port` includes that of `query_port`.
    unsafe { query_port(context, port, attr, COMPAT_BYTES) }
}

/// `ibv_query_port(3)`, as the header calls it, with the caller's room.
///
/// # Safety
/// An open context and `room` bytes for the answer.
pub(crate) unsafe extern "C" fn query_port(
    context: *mut ibv_context,
    port: u8,
    attr: *mut ibv_port_attr,
    room: size_t,
) -> c_int {
    errno(|| {
        // SAFETY: the contract of `query_port`: an open context and `room` bytes for the answer.
        let own = unsafe { ContextOwn::of(context) }?;
        if port != 1 || attr.is_null() {
            return Err(Errno::INVAL);
        }
        let answer = describe(own);
        // SAFETY: the contract of `query_port`: `room` bytes for the answer.
        unsafe { write_with_room(attr, &answer, room) };
        Ok(())
    })
}

fn describe(own: &ContextOwn) -> ibv_port_attr {
    let port = own.device.port();
    let limits = own.device.limits();
    let speed = speed(port.speed_mbps);
    let mut attr = ibv_port_attr::zeroed();
    attr.state = port.state as c_int;
    attr.max_mtu = port.max_mtu as c_int;
    attr.active_mtu = port.active_mtu as c_int;
    attr.gid_tbl_len = gid::table_len(&port) as c_int;
    attr.port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
    attr.max_msg_sz = u32::try_from(limits.max_message_bytes).unwrap_or(1 << 31);
    attr.pkey_tbl_len = limits.max_pkeys;
    attr.lid = address::lid(&port);
    attr.max_vl_num = 1;
    attr.active_width = speed.width;
    attr.active_speed = speed.lane;
    attr.phys_state = if port.state == PortState::Active { LINK_UP } else { DISABLED };
    attr.link_layer = IBV_LINK_LAYER_ETHERNET;
    attr.flags = IBV_QPF_GRH_REQUIRED;
    attr
}

/// A speed as InfiniBand writes it: lanes (`active_width`: 1, 2, 4, 8 are 1x, 4x, 8x, 12x) times the
/// code of a lane's speed.
struct Speed {
    width: u8,
    lane: u8,
}

/// The fastest InfiniBand speed that is not faster than the interface. An interface without a speed (loop-back)
/// counts as the slowest, as with the kernel's rxe.
fn speed(mbps: u32) -> Speed {
    const X1: u8 = 1;
    const X4: u8 = 2;
    const X8: u8 = 4;
    const SDR: u8 = 1;
    const QDR: u8 = 4;
    const EDR: u8 = 32;
    const HDR: u8 = 64;
    const NDR: u8 = 128;
    const KNOWN: [(u32, u8, u8); 8] = [
        (800_000, X8, NDR),
        (400_000, X4, NDR),
        (200_000, X4, HDR),
        (100_000, X4, EDR),
        (50_000, X1, HDR),
        (40_000, X4, QDR),
        (25_000, X1, EDR),
        (10_000, X1, QDR),
    ];
    let known = KNOWN.iter().find(|(least, ..)| mbps >= *least);
    known.map_or(Speed { width: X1, lane: SDR }, |&(_, width, lane)| Speed { width, lane })
}

/// `ibv_query_port_speed`: in units of 100 Mb/s.
///
/// # Safety
/// An open context and a place for the answer.
pub(crate) unsafe extern "C" fn ibv_query_port_speed(context: *mut ibv_context, port: u32, speed: *mut u64) -> c_int {
    errno(|| {
        // SAFETY: the contract of `ibv_query_port_speed`: an open context and a place for the answer.
        let (own, speed) = unsafe { (ContextOwn::of(context)?, speed.as_mut().ok_or(Errno::INVAL)?) };
        if port != 1 {
            return Err(Errno::INVAL);
        }
        *speed = u64::from(own.device.port().speed_mbps) / 100;
        Ok(())
    })
}
