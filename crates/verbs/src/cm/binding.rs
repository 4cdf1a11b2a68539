//! The device of an id.

use std::ffi::c_int;

use connect::Binding;
use transport::Mtu;
use wire::Gid;

use crate::addresses::PORT;
use crate::cm::context::{gids, is_of_infiniband, name, port};
use crate::cm::owned_id::OwnedCmId;
use crate::library::verbs;

/// The device that an id is bound to. `None` for a wildcard address, and for a port that the handles do not use.
pub(super) fn of(id: &OwnedCmId) -> Option<Binding> {
    let (context, local) = (id.context()?, id.local_addr()?);
    if id.port() != PORT {
        return None;
    }
    let library = verbs().ok()?;
    // SAFETY: the context is open as long as the id exists.
    let (device, port, gids) = unsafe { (name(library, context)?, port(library, context)?, gids(context)) };
    // SAFETY: the context is open as long as the id exists.
    let is_iwarp = unsafe { !is_of_infiniband(context) };
    let gid = if is_iwarp { Gid::from(local.ip()) } else { id.source_gid() };
    let entry = gids.iter().find(|entry| entry.gid == gid).or(gids.first());
    Some(Binding {
        device,
        gid: entry.filter(|_| !is_iwarp).map_or(gid, |entry| entry.gid),
        gid_index: entry.map_or(0, |entry| entry.index.into()),
        interface: entry.map_or(0, |entry| entry.interface_index),
        mtu: mtu(port.active_mtu).unwrap_or(Mtu::B1024),
    })
}

/// The payload per packet, by its number in `enum ibv_mtu`.
pub(super) fn mtu(number: c_int) -> Option<Mtu> {
    Mtu::ALL.into_iter().find(|mtu| *mtu as c_int == number)
}
