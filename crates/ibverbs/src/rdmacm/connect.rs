//! The active side of a connection, and its end.

use crate::boundary::{Errno, minus_one};
use crate::rdmacm::id_object::{IdOwn, of};
use crate::rdmacm::id_state::Depth;
use crate::rdmacm::{param, states, sync};
use abi::*;

/// `rdma_connect(3)`: for datagrams it asks for the peer's queue pair.
///
/// # Safety
/// Null or an id that exists; null or readable parameters.
pub(crate) unsafe extern "C" fn rdma_connect(c: *mut rdma_cm_id, given: *mut rdma_conn_param) -> c_int {
    minus_one(|| {
        // SAFETY: the contract of `rdma_connect`: null or an id that exists; null or readable parameters.
        unsafe {
            let own = of(c)?;
            let depth = depth(c, own, given)?;
            let mut wanted = param::wanted(given, depth, (*c).qp);
            own.state.lock().depth = depth;
            wanted.private_data.splice(0..0, own.state.lock().preamble.iter().copied());
            own.id.connect(&wanted)?;
            sync::complete(c)?;
        }
        Ok(0)
    })
}

/// As many READs and atomics as the program wants, or as the device can.
///
/// # Safety
/// An id that exists; null or readable parameters.
unsafe fn depth(c: *mut rdma_cm_id, own: &IdOwn, given: *const rdma_conn_param) -> Result<Depth, Errno> {
    // SAFETY: the contract of `depth`: an id that exists; null or readable parameters.
    let (most, given, has_qp) = unsafe { (param::device_depth(c)?, given.as_ref(), !(*c).qp.is_null()) };
    let Some(given) = given else {
        // Neither the id nor the parameters name a queue pair.
        let nothing_said = !has_qp && !own.is_ud();
        return if nothing_said { Err(Errno::INVAL) } else { Ok(Depth { responder: most, initiator: most }) };
    };
    let asked = |value: u8, any: u8| match value {
        value if value == any => Ok(most),
        value if value > most && !own.is_ud() => Err(Errno::INVAL),
        value => Ok(value),
    };
    Ok(Depth {
        responder: asked(given.responder_resources, RDMA_MAX_RESP_RES)?,
        initiator: asked(given.initiator_depth, RDMA_MAX_INIT_DEPTH)?,
    })
}

/// `rdma_establish(3)`: the active side of a connection whose queue pair is the program's own.
///
/// # Safety
/// Null or an id that exists.
pub(crate) unsafe extern "C" fn rdma_establish(c: *mut rdma_cm_id) -> c_int {
    minus_one(|| {
        // SAFETY: the contract of `rdma_establish`: null or an id that exists.
        unsafe {
            let own = of(c)?;
            if !(*c).qp.is_null() {
                return Err(Errno::INVAL);
            }
            own.id.confirm()?;
        }
        Ok(0)
    })
}

/// `rdma_notify(3)`: data came before the peer said that the connection stands.
///
/// # Safety
/// Null or an id that exists.
pub(crate) unsafe extern "C" fn rdma_notify(c: *mut rdma_cm_id, event: c_int) -> c_int {
    minus_one(|| {
        // SAFETY: the contract of `rdma_notify`: null or an id that exists.
        let own = unsafe { of(c) }?;
        if event != IBV_EVENT_COMM_EST {
            return Err(Errno::INVAL);
        }
        own.id.notify()?;
        Ok(0)
    })
}

/// `rdma_disconnect(3)`: the queue pair is flushed, and the peer told.
///
/// # Safety
/// Null or an id that exists.
pub(crate) unsafe extern "C" fn rdma_disconnect(c: *mut rdma_cm_id) -> c_int {
    minus_one(|| {
        // SAFETY: the contract of `rdma_disconnect`: null or an id that exists.
        unsafe {
            let own = of(c)?;
            if (*c).verbs.is_null() {
                return Err(Errno::INVAL);
            }
            states::fail((*c).qp)?;
            own.id.disconnect()?;
            sync::complete(c)?;
        }
        Ok(0)
    })
}
