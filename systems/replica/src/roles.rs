//! The right to change a share: from the configuration, and from the newest primary that has spoken.

use std::collections::BTreeMap;
use std::sync::Arc;

use cluster::{ClusterConfig, HashSlot, MemberId};

/// The primary that sends records, and the epoch in which it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordSource<'a> {
    /// The primary.
    pub from: &'a MemberId,
    /// The epoch of the configuration that it knew.
    pub epoch: u64,
}

/// The roles of one member, as far as it knows.
#[derive(Clone, Debug)]
pub struct ShareRoles {
    me: MemberId,
    config: Option<Arc<ClusterConfig>>,
    /// By the first slot of a share: the greatest epoch in which a primary sent records. Older ones are refused.
    fences: BTreeMap<u16, u64>,
}

impl ShareRoles {
    pub(crate) fn new(me: MemberId) -> ShareRoles {
        ShareRoles { me, config: None, fences: BTreeMap::new() }
    }

    /// The member itself.
    pub fn me(&self) -> &MemberId {
        &self.me
    }

    /// The configuration, if one is known.
    pub fn config(&self) -> Option<&Arc<ClusterConfig>> {
        self.config.as_ref()
    }

    /// Its epoch; zero without one.
    pub fn epoch(&self) -> u64 {
        self.config.as_ref().map_or(0, |config| config.epoch)
    }

    pub(crate) fn set(&mut self, config: &Arc<ClusterConfig>) {
        self.config = Some(Arc::clone(config));
    }

    /// True if this member is the primary of the share with that first slot, and has heard of no later one.
    pub(crate) fn is_primary(&self, from: u16) -> bool {
        let Some(config) = &self.config else { return false };
        let primary = HashSlot::new(from).and_then(|slot| config.primary(slot));
        let is_newest = self.fences.get(&from).is_none_or(|fence| *fence <= config.epoch);
        is_newest && primary.is_some_and(|primary| primary.id == self.me)
    }

    /// The first slot of the share of a slot. Shares are never split.
    pub(crate) fn share_of(&self, slot: HashSlot) -> Option<u16> {
        self.config.as_ref()?.share(slot).map(|share| share.from)
    }

    /// True if the sender of a record may change that share; then no older one may any more.
    pub(crate) fn admit(&mut self, source: RecordSource<'_>, from: u16) -> bool {
        let known = self.epoch();
        let is_primary = |config: &Arc<ClusterConfig>| {
            let primary = HashSlot::new(from).and_then(|slot| config.primary(slot));
            primary.is_some_and(|primary| primary.id == *source.from)
        };
        // A greater epoch: the sender knows more than we do. It was the primary there.
        if source.epoch <= known && !self.config.as_ref().is_some_and(is_primary) {
            return false;
        }
        let fence = self.fences.entry(from).or_default();
        if source.epoch < *fence {
            return false;
        }
        *fence = source.epoch;
        true
    }
}
