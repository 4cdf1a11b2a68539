//! The cluster as Redis clients see it: each member is a master, at the address of its own door.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use longarm_kv::{ClusterConfig, ConfigError, HashSlot, LocalTable, NotServing, ServingRight};
use sha2::{Digest, Sha256};

use crate::error::CommandError;

/// Host and port of a door.
pub(crate) type DoorPlace = (String, u16);

/// The cluster of a door.
#[derive(Clone, Debug)]
pub(crate) struct DoorNodes {
    right: ServingRight,
    /// Doors of members whose port is another, or whose host is not that of the member.
    places: BTreeMap<String, DoorPlace>,
    /// The port of this door, which is that of other members' doors, too.
    port: u16,
    /// This door is all of the cluster, so each client finds it where it has found it.
    is_alone: bool,
}

/// A node: what `CLUSTER` tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DoorNode {
    /// 40 hexadecimal digits.
    pub(crate) id: String,
    pub(crate) place: DoorPlace,
    pub(crate) is_me: bool,
    /// First and last slot of each share that it serves.
    pub(crate) slots: Vec<(u16, u16)>,
}

impl DoorNodes {
    /// The cluster that the table's server belongs to, with the addresses of doors that are not where others expect them.
    pub(crate) fn of_member(right: ServingRight, places: &[(String, DoorPlace)], port: u16) -> DoorNodes {
        DoorNodes { right, places: places.iter().cloned().collect(), port, is_alone: false }
    }

    /// A cluster of this door alone.
    ///
    /// # Errors
    /// Never with a name that can be one.
    pub(crate) fn alone(name: &str, port: u16) -> Result<DoorNodes, ConfigError> {
        let config = ClusterConfig::fixed(&[(name, "self")])?;
        Ok(DoorNodes { right: ServingRight::fixed(config, name), places: BTreeMap::new(), port, is_alone: true })
    }

    /// The cluster that a door shall show, if any.
    pub(crate) fn choose(
        table: &LocalTable,
        wants_cluster: bool,
        places: &[(String, DoorPlace)],
        name: &str,
        port: u16,
    ) -> Result<Option<DoorNodes>, ConfigError> {
        match table.serving_right() {
            Some(right) => Ok(Some(DoorNodes::of_member(right.clone(), places, port))),
            None if wants_cluster => DoorNodes::alone(name, port).map(Some),
            None => Ok(None),
        }
    }

