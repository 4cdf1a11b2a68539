//! The library's device contexts: ids show them.

use std::ffi::CStr;
use std::ptr::NonNull;

use abi::{IBV_LINK_LAYER_ETHERNET, IBV_TRANSPORT_IB, Zeroed, ibv_context, ibv_port_attr};

use crate::addresses::{GidEntry, PORT, table};
use crate::library::{Verbs, verbs};

/// The GIDs that packets of a device can use.
///
/// # Safety
/// A context that is open.
pub(super) unsafe fn gids(context: NonNull<ibv_context>) -> Vec<GidEntry> {
    let Ok(library) = verbs() else { return Vec::new() };
    // SAFETY: the contract of `gids`: a context that is open.
    unsafe {
        let is_ethernet = port(library, context).is_some_and(|port| port.link_layer == IBV_LINK_LAYER_ETHERNET);
        table(library, context.as_ptr(), is_ethernet && is_of_infiniband(context))
    }
}

/// Whether the device speaks the transport of InfiniBand, on whatever link, and not iWARP's.
///
/// # Safety
/// A context that is open.
pub(super) unsafe fn is_of_infiniband(context: NonNull<ibv_context>) -> bool {
    // SAFETY: the contract of `is_of_infiniband`: a context that is open; it keeps its device.
    unsafe { (*(*context.as_ptr()).device).transport_type == IBV_TRANSPORT_IB }
}

/// # Safety
/// A context that is open.
pub(super) unsafe fn port(library: &Verbs, context: NonNull<ibv_context>) -> Option<ibv_port_attr> {
    let mut attr = ibv_port_attr::zeroed();
    // SAFETY: the contract of `port`: a context that is open; attributes to write.
    let result = unsafe { (library.ibv_query_port)(context.as_ptr(), PORT, &raw mut attr) };
    (result == 0).then_some(attr)
}

/// # Safety
/// A context that is open.
pub(super) unsafe fn name(library: &Verbs, context: NonNull<ibv_context>) -> Option<String> {
    // SAFETY: the contract of `name`: a context that is open; it keeps its device, and the device its name.
    unsafe {
        let name = (library.ibv_get_device_name)((*context.as_ptr()).device);
        if name.is_null() { None } else { Some(CStr::from_ptr(name).to_string_lossy().into_owned()) }
    }
}
