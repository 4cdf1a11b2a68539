//! Endpoints: an id made, resolved and equipped in one call, and connect requests of synchronous
//! listeners.

use device::QpType;

use crate::boundary::{Errno, minus_one, otherwise};
use crate::rdmacm::event_object::{acknowledge, release_shown, uncount};
use crate::rdmacm::id_object::of;
use crate::rdmacm::id_state::QpTemplate;
use crate::rdmacm::{address, bind, event, id, options, qp, route, srq};
use crate::verbs::wait::{self, EventAttempt};
use abi::*;

/// `rdma_create_ep(3)`: a synchronous id. An active one is resolved and has its queue pair; a passive one
/// is bound.
///
/// # Safety
/// A place for the id; a list of `rdma_getaddrinfo`; a domain and attributes, or null.
pub(crate) unsafe extern "C" fn rdma_create_ep(
    c: *mut *mut rdma_cm_id,
    res: *mut rdma_addrinfo,
    pd: *mut ibv_pd,
    attr: *mut ibv_qp_init_attr,
) -> c_int {
    minus_one(|| {
        // SAFETY: the contract of `rdma_create_ep` (see its Safety section).
        unsafe {
            let (place, info) = (c.as_mut().ok_or(Errno::INVAL)?, res.as_ref().ok_or(Errno::INVAL)?);
            let qp_type = service(info.ai_qp_type)?;
            let new = id::create(std::ptr::null_mut(), std::ptr::null_mut(), info.ai_port_space, Some(qp_type))?;
            let done = match info.ai_flags & RAI_PASSIVE {
                0 => active(new, info, pd, attr.as_mut()),
                _ => passive(new, info, pd, attr.as_mut()),
            };
            if let Err(error) = done {
                end(new);
                return Err(error);
            }
            *place = new;
        }
        Ok(0)
    })
}

fn service(number: c_int) -> Result<QpType, Errno> {
    use QpType::{Rc, Uc, Ud, XrcRecv, XrcSend};
    [Rc, Uc, Ud, XrcSend, XrcRecv].into_iter().find(|known| *known as c_int == number).ok_or(Errno::INVAL)
}

/// # Safety
/// A new id; otherwise as [`rdma_create_ep`].
unsafe fn active(
    c: *mut rdma_cm_id,
    info: &rdma_addrinfo,
    pd: *mut ibv_pd,
    attr: Option<&mut ibv_qp_init_attr>,
) -> Result<(), Errno> {
    // SAFETY: the contract of `active`: a new id; otherwise as [`rdma_create_ep`].
    unsafe {
        let source = if info.ai_src_len == 0 { std::ptr::null() } else { info.ai_src_addr.cast_const() };
        bind::resolve_addr(c, source, info.ai_dst_addr)?;
        if info.ai_route_len > 0 {
            options::set_path(c, info.ai_route, info.ai_route_len)?;
        } else {
            bind::resolve_route(c)?;
        }
        if let Some(attr) = attr {
            attr.qp_type = info.ai_qp_type;
            qp::create(c, pd, attr)?;
        }
        if info.ai_connect_len > 0 && !info.ai_connect.is_null() {
            let preamble = std::slice::from_raw_parts(info.ai_connect.cast::<u8>(), info.ai_connect_len);
            of(c)?.state.lock().preamble = preamble.to_vec();
        }
        Ok(())
    }
}

/// # Safety
/// A new id; otherwise as [`rdma_create_ep`].
unsafe fn passive(
    c: *mut rdma_cm_id,
    info: &rdma_addrinfo,
    pd: *mut ibv_pd,
    attr: Option<&mut ibv_qp_init_attr>,
) -> Result<(), Errno> {
    // SAFETY: the contract of `passive`: a new id; otherwise as [`rdma_create_ep`].
    unsafe {
        let own = of(c)?;
        own.id.bind(address::read(info.ai_src_addr)?)?;
        route::refresh(c, own)?;
        if let Some(attr) = attr {
            let attr = ibv_qp_init_attr { qp_type: info.ai_qp_type, ..*attr };
            own.state.lock().passive = Some(QpTemplate { pd, attr });
        }
        Ok(())
    }
}

/// `rdma_destroy_ep(3)`.
///
/// # Safety
/// Null or an id that exists.
pub(crate) unsafe extern "C" fn rdma_destroy_ep(c: *mut rdma_cm_id) {
    // SAFETY: the contract of `rdma_destroy_ep`: null or an id that exists.
    otherwise((), || unsafe { end(c) });
}

/// # Safety
/// As [`rdma_destroy_ep`].
unsafe fn end(c: *mut rdma_cm_id) {
    // SAFETY: the contract of `end`, which is that of `rdma_destroy_ep`.
    unsafe {
        if c.is_null() {
            return;
        }
        qp::rdma_destroy_qp(c);
        srq::rdma_destroy_srq(c);
        let _ = id::destroy(c);
    }
}

/// `rdma_get_request(3)`: of a synchronous listener; EINVAL for any other id.
///
/// # Safety
/// Null or an id that exists; a place for the new one.
pub(crate) unsafe extern "C-unwind" fn rdma_get_request(listener: *mut rdma_cm_id, c: *mut *mut rdma_cm_id) -> c_int {
    // SAFETY: the contract of `rdma_get_request`: null or an id that exists; a place for the new one.
    wait::until(|| unsafe { next_request(listener, c.as_mut().ok_or(Errno::INVAL)?) })
}

/// # Safety
/// Null or an id that exists.
unsafe fn next_request(listener: *mut rdma_cm_id, place: &mut *mut rdma_cm_id) -> Result<EventAttempt, Errno> {
    // SAFETY: the contract of `next_request`: null or an id that exists.
    unsafe {
        let own = of(listener)?;
        let channel = own.waits_on().filter(|_| own.id.is_listening()).ok_or(Errno::INVAL)?;
        release_shown(listener);
        let mut event = std::ptr::null_mut();
        if let EventAttempt::WaitAt(fd) = event::attempt(channel, &mut event)? {
            return Ok(EventAttempt::WaitAt(fd));
        }
        if (*event).event != RDMA_CM_EVENT_CONNECT_REQUEST || (*event).status != 0 {
            (&raw mut (*listener).event).write(event);
            let status = (*event).status.saturating_abs();
            return Err(if status == 0 { Errno::INVAL } else { Errno(status) });
        }
        let new = (*event).id;
        let passive = own.state.lock().passive.as_ref().map(|passive| (passive.pd, passive.attr));
        if let Some((pd, mut attr)) = passive
            && let Err(error) = qp::create(new, pd, &mut attr)
        {
            acknowledge(event);
            let _ = id::destroy(new);
            return Err(error);
        }
        // The new id holds it now, however long the listener lives.
        uncount(event);
        (&raw mut (*new).event).write(event);
        *place = new;
        Ok(EventAttempt::Done)
    }
}
