//! The configuration: which member has which slots. One value, replaced as a whole.

mod change;
mod check;
mod moves;
mod plan;
pub(crate) mod wish;

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

pub use check::ConfigError;
pub use moves::{ShareMove, SlotMove};

use crate::slot::HashSlot;

/// One life of a member: another process of the same name, without the data of the first, has another incarnation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MemberId {
    /// The name: 1 to 64 letters, digits, `.`, `_` or `-`.
    pub name: String,
    /// The life. A member that keeps its data on disk keeps the incarnation there, too; any other takes a random one.
    pub incarnation: u64,
}

/// A member, and where clients reach it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterMember {
    /// Name and incarnation.
    #[serde(flatten)]
    pub id: MemberId,
    /// `host:port`.
    pub address: String,
}

/// Slots in a row that have the same members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotShare {
    /// The first slot.
    pub from: u16,
    /// The last slot.
    pub to: u16,
    /// The name of the member that serves them. Nobody serves them if there is none: all that had the data are gone.
    pub primary: Option<String>,
    /// The names of members that have everything that was acknowledged, in the order in which they replace the primary.
    pub backups: Vec<String>,
    /// The names of members that are fetching the data.
    pub joining: Vec<String>,
    /// The last primary, if there is none now. Only that life of it has the data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<MemberId>,
    /// The stage of its way to another member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moving: Option<ShareMove>,
}

impl SlotShare {
    /// The numbers of its slots.
    pub fn slots(&self) -> RangeInclusive<u16> {
        self.from..=self.to
    }
}

/// A configuration of the cluster. Its epoch is greater than that of each one before.
///
/// ```
/// use longarm_cluster::{ClusterConfig, HashSlot};
///
/// # fn main() -> Result<(), longarm_cluster::ConfigError> {
/// let config = ClusterConfig::fixed(&[("a", "host1:7480"), ("b", "host2:7480")])?;
/// let first = HashSlot::new(0).and_then(|slot| config.primary(slot));
/// assert_eq!(first.map(|member| member.address.as_str()), Some("host1:7480"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterConfig {
    /// Grows by one with each configuration.
    pub epoch: u64,
    /// Backups that each share should have.
    pub replicas: u8,
    /// Members keep their data on disk: slots that nobody serves wait for the life that served them last. Otherwise, in a cluster without
    /// backups, another member serves them, empty.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keeps_data: bool,
    /// The epoch in which a member joined last, or came back. A primary's older findings about the data of members count no more.
    #[serde(default)]
    pub joined: u64,
    /// The members, by name.
    pub members: Vec<ClusterMember>,
    /// The names of members that get no new shares and give their own to others, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub draining: Vec<String>,
    /// All slots, in order.
    pub shares: Vec<SlotShare>,
}

impl ClusterConfig {
    /// The member with that name.
    pub fn member(&self, name: &str) -> Option<&ClusterMember> {
        self.members.iter().find(|member| member.id.name == name)
    }

    /// Whether this life of a member belongs to the cluster.
    pub fn has(&self, id: &MemberId) -> bool {
        self.member(&id.name).is_some_and(|member| member.id == *id)
    }

    /// The share of a slot.
    pub fn share(&self, slot: HashSlot) -> Option<&SlotShare> {
        let at = self.shares.partition_point(|share| share.to < slot.number());
        self.shares.get(at).filter(|share| share.from <= slot.number())
    }

    /// The member that serves a slot. (During a hand-over it may still be the former primary.)
    pub fn primary(&self, slot: HashSlot) -> Option<&ClusterMember> {
        self.member(self.share(slot)?.primary.as_deref()?)
    }

    /// The shares that this life of a member serves.
    pub fn shares_of<'a>(&'a self, id: &'a MemberId) -> impl Iterator<Item = &'a SlotShare> {
        let is_member = self.has(id);
        self.shares.iter().filter(move |share| is_member && share.primary.as_ref() == Some(&id.name))
    }

    /// Nobody serves a slot again whose members are all gone, unless one of them comes back with its data.
    pub(crate) fn waits_for_data(&self) -> bool {
        self.replicas > 0 || self.keeps_data
    }

    /// The number of slots that somebody serves.
    pub fn served_slots(&self) -> usize {
        self.shares.iter().filter(|share| share.primary.is_some()).map(|share| share.slots().count()).sum()
    }
}
