//! Structures of the kernel's control interface turned into those of the verbs: librdmacm of
//! rdma-core calls these.

use abi::*;

/// `ibv_copy_ah_attr_from_kern`.
///
/// # Safety
/// Both can be used.
pub(crate) unsafe extern "C" fn ibv_copy_ah_attr_from_kern(to: *mut ibv_ah_attr, from: *const ib_uverbs_ah_attr) {
    // SAFETY: the contract of `ibv_copy_ah_attr_from_kern`: both can be used.
    unsafe { to.write(ah_attr(&*from)) };
}

fn ah_attr(from: &ib_uverbs_ah_attr) -> ibv_ah_attr {
    ibv_ah_attr {
        grh: ibv_global_route {
            dgid: ibv_gid { raw: from.grh.dgid },
            flow_label: from.grh.flow_label,
            sgid_index: from.grh.sgid_index,
            hop_limit: from.grh.hop_limit,
            traffic_class: from.grh.traffic_class,
        },
        dlid: from.dlid,
        sl: from.sl,
        src_path_bits: from.src_path_bits,
        static_rate: from.static_rate,
        is_global: from.is_global,
        port_num: from.port_num,
    }
}

/// `ibv_copy_qp_attr_from_kern`.
///
/// # Safety
/// Both can be used.
pub(crate) unsafe extern "C" fn ibv_copy_qp_attr_from_kern(to: *mut ibv_qp_attr, from: *const ib_uverbs_qp_attr) {
    // SAFETY: the contract of `ibv_copy_qp_attr_from_kern`: both can be used.
    let from = unsafe { &*from };
    let mut attr = ibv_qp_attr::zeroed();
    attr.qp_state = from.qp_state as c_int;
    attr.cur_qp_state = from.cur_qp_state as c_int;
    attr.path_mtu = from.path_mtu as c_int;
    attr.path_mig_state = from.path_mig_state as c_int;
    (attr.qkey, attr.rq_psn, attr.sq_psn, attr.dest_qp_num) = (from.qkey, from.rq_psn, from.sq_psn, from.dest_qp_num);
    attr.qp_access_flags = from.qp_access_flags;
    attr.cap = ibv_qp_cap {
        max_send_wr: from.max_send_wr,
        max_recv_wr: from.max_recv_wr,
        max_send_sge: from.max_send_sge,
        max_recv_sge: from.max_recv_sge,
        max_inline_data: from.max_inline_data,
    };
    (attr.ah_attr, attr.alt_ah_attr) = (ah_attr(&from.ah_attr), ah_attr(&from.alt_ah_attr));
    (attr.pkey_index, attr.alt_pkey_index) = (from.pkey_index, from.alt_pkey_index);
    (attr.en_sqd_async_notify, attr.sq_draining) = (from.en_sqd_async_notify, from.sq_draining);
    (attr.max_rd_atomic, attr.max_dest_rd_atomic) = (from.max_rd_atomic, from.max_dest_rd_atomic);
    (attr.min_rnr_timer, attr.port_num, attr.timeout) = (from.min_rnr_timer, from.port_num, from.timeout);
    (attr.retry_cnt, attr.rnr_retry) = (from.retry_cnt, from.rnr_retry);
    (attr.alt_port_num, attr.alt_timeout) = (from.alt_port_num, from.alt_timeout);
    // SAFETY: the contract of `ibv_copy_qp_attr_from_kern`: both can be used.
    unsafe { to.write(attr) };
}

/// `ibv_copy_path_rec_from_kern`.
///
/// # Safety
/// Both can be used.
pub(crate) unsafe extern "C" fn ibv_copy_path_rec_from_kern(to: *mut ibv_sa_path_rec, from: *const ib_user_path_rec) {
    // SAFETY: the contract of `ibv_copy_path_rec_from_kern`: both can be used.
    let from = unsafe { &*from };
    let path = ibv_sa_path_rec {
        dgid: ibv_gid { raw: from.dgid },
        sgid: ibv_gid { raw: from.sgid },
        dlid: from.dlid,
        slid: from.slid,
        raw_traffic: from.raw_traffic as c_int,
        flow_label: from.flow_label,
        hop_limit: from.hop_limit,
        traffic_class: from.traffic_class,
        reversible: from.reversible as c_int,
        numb_path: from.numb_path,
        pkey: from.pkey,
        sl: from.sl,
        mtu_selector: from.mtu_selector,
        mtu: from.mtu as u8,
        rate_selector: from.rate_selector,
        rate: from.rate,
        packet_life_time_selector: from.packet_life_time_selector,
        packet_life_time: from.packet_life_time,
        preference: from.preference,
    };
    // SAFETY: the contract of `ibv_copy_path_rec_from_kern`: both can be used.
    unsafe { to.write(path) };
}

/// `ibv_copy_path_rec_to_kern`.
///
/// # Safety
/// Both can be used.
pub(crate) unsafe extern "C" fn ibv_copy_path_rec_to_kern(to: *mut ib_user_path_rec, from: *const ibv_sa_path_rec) {
    // SAFETY: the contract of `ibv_copy_path_rec_to_kern`: both can be used; all bytes of a GID are valid.
    unsafe {
        let from = &*from;
        to.write(ib_user_path_rec {
            dgid: from.dgid.raw,
            sgid: from.sgid.raw,
            dlid: from.dlid,
            slid: from.slid,
            raw_traffic: from.raw_traffic as u32,
            flow_label: from.flow_label,
            reversible: from.reversible as u32,
            mtu: from.mtu.into(),
            pkey: from.pkey,
            hop_limit: from.hop_limit,
            traffic_class: from.traffic_class,
            numb_path: from.numb_path,
            sl: from.sl,
            mtu_selector: from.mtu_selector,
            rate_selector: from.rate_selector,
            rate: from.rate,
            packet_life_time_selector: from.packet_life_time_selector,
            packet_life_time: from.packet_life_time,
            preference: from.preference,
        });
    }
}
