//! The GID table of a port.

use std::mem::size_of;

use abi::{IBV_GID_TYPE_ROCE_V2, ibv_context, ibv_gid, ibv_gid_entry};
use wire::Gid;

use crate::library::Verbs;

/// The only port that the handles use. Cards with two ports show each as a device of its own (mlx5), or are used by
/// their first one.
pub(crate) const PORT: u8 = 1;
/// Entries that are read at most.
const MAX_ENTRIES: usize = 256;

/// One usable entry of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct GidEntry {
    pub(crate) index: u8,
    pub(crate) gid: Gid,
    /// The network interface; zero on InfiniBand.
    pub(crate) interface_index: u32,
}

/// The entries of the table that packets can use: RoCEv2 on Ethernet, all on InfiniBand and iWARP.
///
/// # Safety
/// A context that is open.
pub(crate) unsafe fn table(library: &Verbs, context: *mut ibv_context, is_ethernet: bool) -> Vec<GidEntry> {
    let empty =
        ibv_gid_entry { gid: ibv_gid { raw: [0; 16] }, gid_index: 0, port_num: 0, gid_type: 0, ndev_ifindex: 0 };
    let mut entries = vec![empty; MAX_ENTRIES];
    let entry_bytes = size_of::<ibv_gid_entry>();
    // SAFETY: an open context, and room for that many entries.
    let count = unsafe { (library._ibv_query_gid_table)(context, entries.as_mut_ptr(), entries.len(), 0, entry_bytes) };
    entries.truncate(usize::try_from(count).unwrap_or(0));
    let usable = |entry: &&ibv_gid_entry| {
        entry.port_num == u32::from(PORT) && (!is_ethernet || entry.gid_type == IBV_GID_TYPE_ROCE_V2)
    };
    entries.iter().filter(usable).filter_map(entry).collect()
}

fn entry(entry: &ibv_gid_entry) -> Option<GidEntry> {
    let index = u8::try_from(entry.gid_index).ok()?;
    Some(GidEntry { index, gid: gid_of(entry.gid), interface_index: entry.ndev_ifindex })
}

/// A GID of C's structure.
pub(crate) fn gid_of(gid: ibv_gid) -> Gid {
    // SAFETY: both variants of the union are 16 bytes of any value.
    Gid(unsafe { gid.raw })
}
