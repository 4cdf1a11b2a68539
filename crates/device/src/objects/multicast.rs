//! Multicast groups: which queue pairs are attached to which group on which interface.
//!
//! The socket joins a group with the first queue pair and leaves it with the last. Every attached queue pair of this
//! process gets each packet to the group; other processes get copies of their own from the kernel. A queue pair that
//! sends to its own group receives its own packets, too, as on hardware and with the kernel's rxe. A program can turn
//! that off.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;
use udp::RxSocket;
use wire::Gid;

use crate::error::Error;
use crate::objects::limits;
use crate::objects::limits::LIMITS;

/// A group on an interface.
type GroupKey = (Gid, u32);
type GroupMembers<T> = Arc<[Arc<T>]>;

/// A queue pair as multicast groups see it.
pub(crate) trait GroupMember {
    /// The index of the interface that it uses.
    fn interface(&self) -> u32;
}

/// The groups of an engine.
pub(crate) struct MulticastGroups<T>(RwLock<HashMap<GroupKey, GroupMembers<T>>>);

impl<T> Default for MulticastGroups<T> {
    fn default() -> MulticastGroups<T> {
        MulticastGroups(RwLock::default())
    }
}

impl<T: GroupMember> MulticastGroups<T> {
    /// The queue pairs that get packets to this group on this interface.
    pub(crate) fn members(&self, group: Gid, interface: u32) -> GroupMembers<T> {
        self.0.read().get(&(group, interface)).cloned().unwrap_or_else(|| Arc::from([]))
    }

    /// Attaches a queue pair, unless it is attached already.
    pub(crate) fn attach(&self, group: Gid, entry: &Arc<T>, socket: &RxSocket) -> Result<(), Error> {
        if !group.is_multicast() {
            return Err(Error::Invalid("that GID is not a multicast group"));
        }
        let interface = entry.interface();
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
    pub(crate) fn detach(&self, group: Gid, entry: &Arc<T>, socket: &RxSocket) -> Result<(), Error> {
        let mut groups = self.0.write();
        if remove(&mut groups, (group, entry.interface()), entry, socket) {
            Ok(())
        } else {
            Err(Error::Invalid("the queue pair is not attached to that group"))
        }
    }

    /// Whether a queue pair is attached to any group.
    pub(crate) fn has(&self, entry: &Arc<T>) -> bool {
        self.0.read().values().any(|members| members.iter().any(|member| Arc::ptr_eq(member, entry)))
    }

    /// Detaches a queue pair from all its groups.
    pub(crate) fn detach_all(&self, entry: &Arc<T>, socket: &RxSocket) {
        if self.0.read().is_empty() {
            return;
        }
        let mut groups = self.0.write();
        let keys: Vec<GroupKey> = groups.keys().copied().collect();
        for key in keys {
            remove(&mut groups, key, entry, socket);
        }
    }
}

/// Removes a member. With the last one the socket leaves the group. False if it was no member.
fn remove<T>(
    groups: &mut HashMap<GroupKey, GroupMembers<T>>,
    key: GroupKey,
    entry: &Arc<T>,
    socket: &RxSocket,
) -> bool {
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

fn check_limits<T>(groups: &HashMap<GroupKey, GroupMembers<T>>, key: GroupKey) -> Result<(), Error> {
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
