//! Parameters of connections and datagrams, in our words and in C's.

use std::ffi::c_void;
use std::ptr::NonNull;

use abi::{ibv_context, rdma_conn_param, rdma_ud_param};
use connect::{ConnParam, DatagramParam};
use wire::{QKey, Qpn};

use crate::cm::context::gids;
use crate::qp_attr::vector_of_c;

/// Parameters for C. They point to the private data.
pub(super) fn connection_to_c(param: &ConnParam) -> rdma_conn_param {
    let (private_data, private_data_len) = private_data_to_c(&param.private_data);
    rdma_conn_param {
        private_data,
        private_data_len,
        responder_resources: param.responder_resources,
        initiator_depth: param.initiator_depth,
        flow_control: param.flow_control.into(),
        retry_count: param.retry_count,
        rnr_retry_count: param.rnr_retry_count,
        srq: param.srq.into(),
        qp_num: param.qpn.get(),
    }
}

/// The bytes and their number.
pub(super) fn private_data_to_c(private_data: &[u8]) -> (*const c_void, u8) {
    let bytes = u8::try_from(private_data.len()).expect("callers check that a message has room for it");
    (private_data.as_ptr().cast(), bytes)
}

/// # Safety
/// Parameters of an event that was not acknowledged.
pub(super) unsafe fn connection_of_c(c: &rdma_conn_param) -> ConnParam {
    ConnParam {
        // SAFETY: the contract of `connection_of_c`: the event keeps its private data.
        private_data: unsafe { private_data(c.private_data, c.private_data_len) },
        responder_resources: c.responder_resources,
        initiator_depth: c.initiator_depth,
        flow_control: c.flow_control != 0,
        retry_count: c.retry_count,
        rnr_retry_count: c.rnr_retry_count,
        srq: c.srq != 0,
        qpn: Qpn::new(c.qp_num & 0xff_ffff),
        qkey: None,
    }
}

/// # Safety
/// Parameters of an event that was not acknowledged; the open context of its id.
pub(super) unsafe fn datagram_of_c(c: &rdma_ud_param, context: Option<NonNull<ibv_context>>) -> DatagramParam {
    // SAFETY: the contract of `datagram_of_c`: an open context.
    let gids = context.map_or(Vec::new(), |context| unsafe { gids(context) });
    DatagramParam {
        // SAFETY: the contract of `datagram_of_c`: the event keeps its private data.
        private_data: unsafe { private_data(c.private_data, c.private_data_len) },
        address: vector_of_c(&c.ah_attr, &gids),
        qpn: Qpn::new(c.qp_num & 0xff_ffff),
        qkey: QKey(c.qkey),
    }
}

/// # Safety
/// Null, or that many bytes to read.
unsafe fn private_data(data: *const c_void, bytes: u8) -> Vec<u8> {
    if data.is_null() {
        return Vec::new();
    }
    // SAFETY: the contract of `private_data`: that many bytes to read.
    unsafe { std::slice::from_raw_parts(data.cast::<u8>(), bytes.into()) }.to_vec()
}
