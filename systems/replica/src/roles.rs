//! The right to change a share: from the configuration, and from the newest primary that has spoken.

use std::collections::BTreeMap;
use std::sync::Arc;

use cluster::{ClusterConfig, HandOvers, HashSlot, MemberId, SLOTS, SlotShare};

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
    pub(crate) hand_overs: HandOvers,
}

impl ShareRoles {
    pub(crate) fn new(me: MemberId) -> ShareRoles {
        ShareRoles { me, config: None, fences: BTreeMap::new(), hand_overs: HandOvers::default() }
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
        self.fences = config.shares.iter().filter_map(|share| Some((share.from, self.fence_of(share)?))).collect();
        self.hand_overs.learn(&self.me, self.config.as_deref(), config);
        self.config = Some(Arc::clone(config));
    }

    /// The fence of a share of another configuration: the greatest of those that have slots of it now.
    fn fence_of(&self, share: &SlotShare) -> Option<u64> {
        let last = |from: u16| self.share_at(from).map_or(SLOTS - 1, |old| old.to);
        let overlap = self.fences.iter().filter(|(from, _)| **from <= share.to && last(**from) >= share.from);
        overlap.map(|(_, fence)| *fence).max()
    }

    fn share_at(&self, from: u16) -> Option<&SlotShare> {
        self.config.as_ref()?.share(HashSlot::new(from)?)
    }

    /// True if this member is the primary of the share with that first slot, and has heard of no later one. During a hand-over the former
    /// primary is it until it releases the share; then the target, when it has heard of that.
    pub(crate) fn is_primary(&self, from: u16) -> bool {
        let (Some(config), Some(share)) = (&self.config, self.share_at(from)) else { return false };
        let is_newest = self.fences.get(&from).is_none_or(|fence| *fence <= config.epoch);
        is_newest && self.hand_overs.serves(&self.me, config, share)
    }

    /// True if this member has a part in the slot: as primary, as backup, in another way, or as the last one that had the data. Without one, it
    /// drops its keys.
    pub fn has_part(&self, slot: HashSlot) -> bool {
        let is_last =
            |config: &ClusterConfig| config.share(slot).is_some_and(|share| share.last.as_ref() == Some(&self.me));
        if self.config.as_deref().is_some_and(is_last) {
            return true;
        }
        let Some(config) = self.config.as_ref().filter(|config| config.has(&self.me)) else { return false };
        // A primary of a later configuration that has sent something knows more than we do.
        let is_newest = |share: &SlotShare| self.fences.get(&share.from).is_none_or(|fence| *fence <= config.epoch);
        config.share(slot).is_some_and(|share| !is_newest(share) || share.names().any(|name| name == self.me.name))
    }

    /// The first slot of the share of a slot. Another configuration may cut or join shares.
    pub(crate) fn share_of(&self, slot: HashSlot) -> Option<u16> {
        self.config.as_ref()?.share(slot).map(|share| share.from)
    }

    /// True if the sender of a record may change that share; then no older one may any more.
    pub(crate) fn admit(&mut self, source: RecordSource<'_>, from: u16) -> bool {
        let known = self.epoch();
        let is = |name: &str| {
            self.config
                .as_ref()
                .is_some_and(|config| config.member(name).is_some_and(|member| member.id == *source.from))
        };
        let share = self.share_at(from);
        let is_primary = share.and_then(|share| share.primary.as_deref()).is_some_and(is);
        let former = share.and_then(SlotShare::hand_over).filter(|(former, _)| is(former));
        // A greater epoch: the sender knows more than we do. It was the primary there.
        if source.epoch <= known && !is_primary && former.is_none() {
            return false;
        }
        // Records of a former primary come before all of the target's, and must not keep the target from serving.
        let epoch = former.map_or(source.epoch, |(_, since)| source.epoch.min(since));
        let fence = self.fences.entry(from).or_default();
        if epoch < *fence {
            return false;
        }
        *fence = epoch;
        true
    }
}
