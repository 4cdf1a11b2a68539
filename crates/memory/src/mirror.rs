//! Notifications about keys and the memory under them, for peers on the same host that access the memory
//! themselves.
//!
//! The registry checks accesses that come through it. A peer in another process that has mapped the memory
//! checks its own accesses, so two things must hold. The peer learns of a key before the key is handed out.
//! Before memory is given back, the registry waits until no peer uses it any more. A [`Mirror`] does both;
//! without one nothing changes.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use transport::Access;

use crate::shared::{ObjectPlace, SharedKey};

/// Rights by which peers reach memory. A key without any of them is useless to peers.
const REMOTE_RIGHTS: Access =
    Access::REMOTE_WRITE.union(Access::REMOTE_READ).union(Access::REMOTE_ATOMIC).union(Access::FLUSH_GLOBAL);

/// An object's part of a memfd.
#[derive(Clone, Debug)]
pub struct ObjectFile {
    /// The memfd, sealed against shrinking.
    pub fd: Arc<OwnedFd>,
    /// The offset of the object in the memfd, in bytes.
    pub start: u64,
    /// Its length.
    pub len_bytes: u64,
}

/// Receives notifications of keys that peers can use, and of the memory under them.
///
/// All calls except `closed` for a memory region are made under the registry's lock, so no implementation may
/// call the registry.
pub trait Mirror: Send + Sync {
    /// Memory that peers can map; called before the first key in it. The number is not used again in this
    /// process.
    fn object_added(&self, object: u32, file: &ObjectFile);

    /// Called after the last key in the object was closed.
    fn object_removed(&self, object: u32);

    /// A key that peers can use; called after its gate was opened.
    fn opened(&self, slot: u32, key: &SharedKey);

    /// The key of a slot is dead in this process, and none of the process' accesses by it is in progress.
    /// Returns when the same holds for peers, so it may wait. It may name a key that was never opened, if the
    /// key was being closed while the mirror was set.
    fn closed(&self, slot: u32);

    /// Adopted memory [is given up](crate::is_given_up): the keys in such objects stay valid, without a
    /// place. Returns when no peer uses that memory any more. Called before a fork, without the registry's
    /// lock.
    fn given_up(&self);
}

/// True if peers can use a key with these rights.
pub(crate) fn is_remote(access: Access) -> bool {
    access.intersects(REMOTE_RIGHTS)
}

impl ObjectPlace {
    /// The place of `len_bytes` from `from` on within a key's range of `whole_bytes`, all inside. `None` if
    /// none of these bytes is in the object.
    pub(crate) fn part(self, whole_bytes: u64, from: u64, len_bytes: u64) -> Option<ObjectPlace> {
        let end = from + len_bytes;
        let (first, last) = (from.max(self.skip_front), end.min(whole_bytes - self.skip_back));
        (first < last).then(|| ObjectPlace {
            object: self.object,
            offset: self.offset + (first - self.skip_front),
            skip_front: first - from,
            skip_back: end - last,
        })
    }
}
