//! Every function behind an exported symbol, by the symbol's name.

#![cfg_attr(test, allow(unused_imports, reason = "only the shared library exports them"))]

pub(crate) use crate::device_list::{
    ibv_free_device_list, ibv_get_device_guid, ibv_get_device_index, ibv_get_device_list, ibv_get_device_name,
};
pub(crate) use crate::rdmacm::accept::{rdma_accept, rdma_reject, rdma_reject_ece};
pub(crate) use crate::rdmacm::address::{rdma_get_dst_port, rdma_get_src_port};
pub(crate) use crate::rdmacm::addrinfo::{
    rdma_freeaddrinfo, rdma_getaddrinfo, rdma_query_addrinfo, rdma_resolve_addrinfo,
};
pub(crate) use crate::rdmacm::bind::{rdma_bind_addr, rdma_listen, rdma_resolve_addr, rdma_resolve_route};
pub(crate) use crate::rdmacm::channel::{rdma_create_event_channel, rdma_destroy_event_channel};
pub(crate) use crate::rdmacm::connect::{rdma_connect, rdma_disconnect, rdma_establish, rdma_notify};
pub(crate) use crate::rdmacm::devices::{rdma_free_devices, rdma_get_devices};
pub(crate) use crate::rdmacm::ece::{rdma_get_remote_ece, rdma_set_local_ece};
pub(crate) use crate::rdmacm::ep::{rdma_create_ep, rdma_destroy_ep, rdma_get_request};
pub(crate) use crate::rdmacm::event::{rdma_ack_cm_event, rdma_get_cm_event};
pub(crate) use crate::rdmacm::id::{rdma_create_id, rdma_destroy_id, rdma_migrate_id};
pub(crate) use crate::rdmacm::multicast::{rdma_join_multicast, rdma_join_multicast_ex, rdma_leave_multicast};
pub(crate) use crate::rdmacm::names::{rdma_event_str, rdma_write_cm_event};
pub(crate) use crate::rdmacm::options::rdma_set_option;
pub(crate) use crate::rdmacm::qp::{rdma_create_qp, rdma_create_qp_ex, rdma_destroy_qp};
pub(crate) use crate::rdmacm::srq::{rdma_create_srq, rdma_create_srq_ex, rdma_destroy_srq};
pub(crate) use crate::rdmacm::states::rdma_init_qp_attr;
pub(crate) use crate::rsocket::data::{
    rread, rreadv, rrecv, rrecvfrom, rrecvmsg, rsend, rsendmsg, rsendto, rwrite, rwritev,
};
pub(crate) use crate::rsocket::epoll::{repoll_create, repoll_create1, repoll_ctl, repoll_wait};
pub(crate) use crate::rsocket::mapping::{riomap, riounmap, riowrite};
pub(crate) use crate::rsocket::names::{
    raccept, rbind, rclose, rconnect, rgetpeername, rgetsockname, rlisten, rshutdown, rsocket,
};
pub(crate) use crate::rsocket::options::{rfcntl, rgetsockopt, rsetsockopt};
pub(crate) use crate::rsocket::polling::{rpoll, rselect};
pub(crate) use crate::verbs::address::{
    ibv_create_ah, ibv_create_ah_from_wc, ibv_destroy_ah, ibv_init_ah_from_wc, ibv_resolve_eth_l2_from_gid,
};
pub(crate) use crate::verbs::buffer::{
    ibv_alloc_buf, ibv_export_buf_dmabuf_fd, ibv_free_buf, ibv_reg_buf_mr, ibv_reg_mr_ex,
};
pub(crate) use crate::verbs::channel::{ibv_create_comp_channel, ibv_destroy_comp_channel};
pub(crate) use crate::verbs::cq::{ibv_destroy_cq, ibv_resize_cq};
pub(crate) use crate::verbs::cq_create::ibv_create_cq;
pub(crate) use crate::verbs::cq_event::{ibv_ack_cq_events, ibv_get_cq_event};
pub(crate) use crate::verbs::domain::{ibv_alloc_pd, ibv_dealloc_pd};
pub(crate) use crate::verbs::events::{ibv_ack_async_event, ibv_get_async_event};
pub(crate) use crate::verbs::from_kernel::{
    ibv_copy_ah_attr_from_kern, ibv_copy_path_rec_from_kern, ibv_copy_path_rec_to_kern, ibv_copy_qp_attr_from_kern,
};
pub(crate) use crate::verbs::gid::{
    _ibv_query_gid_ex, _ibv_query_gid_table, ibv_get_pkey_index, ibv_query_gid, ibv_query_gid_type, ibv_query_pkey,
};
pub(crate) use crate::verbs::import::{
    ibv_import_device, ibv_import_dm, ibv_import_mr, ibv_import_pd, ibv_unimport_dm, ibv_unimport_mr, ibv_unimport_pd,
};
pub(crate) use crate::verbs::mr::{ibv_dereg_mr, ibv_reg_mr, ibv_reg_mr_iova, ibv_reg_mr_iova2, ibv_rereg_mr};
pub(crate) use crate::verbs::multicast::{ibv_attach_mcast, ibv_detach_mcast};
pub(crate) use crate::verbs::names::{
    ibv_event_type_str, ibv_node_type_str, ibv_port_state_str, ibv_wc_status_str, ibv_wr_opcode_str,
};
pub(crate) use crate::verbs::open::{ibv_close_device, ibv_open_device};
pub(crate) use crate::verbs::port::{ibv_query_port, ibv_query_port_speed};
pub(crate) use crate::verbs::qp::{ibv_destroy_qp, ibv_qp_to_qp_ex};
pub(crate) use crate::verbs::qp_attr::{ibv_modify_qp, ibv_query_qp, ibv_query_qp_data_in_order};
pub(crate) use crate::verbs::qp_create::ibv_create_qp;
pub(crate) use crate::verbs::query_device::ibv_query_device;
pub(crate) use crate::verbs::rates::{ibv_rate_to_mbps, ibv_rate_to_mult, mbps_to_ibv_rate, mult_to_ibv_rate};
pub(crate) use crate::verbs::refused::{
    _ibv_query_comp_cntr_caps, ibv_alloc_dmah, ibv_create_comp_cntr, ibv_dealloc_dmah, ibv_destroy_comp_cntr,
    ibv_dm_export_dmabuf_fd, ibv_dofork_range, ibv_dontfork_range, ibv_fork_init, ibv_inc_comp_cntr,
    ibv_inc_err_comp_cntr, ibv_is_fork_initialized, ibv_qp_attach_comp_cntr, ibv_query_ece, ibv_read_comp_cntr,
    ibv_read_err_comp_cntr, ibv_reg_dmabuf_mr, ibv_set_comp_cntr, ibv_set_ece, ibv_set_err_comp_cntr,
};
pub(crate) use crate::verbs::srq::{ibv_create_srq, ibv_destroy_srq, ibv_modify_srq, ibv_query_srq};
pub(crate) use crate::verbs::sysfs::{ibv_get_sysfs_path, ibv_read_ibdev_sysfs_file, ibv_read_sysfs_file};
