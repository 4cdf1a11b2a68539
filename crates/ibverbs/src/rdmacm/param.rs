//! Parameters of connections and datagrams, translated from and to C's structures.

use ::connect::{ConnParam, DatagramParam, Param};
use device::Qpn;

use crate::boundary::Errno;
use crate::rdmacm::id_state::Depth;
use crate::verbs::address;
use crate::verbs::context::ContextOwn;
use abi::*;

/// Translates an event's parameters for C. Returns the private data that they point to.
///
/// # Safety
/// The event's id exists.
pub(super) unsafe fn describe(c: &mut rdma_cm_event, param: Param) -> Vec<u8> {
    match param {
        Param::None => Vec::new(),
        Param::Conn(conn) => {
            let private_data = conn.private_data.clone();
            c.param.conn = connection(&conn, pointer(&private_data));
            private_data
        }
        Param::Datagram(datagram) => {
            // SAFETY: the contract of `describe`: the event's id exists; null or open.
            let context = unsafe { c.id.as_ref().and_then(|id| ContextOwn::of(id.verbs).ok()) };
            c.param.ud = to_peer(&datagram, context);
            datagram.private_data
        }
        Param::Argument(argument) => {
            c.param.arg = argument;
            Vec::new()
        }
    }
}

/// Null for no private data: programs check the pointer.
fn pointer(private_data: &[u8]) -> *const c_void {
    if private_data.is_empty() { std::ptr::null() } else { private_data.as_ptr().cast() }
}

fn length(private_data: &[u8]) -> u8 {
    u8::try_from(private_data.len()).unwrap_or(u8::MAX)
}

fn connection(conn: &ConnParam, private_data: *const c_void) -> rdma_conn_param {
    rdma_conn_param {
        private_data,
        private_data_len: length(&conn.private_data),
        responder_resources: conn.responder_resources,
        initiator_depth: conn.initiator_depth,
        flow_control: conn.flow_control.into(),
        retry_count: conn.retry_count,
        rnr_retry_count: conn.rnr_retry_count,
        srq: conn.srq.into(),
        qp_num: conn.qpn.get(),
    }
}

fn to_peer(datagram: &DatagramParam, context: Option<&ContextOwn>) -> rdma_ud_param {
    let mut ud = rdma_ud_param::zeroed();
    ud.private_data = pointer(&datagram.private_data);
    ud.private_data_len = length(&datagram.private_data);
    if let Some(context) = context {
        ud.ah_attr = address::attr_of(context, &datagram.address);
    }
    ud.qp_num = datagram.qpn.get();
    ud.qkey = datagram.qkey.0;
    ud
}

/// The parameters with which a program connects or accepts; retries are unlimited if it gives none.
///
/// # Safety
/// Null, or readable with what it points to; the queue pair is null or exists.
pub(super) unsafe fn wanted(given: *const rdma_conn_param, depth: Depth, qp: *const ibv_qp) -> ConnParam {
    let mut wanted = ConnParam {
        responder_resources: depth.responder,
        initiator_depth: depth.initiator,
        retry_count: MOST_RETRIES,
        rnr_retry_count: MOST_RETRIES,
        ..ConnParam::default()
    };
    // SAFETY: the contract of `wanted`: null, or readable with what it points to; the queue pair is null or exists.
    unsafe {
        if let Some(given) = given.as_ref() {
            wanted.private_data = private_data(given.private_data, given.private_data_len).to_vec();
            wanted.flow_control = given.flow_control != 0;
            wanted.retry_count = given.retry_count.min(MOST_RETRIES);
            wanted.rnr_retry_count = given.rnr_retry_count.min(MOST_RETRIES);
            wanted.srq = given.srq != 0;
            wanted.qpn = Qpn::new(given.qp_num);
        }
        if let Some(qp) = qp.as_ref() {
            (wanted.qpn, wanted.srq) = (Qpn::new(qp.qp_num), !qp.srq.is_null());
        }
    }
    wanted
}

/// The largest number of three bits.
const MOST_RETRIES: u8 = 7;

/// # Safety
/// Null, or `len` bytes to read.
pub(super) unsafe fn private_data<'a>(data: *const c_void, len: u8) -> &'a [u8] {
    if data.is_null() {
        return &[];
    }
    // SAFETY: the contract of `private_data`: null, or `len` bytes to read.
    unsafe { std::slice::from_raw_parts(data.cast(), len.into()) }
}

/// The READs and atomics at a time that a device may have; EINVAL without a device.
///
/// # Safety
/// An id that exists.
pub(super) unsafe fn device_depth(c: *mut rdma_cm_id) -> Result<u8, Errno> {
    // SAFETY: the contract of `device_depth`: an id that exists.
    Ok(unsafe { ContextOwn::of((*c).verbs) }?.device.limits().max_rd_atomic)
}
