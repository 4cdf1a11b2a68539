//! The effects of an event before the program sees it: its queue pair changes state, and the id's structure
//! is updated.

use ::connect::{CONSUMER_DEFINED, EventKind, Param};
use device::Gid;

use crate::boundary::Errno;
use crate::rdmacm::fetched::FetchedEvent;
use crate::rdmacm::id_object::{IdOwn, of};
use crate::rdmacm::id_state::{Depth, MulticastGroup};
use crate::rdmacm::{id, route, states};
use crate::verbs::multicast;
use abi::*;

/// Applies them; false if the program is not told of the event.
///
/// # Safety
/// The ids of the event exist.
pub(super) unsafe fn apply(fetched: &mut FetchedEvent) -> bool {
    // SAFETY: the contract of `apply`: the ids of the event exist.
    unsafe {
        match fetched.event.kind {
            EventKind::ConnectRequest => request(fetched),
            EventKind::ConnectResponse => response(fetched),
            EventKind::AddrResolved => shown(fetched, EventKind::AddrError),
            EventKind::RouteResolved => shown(fetched, EventKind::RouteError),
            EventKind::Rejected => ended(fetched, true),
            EventKind::Disconnected => ended(fetched, false),
            EventKind::MulticastJoin | EventKind::MulticastError => {
                joined(fetched);
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
unsafe fn shown(fetched: &mut FetchedEvent, otherwise: EventKind) -> bool {
    // SAFETY: the contract of `shown`: the event's id exists.
    let shown = unsafe {
        of(fetched.id).and_then(|own| {
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

/// Sets up the new id of a connect request. If that fails, the request is rejected.
///
/// # Safety
/// Both exist.
unsafe fn request(fetched: &FetchedEvent) -> bool {
    // SAFETY: the contract of `request`: both exist.
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
    // SAFETY: the contract of `set_up`: both exist.
    unsafe {
        let own = of(new)?;
        if let Param::Conn(conn) = param {
            let depth = Depth { responder: conn.responder_resources, initiator: conn.initiator_depth };
            own.state.lock().depth = depth;
        }
        route::refresh(new, own)?;
        route::show_path(new, own);
        if of(listener)?.waits_on().is_some() {
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
unsafe fn response(fetched: &mut FetchedEvent) -> bool {
    let c = fetched.id;
    // SAFETY: the contract of `response`: the event's id exists.
    let Ok(own) = (unsafe { of(c) }) else { return false };
    // SAFETY: the contract of `response`: the event's id exists.
    if unsafe { (*c).qp.is_null() } {
        return true;
    }
    // SAFETY: the contract of `response`: the event's id exists.
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
    // SAFETY: the contract of `finish`: an id that exists, with a queue pair.
    unsafe {
        let done = states::connect(c, own, None).and_then(|()| Ok(own.id.confirm()?));
        if done.is_err() {
            let _ = states::fail((*c).qp);
            // The peer waits for an answer.
            let _ = own.id.reject(&[], CONSUMER_DEFINED);
        }
        done
    }
}

/// The connection ended, or was refused: its queue pair stops. The program is not told if the connection could not be
/// made, since it knows that.
///
/// # Safety
/// The event's id exists.
unsafe fn ended(fetched: &FetchedEvent, refused: bool) -> bool {
    // SAFETY: the contract of `ended`: the event's id exists.
    let Ok(own) = (unsafe { of(fetched.id) }) else { return false };
    if own.state.lock().failed {
        return false;
    }
    if refused {
        // SAFETY: the contract of `ended`: the event's id exists. A queue pair of the program's own may be in any
        // state.
        let _ = unsafe { states::fail((*fetched.id).qp) };
    }
    true
}

/// A group is joined, or could not be: the queue pair is attached, and the event shows the program's own
/// pointer as its private data.
///
/// # Safety
/// The event's id exists.
unsafe fn joined(fetched: &mut FetchedEvent) {
    let c = fetched.id;
    // SAFETY: the contract of `joined`: the event's id exists.
    let Ok(own) = (unsafe { of(c) }) else { return };
    let Param::Datagram(param) = &fetched.event.param else { return };
    let gid = param.address.destination;
    let mut state = own.state.lock();
    let awaited = |group: &&mut MulticastGroup| !group.joined && Gid::from(group.address) == gid;
    let Some(group) = state.groups.iter_mut().find(awaited) else { return };
    group.joined = true;
    fetched.shown_context = group.context;
    // SAFETY: the contract of `joined`: the event's id exists.
    let qp = unsafe { (*c).qp };
    if fetched.event.kind != EventKind::MulticastJoin || !group.receives || qp.is_null() {
        return;
    }
    // SAFETY: a queue pair of the program's.
    match unsafe { multicast::ibv_attach_mcast(qp, &ibv_gid { raw: gid.0 }, 0) } {
        0 => group.attached = true,
        errno => (fetched.event.kind, fetched.event.status) = (EventKind::MulticastError, -errno),
    }
}