    /// Refuses keys of several slots, and those of slots that another member serves. Returns the slot, if there are keys.
    pub(crate) fn admit<'a>(&self, mut keys: impl Iterator<Item = &'a [u8]>) -> Result<Option<HashSlot>, CommandError> {
        let Some(slot) = keys.next().map(HashSlot::of_key) else { return Ok(None) };
        if keys.any(|key| HashSlot::of_key(key) != slot) {
            return Err(CommandError::words("CROSSSLOT Keys in request don't hash to the same slot"));
        }
        self.right.check(slot).map_err(|refused| self.refusal(slot, &refused))?;
        Ok(Some(slot))
    }

    /// True if this member serves a key.
    pub(crate) fn serves(&self, key: &[u8]) -> bool {
        self.right.check(HashSlot::of_key(key)).is_ok()
    }

    /// The refusal of a key of this slot.
    pub(crate) fn refusal(&self, slot: HashSlot, refused: &NotServing) -> CommandError {
        match refused {
            NotServing::Moved { .. } => self.moved(slot),
            NotServing::Down(_) => CommandError::words("CLUSTERDOWN Hash slot not served"),
            NotServing::NoTerm => CommandError::DOWN,
        }
    }

    fn moved(&self, slot: HashSlot) -> CommandError {
        let config = self.config();
        match config.primary(slot) {
            Some(member) => {
                let (host, port) = self.place(&member.id.name, &member.address);
                CommandError::text(format!("MOVED {slot} {host}:{port}"))
            }
            // Another configuration came in between.
            None => CommandError::words("CLUSTERDOWN Hash slot not served"),
        }
    }

    /// True if other doors have clients, too.
    pub(crate) fn has_others(&self) -> bool {
        !self.is_alone && self.config().members.len() > 1
    }

    pub(crate) fn config(&self) -> Arc<ClusterConfig> {
        let none = || ClusterConfig {
            epoch: 0,
            replicas: 0,
            keeps_data: false,
            joined: 0,
            members: Vec::new(),
            draining: Vec::new(),
            shares: Vec::new(),
        };
        self.right.config().unwrap_or_else(|| Arc::new(none()))
    }

    /// The backups that each slot of this member has at least.
    pub(crate) fn backups(&self) -> usize {
        let config = self.config();
        config.shares_of(self.right.member()).map(|share| share.backups.len()).min().unwrap_or(0)
    }

    pub(crate) fn my_id(&self) -> String {
        node_id(&self.right.member().name)
    }

    /// All nodes, for a client that has reached this door at `local`.
    pub(crate) fn all(&self, local: SocketAddr) -> Vec<DoorNode> {
        let config = self.config();
        let node = |member: &longarm_kv::ClusterMember| DoorNode {
            id: node_id(&member.id.name),
            place: match self.is_alone {
                true => (local.ip().to_string(), local.port()),
                false => self.place(&member.id.name, &member.address),
            },
            is_me: member.id == *self.right.member(),
            slots: config.shares_of(&member.id).map(|share| (share.from, share.to)).collect(),
        };
        config.members.iter().map(node).collect()
    }

    /// The door of a member: where the operator says, or at this door's port of the member's host.
    fn place(&self, name: &str, address: &str) -> DoorPlace {
        let host = || address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']']);
        self.places.get(name).cloned().unwrap_or_else(|| (host().into(), self.port))
    }
}

/// Each door derives the same from a member's name.
fn node_id(name: &str) -> String {
    Sha256::digest(name).iter().take(20).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(name: &str) -> DoorNodes {
        let config = ClusterConfig::fixed(&[("a", "host1:7480"), ("b", "[::1]:7480"), ("c", "host3:7480")]).unwrap();
        let places = [("c".to_owned(), ("door".to_owned(), 9))];
        DoorNodes::of_member(ServingRight::fixed(config, name), &places, 6379)
    }

    #[test]
    fn keys_of_others_are_refused_with_the_address_of_their_door() {
        // Slots 5061, 12182 and 866.
        let words = |name, keys: &[&str]| match nodes(name).admit(keys.iter().map(|key| key.as_bytes())) {
            Ok(_) => String::new(),
            Err(error) => String::from_utf8(error.0.into()).unwrap(),
        };
        assert_eq!(words("a", &["bar"]), "");
        assert_eq!(words("a", &["foo"]), "MOVED 12182 door:9");
        assert_eq!(words("c", &["bar"]), "MOVED 5061 host1:6379");
        assert_eq!(words("a", &["bar", "hello"]), "CROSSSLOT Keys in request don't hash to the same slot");
        assert_eq!(words("a", &["{bar}1", "{bar}2"]), "");
        assert_eq!(words("c", &[]), "");
    }

    #[test]
    fn all_doors_tell_the_same_nodes() {
        let local = "127.0.0.1:6379".parse().unwrap();
        let (from_a, from_b) = (nodes("a").all(local), nodes("b").all(local));
        assert_eq!(from_a.iter().map(|node| node.is_me).collect::<Vec<_>>(), [true, false, false]);
        assert_eq!(from_b[1].place, ("::1".into(), 6379));
        assert_eq!(from_b[2].slots, [(10922, 16383)]);
        assert_eq!(nodes("b").my_id(), from_a[1].id);
        assert!(from_a.iter().zip(&from_b).all(|(a, b)| a.id == b.id && a.place == b.place && a.id.len() == 40));
        let alone = DoorNodes::alone("0123456789abcdef", 6379).unwrap();
        assert_eq!(alone.all("10.1.2.3:77".parse().unwrap())[0].place, ("10.1.2.3".into(), 77));
        assert!(!alone.has_others() && nodes("a").has_others());
    }
}
