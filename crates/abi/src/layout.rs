//! Sizes and offsets that compiled programs rely on.

use std::mem::{offset_of, size_of};

use super::*;

const _: () = {
    assert!(size_of::<ibv_device>() == 664 && offset_of!(verbs_device, ops) == 664);
    assert!(size_of::<ibv_context>() == 328);
    assert!(size_of::<verbs_context>() == 696 && offset_of!(verbs_context, context) == 368);
    assert!(offset_of!(verbs_context, free_buf) == 0 && offset_of!(verbs_context, alloc_buf) == 8);
    assert!(offset_of!(verbs_context, dm_export_dmabuf_fd) == 16 && offset_of!(verbs_context, reg_mr_ex) == 24);
    assert!(offset_of!(verbs_context, dealloc_dmah) == 32 && offset_of!(verbs_context, alloc_dmah) == 40);
    assert!(offset_of!(verbs_context, query_port) == 48);
    assert!(size_of::<ibv_mr_init_attr>() == 72);
    assert!(size_of::<ibv_context_ops>() == 32 * 8);
    assert!(size_of::<ibv_device_attr>() == 232 && size_of::<ibv_device_attr_ex>() == 400);
    assert!(size_of::<ibv_port_attr>() == 56 && offset_of!(ibv_port_attr, active_speed_ex) == 52);
    assert!(size_of::<ibv_gid_entry>() == 32 && size_of::<ibv_ah_attr>() == 32);
    assert!(size_of::<ibv_qp>() == 160 && size_of::<ibv_qp_ex>() == 360);
    assert!(offset_of!(ibv_qp_ex, wr_flush) == 352);
    assert!(size_of::<ibv_qp_attr>() == 144 && size_of::<ibv_qp_init_attr>() == 64);
    assert!(size_of::<ibv_qp_init_attr_ex>() == 136);
    assert!(size_of::<ibv_cq>() == 128 && size_of::<ibv_cq_ex>() == 288);
    assert!(size_of::<ibv_cq_init_attr_ex>() == 56);
    assert!(size_of::<ibv_srq>() == 128 && size_of::<ibv_srq_init_attr_ex>() == 64);
    assert!(size_of::<ibv_send_wr>() == 128 && size_of::<ibv_recv_wr>() == 32 && size_of::<ibv_sge>() == 16);
    assert!(size_of::<ibv_wc>() == 48);
    assert!(size_of::<ibv_mr>() == 48 && size_of::<ibv_mw>() == 32 && size_of::<ibv_dm>() == 32);
    assert!(size_of::<ibv_async_event>() == 16);
    assert!(size_of::<ib_uverbs_qp_attr>() == 144 && size_of::<ib_user_path_rec>() == 64);
};
