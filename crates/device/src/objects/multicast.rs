//! Multicast groups: which queue pairs are attached to which group on which interface.
//!
//! The socket joins a group with the first queue pair and leaves it with the last. A packet
//! to a group is handed to every attached queue pair of this process; other processes get
//! copies of their own from the kernel. A queue pair that is attached to the group it sends
//! to receives its own packets too, as on hardware and as with the kernel's rxe, unless it was made not to.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;
use udp::RxSocket;
use wire::Gid;

use crate::error::Error;
use crate::objects::limits;
use crate::objects::limits::LIMITS;
use crate::qp::entry::QpEntry;

/// A group on an interface.
type Key = (Gid, u32);
type Members = Arc<[Arc<QpEntry>]>;

/// The groups of an engine.
#[derive(Default)]
pub(crate) struct Groups(RwLock<HashMap<Key, Members>>);

impl Groups {
    /// The queue pairs that get packets to this group on this interface.
    pub(crate) fn members(&self, group: Gid, interface: u32) -> Members {
        self.0.read().get(&(group, interface)).cloned().unwrap_or_else(|| Arc::from([]))
    }

    /// Attaches a queue pair. Attached already is as good.
    pub(crate) fn attach(&self, group: Gid, entry: &Arc<QpEntry>, socket: &RxSocket) -> Result<(), Error> {
        if !group.is_multicast() {
            return Err(Error::Invalid("that GID is no multicast group"));
        }
        let interface = entry.context().interface();
        let mut groups = self.0.write();
        check_limits(&groups, (group, interface))?;
        let members = groups.get(&(group, interface));
        if members.is_some_and(|members| members.iter().any(|member| Arc::ptr_eq(member, entry))) {
            return Ok(());
        }
        if members.is_none() {
            socket.join_multicast(group.ip(), interface)?;
        }
        let others = members.into_iter().flat_map(|members| members.iter());
        let all = others.chain([entry]).cloned().collect();
        groups.insert((group, interface), all);
        Ok(())
    }

    /// Detaches a queue pair from a group.
    pub(crate) fn detach(&self, group: Gid, entry: &Arc<QpEntry>, socket: &RxSocket) -> Result<(), Error> {
        let mut groups = self.0.write();
        if remove(&mut groups, (group, entry.context().interface()), entry, socket) {
            Ok(())
        } else {
            Err(Error::Invalid("the queue pair is not attached to that group"))
        }
    }

    /// Whether a queue pair is attached to any group.
    pub(crate) fn has(&self, entry: &Arc<QpEntry>) -> bool {
        self.0.read().values().any(|members| members.iter().any(|member| Arc::ptr_eq(member, entry)))
    }

    /// Detaches a queue pair from all its groups.
    pub(crate) fn detach_all(&self, entry: &Arc<QpEntry>, socket: &RxSocket) {
        if self.0.read().is_empty() {
            return;
        }
        let mut groups = self.0.write();
        let keys: Vec<Key> = groups.keys().copied().collect();
        for key in keys {
            remove(&mut groups, key, entry, socket);
        }
    }
}

/// Removes a member; with the last one the socket leaves.
fn remove(groups: &mut HashMap<Key, Members>, key: Key, entry: &Arc<QpEntry>, socket: &RxSocket) -> bool {
    let Some(members) = groups.get(&key) else { return false };
    let rest: Vec<_> = members.iter().filter(|member| !Arc::ptr_eq(member, entry)).cloned().collect();
    if rest.len() == members.len() {
        return false;
    }
    if !rest.is_empty() {
        groups.insert(key, rest.into());
        return true;
    }
    groups.remove(&key);
    if let Err(error) = socket.leave_multicast(key.0.ip(), key.1) {
        // The interface may be gone, and the membership with it.
        log::debug!("cannot leave {}: {error}", key.0);
    }
    true
}

fn check_limits(groups: &HashMap<Key, Members>, key: Key) -> Result<(), Error> {
    match groups.get(&key) {
        Some(members) if members.len() >= LIMITS.max_mcast_qp as usize => {
            Err(Error::Exhausted("place for a queue pair in the multicast group"))
        }
        None if groups.len() >= limits::reachable().max_mcast_groups as usize => {
            Err(Error::Exhausted("multicast group: the system's igmp_max_memberships is the limit"))
        }
        _ => Ok(()),
    }
}
