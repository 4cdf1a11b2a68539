//! `rdma_getaddrinfo(3)` and its kin: lists of resolved addresses.

use std::ffi::{CStr, CString};
use std::net::SocketAddr;
use std::sync::Arc;

use ::connect::{EventKind, Param};
use libc::sockaddr;

use crate::boundary::{Errno, minus_one, otherwise};
use crate::rdmacm::id_object::of;
use crate::rdmacm::resolver::{self, ResolveHints, ResolveRequest, ResolvedAddress, Unresolved};
use crate::rdmacm::{address, sync};
use abi::*;

/// `rdma_getaddrinfo(3)`: zero, −1 with errno, or a code of `getaddrinfo(3)`.
///
/// # Safety
/// Strings, hints, or null; a place for the list.
pub(crate) unsafe extern "C" fn rdma_getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const rdma_addrinfo,
    res: *mut *mut rdma_addrinfo,
) -> c_int {
    minus_one(|| {
        // SAFETY: the contract of `rdma_getaddrinfo`: strings, hints, or null; a place for the list.
        let (question, place) = unsafe { (question(node, service, hints)?, res.as_mut().ok_or(Errno::INVAL)?) };
        match resolver::resolve(&question) {
            Ok(answers) => *place = list(&answers)?,
            Err(Unresolved::Code(code)) => return Ok(code),
            Err(Unresolved::Errno(errno)) => return Err(Errno(errno)),
        }
        Ok(0)
    })
}

/// # Safety
/// As [`rdma_getaddrinfo`].
unsafe fn question(
    node: *const c_char,
    service: *const c_char,
    hints: *const rdma_addrinfo,
) -> Result<ResolveRequest, Errno> {
    // SAFETY: the contract of `question`, which is that of `rdma_getaddrinfo`.
    unsafe {
        let hints = match hints.as_ref() {
            None => ResolveHints::default(),
            Some(hints) => ResolveHints {
                given: true,
                flags: hints.ai_flags,
                family: hints.ai_family,
                qp_type: hints.ai_qp_type,
                port_space: hints.ai_port_space,
                source: hinted(hints.ai_src_addr, hints.ai_src_len)?,
                destination: hinted(hints.ai_dst_addr, hints.ai_dst_len)?,
            },
        };
        Ok(ResolveRequest { node: text(node), service: text(service), hints })
    }
}

/// # Safety
/// Null, or an address of that length.
unsafe fn hinted(address: *const sockaddr, length: libc::socklen_t) -> Result<Option<SocketAddr>, Errno> {
    if address.is_null() || length == 0 {
        return Ok(None);
    }
    // SAFETY: the contract of `hinted`: null, or an address of that length.
    let known = unsafe { address::read(address) }?;
    if length < socket_address::length(known) { Err(Errno::INVAL) } else { Ok(Some(known)) }
}

/// # Safety
/// Null, or a string.
unsafe fn text(text: *const c_char) -> Option<CString> {
    // SAFETY: the contract of `text`: null, or a string.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_owned())
}

/// The list that a program gets; null for no answers. Entries and what they point to are each allocated by
/// `malloc(3)`: programs make some of their own and have `rdma_freeaddrinfo` free them.
fn list(answers: &[ResolvedAddress]) -> Result<*mut rdma_addrinfo, Errno> {
    let mut first = std::ptr::null_mut();
    for answer in answers.iter().rev() {
        match entry(answer, first) {
            Ok(entry) => first = entry,
            Err(error) => {
                // SAFETY: this function made the list, and hands it to nobody.
                unsafe { rdma_freeaddrinfo(first) };
                return Err(error);
            }
        }
    }
    Ok(first)
}

fn entry(answer: &ResolvedAddress, next: *mut rdma_addrinfo) -> Result<*mut rdma_addrinfo, Errno> {
    let mut c = rdma_addrinfo::zeroed();
    c.ai_flags = answer.flags;
    (c.ai_qp_type, c.ai_port_space) = (answer.qp_type, answer.port_space);
    c.ai_family = match answer.destination.or(answer.source) {
        Some(SocketAddr::V4(_)) => libc::AF_INET,
        Some(SocketAddr::V6(_)) => libc::AF_INET6,
        None => libc::AF_UNSPEC,
    };
    let place = allocated(c)?;
    // SAFETY: made just now; everything that it holds is freed with it.
    let c = unsafe { &mut *place };
    let filled = stored(answer.source, &mut c.ai_src_addr, &mut c.ai_src_len)
        .and_then(|()| stored(answer.destination, &mut c.ai_dst_addr, &mut c.ai_dst_len));
    if let Err(error) = filled {
        // SAFETY: made just now; everything that it holds is freed with it; and it is in no list.
        unsafe { rdma_freeaddrinfo(place) };
        return Err(error);
    }
    c.ai_next = next;
    Ok(place)
}

