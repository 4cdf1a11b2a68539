//! The device's capabilities and limits.

use device::{DeviceInfo, Limits, monotonic_ns};

use crate::boundary::{Errno, errno, write_with_room};
use crate::verbs::context::ContextOwn;
use crate::verbs::device_memory::MAX_DM_BYTES;
use abi::*;

/// A vendor of our own: an identifier that is locally administered, so nobody's.
const VENDOR_ID: u32 = 0x02_4c_41;
const VENDOR_PART_ID: u32 = 1;
const FIRMWARE: &str = env!("CARGO_PKG_VERSION");
/// Timestamps are nanoseconds.
const CLOCK_KHZ: u64 = 1_000_000;
/// ACKs take up to about a millisecond: 4.096 µs · 2^8.
const ACK_DELAY: u8 = 8;

const ODP_RC: u32 = IBV_ODP_SUPPORT_SEND
    | IBV_ODP_SUPPORT_RECV
    | IBV_ODP_SUPPORT_WRITE
    | IBV_ODP_SUPPORT_READ
    | IBV_ODP_SUPPORT_ATOMIC
    | IBV_ODP_SUPPORT_SRQ_RECV
    | IBV_ODP_SUPPORT_FLUSH
    | IBV_ODP_SUPPORT_ATOMIC_WRITE;
const ODP_UC: u32 = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_SRQ_RECV;
const ODP_UD: u32 = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;

/// `ibv_query_device(3)`.
///
/// # Safety
/// An open context and a place for the answer.
pub(crate) unsafe extern "C" fn ibv_query_device(context: *mut ibv_context, attr: *mut ibv_device_attr) -> c_int {
    errno(|| {
        // SAFETY: the contract of `ibv_query_device`: an open context and a place for the answer.
        let (own, attr) = unsafe { (ContextOwn::of(context)?, attr.as_mut().ok_or(Errno::INVAL)?) };
        *attr = basic(&own.device.info(), &own.device.limits());
        Ok(())
    })
}

/// `ibv_query_device_ex(3)`, with the caller's room.
///
/// # Safety
/// An open context, readable input or null, and `room` bytes for the answer.
pub(crate) unsafe extern "C" fn query_device_ex(
    context: *mut ibv_context,
    input: *const ibv_query_device_ex_input,
    attr: *mut ibv_device_attr_ex,
    room: size_t,
) -> c_int {
    errno(|| {
        // SAFETY: the contract of `query_device_ex` (see its Safety section).
        let (own, input) = unsafe { (ContextOwn::of(context)?, input.as_ref()) };
        if input.is_some_and(|input| input.comp_mask != 0) || attr.is_null() || room < size_of::<ibv_device_attr>() {
            return Err(Errno::INVAL);
        }
        let answer = extended(own);
        // SAFETY: the contract of `query_device_ex`: `room` bytes for the answer.
        unsafe { write_with_room(attr, &answer, room) };
        Ok(())
    })
}

