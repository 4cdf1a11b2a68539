//! `rdma_getaddrinfo(3)` and its kin: lists of resolved addresses.

use std::ffi::{CStr, CString};
use std::net::SocketAddr;
use std::sync::Arc;

use ::connect::{EventKind, Param};
use libc::{sockaddr, sockaddr_storage};

use crate::abi::*;
use crate::boundary::{Errno, minus_one, otherwise};
use crate::object::Object;
use crate::rdmacm::resolver::{self, Answer, Hints, Question, Unresolved};
use crate::rdmacm::{address, id, sync};

/// What the pointers of an entry point to.
struct InfoOwn {
    source: Option<Box<sockaddr_storage>>,
    destination: Option<Box<sockaddr_storage>>,
}

type InfoObject = Object<rdma_addrinfo, InfoOwn>;

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
        // SAFETY: the caller's promise.
        let (question, place) = unsafe { (question(node, service, hints)?, res.as_mut().ok_or(Errno::INVAL)?) };
        match resolver::resolve(&question) {
            Ok(answers) => *place = list(&answers),
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
) -> Result<Question, Errno> {
    // SAFETY: the caller's promise.
    unsafe {
        let hints = match hints.as_ref() {
            None => Hints::default(),
            Some(hints) => Hints {
                given: true,
                flags: hints.ai_flags,
                family: hints.ai_family,
                qp_type: hints.ai_qp_type,
                port_space: hints.ai_port_space,
                source: hinted(hints.ai_src_addr, hints.ai_src_len)?,
                destination: hinted(hints.ai_dst_addr, hints.ai_dst_len)?,
            },
        };
        Ok(Question { node: text(node), service: text(service), hints })
    }
}

/// # Safety
/// Null, or an address of that length.
unsafe fn hinted(address: *const sockaddr, length: libc::socklen_t) -> Result<Option<SocketAddr>, Errno> {
    if address.is_null() || length == 0 {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    let known = unsafe { address::read(address) }?;
    if length < address::length(known) { Err(Errno::INVAL) } else { Ok(Some(known)) }
}

/// # Safety
/// Null, or a string.
unsafe fn text(text: *const c_char) -> Option<CString> {
    // SAFETY: the caller's promise.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_owned())
}

/// The list that a program gets; null for no answers.
fn list(answers: &[Answer]) -> *mut rdma_addrinfo {
    answers.iter().rev().fold(std::ptr::null_mut(), |next, answer| entry(answer, next))
}

fn entry(answer: &Answer, next: *mut rdma_addrinfo) -> *mut rdma_addrinfo {
    let mut c = rdma_addrinfo::zeroed();
    c.ai_flags = answer.flags;
    (c.ai_qp_type, c.ai_port_space) = (answer.qp_type, answer.port_space);
    c.ai_family = match answer.destination.or(answer.source) {
        Some(SocketAddr::V4(_)) => libc::AF_INET,
        Some(SocketAddr::V6(_)) => libc::AF_INET6,
        None => libc::AF_UNSPEC,
    };
    let stored = |address: Option<SocketAddr>| address.map(|address| Box::new(address::storage(address)));
    let mut own = InfoOwn { source: stored(answer.source), destination: stored(answer.destination) };
    c.ai_src_len = answer.source.map_or(0, address::length);
    c.ai_dst_len = answer.destination.map_or(0, address::length);
    c.ai_src_addr = pointer(&mut own.source);
    c.ai_dst_addr = pointer(&mut own.destination);
    c.ai_next = next;
    InfoObject::leak(c, own)
}

fn pointer(stored: &mut Option<Box<sockaddr_storage>>) -> *mut sockaddr {
    stored.as_mut().map_or(std::ptr::null_mut(), |stored| (&raw mut **stored).cast())
}

/// `rdma_freeaddrinfo(3)`.
///
/// # Safety
/// Null, or a list that was not freed.
pub(crate) unsafe extern "C" fn rdma_freeaddrinfo(res: *mut rdma_addrinfo) {
    otherwise((), || {
        let mut next = res;
        while !next.is_null() {
            let entry = next;
            // SAFETY: the caller's promise.
            unsafe {
                next = (*entry).ai_next;
                InfoObject::free(entry);
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
        // SAFETY: the caller's promise.
        let (own, question) = unsafe { (id::of(c)?, question(node, service, hints)?) };
        let asks_nothing = question.node.is_none() && question.service.is_none() && !question.hints.given;
        if asks_nothing || question.hints.flags & (RAI_SA | RAI_DNS) == RAI_SA | RAI_DNS {
            return Err(Errno::INVAL);
        }
        if question.hints.flags & RAI_SA != 0 {
            return Err(Errno::NOT_SUPPORTED);
        }
        let (id, answers) = (own.id.clone(), Arc::clone(&own.state.lock().answers));
        // The name service may take its time.
        std::thread::Builder::new().name("longarm-resolve".into()).spawn(move || {
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
        // SAFETY: the caller's promise.
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
        // SAFETY: the caller's promise.
        let (own, place) = unsafe { (id::of(c)?, info.as_mut().ok_or(Errno::INVAL)?) };
        let answers = Arc::clone(&own.state.lock().answers);
        let answers = answers.lock();
        if answers.is_empty() {
            return Err(Errno::INVAL);
        }
        *place = list(&answers);
        Ok(0)
    })
}