fn stored(address: Option<SocketAddr>, place: &mut *mut sockaddr, length: &mut libc::socklen_t) -> Result<(), Errno> {
    if let Some(address) = address {
        *place = allocated(socket_address::storage(address))?.cast();
        *length = socket_address::length(address);
    }
    Ok(())
}

/// A value in memory of its own, which `free(3)` frees.
fn allocated<T: Copy>(value: T) -> Result<*mut T, Errno> {
    // SAFETY: any size is right; the alignment is that of everything in C.
    let place: *mut T = unsafe { libc::malloc(size_of::<T>()) }.cast();
    if place.is_null() {
        return Err(Errno::NOMEM);
    }
    // SAFETY: `malloc` gave room for one value of this type, aligned for any type of C.
    unsafe { place.write(value) };
    Ok(place)
}

/// `rdma_freeaddrinfo(3)`.
///
/// # Safety
/// Null, or a list that was not freed.
pub(crate) unsafe extern "C" fn rdma_freeaddrinfo(res: *mut rdma_addrinfo) {
    otherwise((), || {
        let mut next = res;
        while !next.is_null() {
            // SAFETY: the contract of `rdma_freeaddrinfo`: null, or a list that was not freed; all are of `malloc` or
            // null.
            unsafe {
                let entry = next.read();
                for part in [
                    entry.ai_src_addr.cast(),
                    entry.ai_dst_addr.cast(),
                    entry.ai_src_canonname.cast(),
                    entry.ai_dst_canonname.cast(),
                    entry.ai_route,
                    entry.ai_connect,
                ] {
                    libc::free(part);
                }
                libc::free(next.cast());
                next = entry.ai_next;
            }
        }
    });
}

/// `rdma_resolve_addrinfo(3)`: the answer comes as an event, and is fetched by `rdma_query_addrinfo`.
///
/// # Safety
/// Null or an id that exists; strings, hints, or null.
pub(crate) unsafe extern "C" fn rdma_resolve_addrinfo(
    c: *mut rdma_cm_id,
    node: *const c_char,
    service: *const c_char,
    hints: *const rdma_addrinfo,
) -> c_int {
    minus_one(|| {
        // SAFETY: the contract of `rdma_resolve_addrinfo`: null or an id that exists; strings, hints, or null.
        let (own, question) = unsafe { (of(c)?, question(node, service, hints)?) };
        let asks_nothing = question.node.is_none() && question.service.is_none() && !question.hints.given;
        if asks_nothing || question.hints.flags & (RAI_SA | RAI_DNS) == RAI_SA | RAI_DNS {
            return Err(Errno::INVAL);
        }
        if question.hints.flags & RAI_SA != 0 {
            return Err(Errno::NOT_SUPPORTED);
        }
        let (id, answers) = (own.id.clone(), Arc::clone(&own.state.lock().answers));
        // The name service may take its time.
        guest::spawn("longarm-resolve", move || {
            let (kind, status) = match resolver::resolve(&question) {
                Ok(found) => {
                    *answers.lock() = found;
                    (EventKind::AddrinfoResolved, 0)
                }
                Err(Unresolved::Code(code)) => (EventKind::AddrinfoError, code),
                Err(Unresolved::Errno(errno)) => (EventKind::AddrinfoError, -errno),
            };
            id.post(kind, status, Param::None);
        })?;
        // SAFETY: the contract of `rdma_resolve_addrinfo`: null or an id that exists; strings, hints, or null.
        unsafe { sync::complete(c) }?;
        Ok(0)
    })
}

/// `rdma_query_addrinfo(3)`: EINVAL if nothing was resolved.
///
/// # Safety
/// Null or an id that exists; a place for the list.
pub(crate) unsafe extern "C" fn rdma_query_addrinfo(c: *mut rdma_cm_id, info: *mut *mut rdma_addrinfo) -> c_int {
    minus_one(|| {
        // SAFETY: the contract of `rdma_query_addrinfo`: null or an id that exists; a place for the list.
        let (own, place) = unsafe { (of(c)?, info.as_mut().ok_or(Errno::INVAL)?) };
        let answers = Arc::clone(&own.state.lock().answers);
        let answers = answers.lock();
        if answers.is_empty() {
            return Err(Errno::INVAL);
        }
        *place = list(&answers)?;
        Ok(0)
    })
}