fn basic(info: &DeviceInfo, limits: &Limits) -> ibv_device_attr {
    let int = |n: u32| c_int::try_from(n).unwrap_or(c_int::MAX);
    let mut attr = ibv_device_attr::zeroed();
    for (to, from) in attr.fw_ver.iter_mut().zip(FIRMWARE.bytes()) {
        *to = from as c_char;
    }
    attr.node_guid = info.node_guid.to_be();
    attr.sys_image_guid = info.node_guid.to_be();
    attr.max_mr_size = limits.max_mr_bytes;
    attr.page_size_cap = !0 << 12;
    (attr.vendor_id, attr.vendor_part_id) = (VENDOR_ID, VENDOR_PART_ID);
    attr.max_qp = int(limits.max_qp);
    attr.max_qp_wr = int(limits.max_qp_wr);
    attr.device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD
        | IBV_DEVICE_PORT_ACTIVE_EVENT
        | IBV_DEVICE_SYS_IMAGE_GUID
        | IBV_DEVICE_RC_RNR_NAK_GEN
        | IBV_DEVICE_SRQ_RESIZE
        | IBV_DEVICE_MEM_WINDOW
        | IBV_DEVICE_MEM_WINDOW_TYPE_2B
        | IBV_DEVICE_XRC;
    attr.max_sge = int(limits.max_sge);
    attr.max_sge_rd = int(limits.max_read_sge);
    attr.max_cq = int(limits.max_cq);
    attr.max_cqe = int(limits.max_cqe);
    attr.max_mr = int(limits.max_mr);
    attr.max_pd = int(limits.max_pd);
    attr.max_qp_rd_atom = int(limits.max_rd_atomic.into());
    attr.max_qp_init_rd_atom = int(limits.max_rd_atomic.into());
    attr.max_res_rd_atom = int(limits.max_qp.saturating_mul(limits.max_rd_atomic.into()));
    // This process executes them with atomic instructions, its peers' as well.
    attr.atomic_cap = IBV_ATOMIC_GLOB;
    attr.max_mw = int(limits.max_mw);
    attr.max_mcast_grp = int(limits.max_mcast_groups);
    attr.max_mcast_qp_attach = int(limits.max_mcast_qp);
    attr.max_total_mcast_qp_attach = int(limits.max_mcast_groups.saturating_mul(limits.max_mcast_qp));
    attr.max_ah = int(limits.max_ah);
    attr.max_srq = int(limits.max_srq);
    attr.max_srq_wr = int(limits.max_srq_wr);
    attr.max_srq_sge = int(limits.max_srq_sge);
    attr.max_pkeys = limits.max_pkeys;
    attr.local_ca_ack_delay = ACK_DELAY;
    attr.phys_port_cnt = 1;
    attr
}

fn extended(own: &ContextOwn) -> ibv_device_attr_ex {
    let mut attr = ibv_device_attr_ex::zeroed();
    attr.orig_attr = basic(&own.device.info(), &own.device.limits());
    attr.odp_caps = ibv_odp_caps {
        general_caps: IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT,
        rc_odp_caps: ODP_RC,
        uc_odp_caps: ODP_UC,
        ud_odp_caps: ODP_UD,
    };
    attr.xrc_odp_caps = ODP_RC;
    attr.completion_timestamp_mask = u64::MAX;
    attr.hca_core_clock = CLOCK_KHZ;
    attr.device_cap_flags_ex =
        u64::from(attr.orig_attr.device_cap_flags) | IBV_DEVICE_FLUSH_GLOBAL | IBV_DEVICE_ATOMIC_WRITE;
    attr.cq_mod_caps = ibv_cq_moderation_caps { max_cq_count: u16::MAX, max_cq_period: u16::MAX };
    attr.max_dm_size = MAX_DM_BYTES;
    attr.phys_port_cnt_ex = 1;
    attr
}

/// `ibv_query_rt_values_ex(3)`: the clock of completion timestamps.
///
/// # Safety
/// An open context and values to read and write.
pub(crate) unsafe extern "C" fn query_rt_values(context: *mut ibv_context, values: *mut ibv_values_ex) -> c_int {
    errno(|| {
        // SAFETY: the contract of `query_rt_values`: an open context and values to read and write.
        let values = unsafe {
            ContextOwn::of(context)?;
            values.as_mut().ok_or(Errno::INVAL)?
        };
        if values.comp_mask & !IBV_VALUES_MASK_RAW_CLOCK != 0 {
            return Err(Errno::INVAL);
        }
        if values.comp_mask & IBV_VALUES_MASK_RAW_CLOCK != 0 {
            // Raw clock values count nanoseconds, and stand where the nanoseconds do.
            values.raw_clock = libc::timespec { tv_sec: 0, tv_nsec: monotonic_ns() as i64 };
        }
        Ok(())
    })
}
