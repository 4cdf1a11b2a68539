//! The passive side of a connection.

use crate::boundary::{Errno, minus_one};
use crate::rdmacm::id_object::{IdOwn, of};
use crate::rdmacm::id_state::Depth;
use crate::rdmacm::{param, states, sync};
use abi::*;

/// `rdma_accept(3)`: the id's queue pair is ready when the peer learns of it.
///
/// # Safety
/// Null or an id that exists; null or readable parameters.
pub(crate) unsafe extern "C" fn rdma_accept(c: *mut rdma_cm_id, given: *mut rdma_conn_param) -> c_int {
    minus_one(|| {
        // SAFETY: the contract of `rdma_accept`: null or an id that exists; null or readable parameters.
        unsafe {
            let own = of(c)?;
            let depth = depth(c, own, given)?;
            let wanted = param::wanted(given, depth, (*c).qp);
            if own.is_ud() {
                own.id.accept(&wanted)?;
                return Ok(0);
            }
            own.state.lock().depth = depth;
            accept_connection(c, own, &wanted, depth)?;
            sync::complete(c)?;
        }
        Ok(0)
    })
}

/// # Safety
/// An id that exists.
unsafe fn accept_connection(
    c: *mut rdma_cm_id,
    own: &IdOwn,
    wanted: &::connect::ConnParam,
    depth: Depth,
) -> Result<(), Errno> {
    // SAFETY: the contract of `accept_connection`: an id that exists.
    unsafe {
        if !(*c).qp.is_null() {
            states::connect(c, own, Some(depth))?;
        }
        own.id.accept(wanted).map_err(|error| {
            let _ = states::fail((*c).qp);
            Errno::from(error)
        })
    }
}

/// The program's depths, else those that the peer asked for, within the device's limit.
///
/// # Safety
/// An id that exists; null or readable parameters.
unsafe fn depth(c: *mut rdma_cm_id, own: &IdOwn, given: *const rdma_conn_param) -> Result<Depth, Errno> {
    // SAFETY: the contract of `depth`: an id that exists; null or readable parameters.
    let (most, given) = unsafe { (param::device_depth(c)?, given.as_ref()) };
    let asked = own.state.lock().depth;
    let said = |said: Option<u8>, any, asked: u8| match said {
        Some(said) if said != any && said > most && !own.is_ud() => Err(Errno::INVAL),
        Some(said) if said != any => Ok(said),
        _ => Ok(asked.min(most)),
    };
    Ok(Depth {
        responder: said(given.map(|given| given.responder_resources), RDMA_MAX_RESP_RES, asked.responder)?,
        initiator: said(given.map(|given| given.initiator_depth), RDMA_MAX_INIT_DEPTH, asked.initiator)?,
    })
}

/// "Vendor option not supported" (IB specification 12.6.7.2).
const VENDOR_OPTION_NOT_SUPPORTED: u16 = 35;

/// `rdma_reject(3)`.
///
/// # Safety
/// Null or an id that exists; null or `len` bytes to read.
pub(crate) unsafe extern "C" fn rdma_reject(c: *mut rdma_cm_id, data: *const c_void, len: u8) -> c_int {
    // SAFETY: the contract of `rdma_reject` includes that of `reject`.
    minus_one(|| unsafe { reject(c, data, len, ::connect::CONSUMER_DEFINED) })
}

/// `rdma_reject_ece`: because of the peer's options.
///
/// # Safety
/// As [`rdma_reject`].
pub(crate) unsafe extern "C" fn rdma_reject_ece(c: *mut rdma_cm_id, data: *const c_void, len: u8) -> c_int {
    // SAFETY: the contract of `rdma_reject_ece` includes that of `reject`.
    minus_one(|| unsafe { reject(c, data, len, VENDOR_OPTION_NOT_SUPPORTED) })
}

/// # Safety
/// As [`rdma_reject`].
unsafe fn reject(c: *mut rdma_cm_id, data: *const c_void, len: u8, reason: u16) -> Result<c_int, Errno> {
    // SAFETY: the contract of `reject`, which is that of `rdma_reject`.
    unsafe { of(c)?.id.reject(param::private_data(data, len), reason) }?;
    Ok(0)
}
