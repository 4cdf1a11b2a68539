//! What belongs to an event before the program sees it: its queue pair goes on, and the structure
//! shows what is new.

use ::connect::{EventKind, Param};

use crate::abi::*;
use crate::boundary::Errno;
use crate::rdmacm::event::Fetched;
use crate::rdmacm::id::{self, Depth, IdOwn};
use crate::rdmacm::{multicast, route, states};

/// Does it; false if the program is not told of the event.
///
/// # Safety
/// The ids of the event exist.
pub(super) unsafe fn act_on(fetched: &mut Fetched) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        match fetched.event.kind {
            EventKind::ConnectRequest => request(fetched),
            EventKind::ConnectResponse => response(fetched),
            EventKind::AddrResolved => shown(fetched, EventKind::AddrError),
            EventKind::RouteResolved => shown(fetched, EventKind::RouteError),
            EventKind::Rejected => ended(fetched, true),
            EventKind::Disconnected => ended(fetched, false),
            EventKind::MulticastJoin | EventKind::MulticastError => {
                multicast::joined(fetched);
                true
            }
            _ => true,
        }
    }
}

/// Address or route are resolved: the structure shows them.
///
/// # Safety
/// The event's id exists.
unsafe fn shown(fetched: &mut Fetched, otherwise: EventKind) -> bool {
    // SAFETY: the caller's promise.
    let shown = unsafe {
        id::of(fetched.id).and_then(|own| {
            route::refresh(fetched.id, own)?;
            if fetched.event.kind == EventKind::RouteResolved {
                route::show_path(fetched.id, own);
            }
            Ok(())
        })
    };
    if let Err(Errno(errno)) = shown {
        (fetched.event.kind, fetched.event.status) = (otherwise, -errno);
    }
    true
}

/// A new id, of the listener's kind. One that cannot be made is rejected.
///
/// # Safety
/// Both exist.
unsafe fn request(fetched: &Fetched) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        let (new, listener) = (fetched.id, fetched.listener);
        if let Err(error) = set_up(new, listener, &fetched.event.param) {
            log::warn!("a connect request is rejected: {}", std::io::Error::from_raw_os_error(error.0));
            let _ = id::destroy(new);
            return false;
        }
    }
    true
}

/// # Safety
/// Both exist.
unsafe fn set_up(new: *mut rdma_cm_id, listener: *mut rdma_cm_id, param: &Param) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    unsafe {
        let own = id::of(new)?;
        if let Param::Conn(conn) = param {
            let depth = Depth { responder: conn.responder_resources, initiator: conn.initiator_depth };
            own.state.lock().depth = depth;
        }
        route::refresh(new, own)?;
        route::show_path(new, own);
        if id::of(listener)?.waits_on().is_some() {
            id::migrate(new, std::ptr::null_mut())?;
        }
    }
    Ok(())
}

/// The peer accepts. With a queue pair the library finishes the connection, and the program sees
/// that it stands; without one the program does it.
///
/// # Safety
/// The event's id exists.
unsafe fn response(fetched: &mut Fetched) -> bool {
    let c = fetched.id;
    // SAFETY: the caller's promise.
    let Ok(own) = (unsafe { id::of(c) }) else { return false };
    // SAFETY: likewise.
    if unsafe { (*c).qp.is_null() } {
        return true;
    }
    // SAFETY: likewise.
    match unsafe { finish(c, own) } {
        Ok(()) => fetched.event.kind = EventKind::Established,
        Err(Errno(errno)) => {
            (fetched.event.kind, fetched.event.status) = (EventKind::ConnectError, -errno);
            fetched.event.param = Param::None;
            own.state.lock().failed = true;
        }
    }
    true
}

/// # Safety
/// An id that exists, with a queue pair.
unsafe fn finish(c: *mut rdma_cm_id, own: &IdOwn) -> Result<(), Errno> {
    // SAFETY: the caller's promise.
    unsafe {
        let done = states::connect(c, own, None).and_then(|()| Ok(own.id.confirm()?));
        if done.is_err() {
            let _ = states::fail((*c).qp);
            // The peer waits for an answer.
            let _ = own.id.reject(&[], CONSUMER_REJECT);
        }
        done
    }
}

/// "The consumer decided so" (IB specification 12.6.7.2).
pub(super) const CONSUMER_REJECT: u16 = 28;

/// The connection ended, or was refused: its queue pair sends no more. Nothing is told about one that could not be
/// made, which the program knows.
///
/// # Safety
/// The event's id exists.
unsafe fn ended(fetched: &Fetched, refused: bool) -> bool {
    // SAFETY: the caller's promise.
    let Ok(own) = (unsafe { id::of(fetched.id) }) else { return false };
    if own.state.lock().failed {
        return false;
    }
    if refused {
        // SAFETY: likewise. A queue pair of the program's own may be in any state.
        let _ = unsafe { states::fail((*fetched.id).qp) };
    }
    true
}
