//! `librdmacm.so.1`.

use std::ffi::{CStr, c_int, c_void};
use std::sync::OnceLock;

use abi::*;

use super::loader::{LoadError, functions};

functions! {
    /// The functions of `librdmacm.so.1`.
    RdmaCm of "librdmacm.so.1" by rdma_cm {
        rdma_create_event_channel @ "RDMACM_1.0": fn() -> *mut rdma_event_channel;
        rdma_destroy_event_channel @ "RDMACM_1.0": fn(*mut rdma_event_channel);
        rdma_create_ep @ "RDMACM_1.0": fn(*mut *mut rdma_cm_id, *mut rdma_addrinfo, *mut ibv_pd, *mut ibv_qp_init_attr) -> c_int;
        rdma_destroy_id @ "RDMACM_1.0": fn(*mut rdma_cm_id) -> c_int;
        rdma_migrate_id @ "RDMACM_1.0": fn(*mut rdma_cm_id, *mut rdma_event_channel) -> c_int;
        rdma_listen @ "RDMACM_1.0": fn(*mut rdma_cm_id, c_int) -> c_int;
        rdma_connect @ "RDMACM_1.0": fn(*mut rdma_cm_id, *mut rdma_conn_param) -> c_int;
        rdma_establish @ "RDMACM_1.2": fn(*mut rdma_cm_id) -> c_int;
        rdma_accept @ "RDMACM_1.0": fn(*mut rdma_cm_id, *mut rdma_conn_param) -> c_int;
        rdma_reject @ "RDMACM_1.0": fn(*mut rdma_cm_id, *const c_void, u8) -> c_int;
        rdma_disconnect @ "RDMACM_1.0": fn(*mut rdma_cm_id) -> c_int;
        rdma_get_cm_event @ "RDMACM_1.0": fn(*mut rdma_event_channel, *mut *mut rdma_cm_event) -> c_int;
        rdma_ack_cm_event @ "RDMACM_1.0": fn(*mut rdma_cm_event) -> c_int;
        rdma_init_qp_attr @ "RDMACM_1.2": fn(*mut rdma_cm_id, *mut ibv_qp_attr, *mut c_int) -> c_int;
    }
}
