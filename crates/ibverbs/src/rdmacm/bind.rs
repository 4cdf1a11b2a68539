//! Binding, listening, resolving.

use libc::sockaddr;

use crate::boundary::{Errno, minus_one};
use crate::rdmacm::id_object::of;
use crate::rdmacm::{address, route, sync};
use abi::*;

/// `rdma_bind_addr(3)`: with a specific address the id is bound to the address's device as well.
///
/// # Safety
/// Null or an id that exists; null or an address.
pub(crate) unsafe extern "C" fn rdma_bind_addr(c: *mut rdma_cm_id, address: *mut sockaddr) -> c_int {
    minus_one(|| {
        // SAFETY: the contract of `rdma_bind_addr`: null or an id that exists; null or an address.
        unsafe {
            let own = of(c)?;
            own.id.bind(address::read(address)?)?;
            route::refresh(c, own)?;
        }
        Ok(0)
    })
}

/// `rdma_listen(3)`.
///
/// # Safety
/// Null or an id that exists.
pub(crate) unsafe extern "C" fn rdma_listen(c: *mut rdma_cm_id, backlog: c_int) -> c_int {
    minus_one(|| {
        // SAFETY: the contract of `rdma_listen`: null or an id that exists.
        unsafe {
            let own = of(c)?;
            // As in Linux: zero and less mean the system's default.
            own.id.listen(u32::try_from(backlog).unwrap_or(0))?;
            route::refresh(c, own)?;
        }
        Ok(0)
    })
}

/// `rdma_resolve_addr(3)`. The host's own tables have the answer: it takes no time.
///
/// # Safety
/// Null or an id that exists; null or addresses.
pub(crate) unsafe extern "C" fn rdma_resolve_addr(
    c: *mut rdma_cm_id,
    source: *mut sockaddr,
    destination: *mut sockaddr,
    _timeout_ms: c_int,
) -> c_int {
    minus_one(|| {
        // SAFETY: the contract of `rdma_resolve_addr`: null or an id that exists; null or addresses.
        unsafe { resolve_addr(c, source, destination) }?;
        Ok(0)
    })
}

/// # Safety
/// As [`rdma_resolve_addr`].
pub(super) unsafe fn resolve_addr(
    c: *mut rdma_cm_id,
    source: *const sockaddr,
    destination: *const sockaddr,
) -> Result<(), Errno> {
    // SAFETY: the contract of `resolve_addr`, which is that of `rdma_resolve_addr`.
    unsafe {
        let own = of(c)?;
        let destination = address::read(destination)?;
        let source = if source.is_null() { None } else { Some(address::read(source)?) };
        own.id.resolve_addr(source, destination)?;
        // The destination is shown immediately, the rest with the event.
        (&raw mut (*c).route.addr.dst_storage).write(socket_address::storage(destination));
        sync::complete(c)
    }
}

/// `rdma_resolve_route(3)`.
///
/// # Safety
/// Null or an id that exists.
pub(crate) unsafe extern "C" fn rdma_resolve_route(c: *mut rdma_cm_id, _timeout_ms: c_int) -> c_int {
    minus_one(|| {
        // SAFETY: the contract of `rdma_resolve_route`: null or an id that exists.
        unsafe { resolve_route(c) }?;
        Ok(0)
    })
}

/// # Safety
/// As [`rdma_resolve_route`].
pub(super) unsafe fn resolve_route(c: *mut rdma_cm_id) -> Result<(), Errno> {
    // SAFETY: the contract of `resolve_route`, which is that of `rdma_resolve_route`.
    unsafe {
        of(c)?.id.resolve_route()?;
        sync::complete(c)
    }
}
