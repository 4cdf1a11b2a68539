//! Plans of moves: a function of the configuration alone.

use std::collections::BTreeMap;

use crate::config::{ClusterConfig, ConfigError, MemberId, SlotMove, SlotShare};

/// Slots that members may still give (by name), or should still get.
type Counts = BTreeMap<String, usize>;

impl ClusterConfig {
    /// Moves after which all members that are not drained serve equally many slots, with a difference of one at most. No plan that reaches
    /// this moves fewer. Slots on their way count as arrived; slots that nobody serves do not count.
    ///
    /// ```
    /// use longarm_cluster::ClusterConfig;
    ///
    /// let config = ClusterConfig::fixed(&[("a", "host1:7480"), ("b", "host2:7480")]).unwrap();
    /// assert_eq!(config.balance(), []);
    /// ```
    pub fn balance(&self) -> Vec<SlotMove> {
        self.plan(|_| true)
    }

    /// Slots that are on their way to another member.
    pub fn moving_slots(&self) -> usize {
        self.shares.iter().filter(|share| share.moving.is_some()).map(|share| share.slots().count()).sum()
    }

    /// The number of shares that a member has a part in: as primary, backup, or in another way.
    pub fn parts_of(&self, name: &str) -> usize {
        self.shares.iter().filter(|share| share.names().any(|other| other == name)).count()
    }

    /// True if the member gets no new shares, and gives its own to others.
    pub fn is_draining(&self, name: &str) -> bool {
        self.draining.iter().any(|other| other == name)
    }

    /// Asks whether a member can be drained.
    ///
    /// # Errors
    /// There is no such member, or the others are too few for the backups that each slot should have.
    pub fn check_drain(&self, name: &str) -> Result<&MemberId, ConfigError> {
        let member = self.member(name).ok_or_else(|| ConfigError::new(format!("{name:?} is no member")))?;
        let others = self.active().filter(|other| **other != name).count();
        let needed = usize::from(self.replicas) + 1;
        if others < needed {
            let words = format!("without {name} there are {others} members, and {needed} are needed for its shares");
            return Err(ConfigError::new(words));
        }
        Ok(&member.id)
    }

    /// With a member that is drained.
    pub(super) fn drained(&self, member: &MemberId) -> Option<ClusterConfig> {
        if !self.has(member) || self.is_draining(&member.name) || self.check_drain(&member.name).is_err() {
            return None;
        }
        let mut next = self.successor();
        next.draining.push(member.name.clone());
        next.draining.sort();
        next.go_on_draining();
        Some(next)
    }

    pub(super) fn undrained(&self, member: &MemberId) -> Option<ClusterConfig> {
        if !self.has(member) || !self.is_draining(&member.name) {
            return None;
        }
        let mut next = self.successor();
        next.draining.retain(|name| *name != member.name);
        next.trim();
        Some(next)
    }

    /// The next step for members that are drained, if there is one.
    #[doc(hidden)]
    pub fn draining_further(&self) -> Option<ClusterConfig> {
        let mut next = (!self.draining.is_empty()).then(|| self.successor())?;
        next.go_on_draining();
        (next.shares != self.shares).then_some(next)
    }

    /// Shares of drained members move; others follow them as backups.
    fn go_on_draining(&mut self) {
        let moves = self.plan(|name| self.is_draining(name));
        if let Some(moved) = self.with_moves(&moves) {
            self.shares = moved.shares;
        }
        self.recruit();
        self.trim();
    }

    /// Drops backups where there are too many, drained ones first, and members that join without need.
    pub(super) fn trim(&mut self) {
        let (replicas, draining) = (usize::from(self.replicas), self.draining.clone());
        let is_drained = |name: &String| draining.contains(name);
        for share in self.shares.iter_mut().filter(|share| share.moving.is_none()) {
            while share.backups.len() > replicas {
                let at = share.backups.iter().position(is_drained).unwrap_or(share.backups.len() - 1);
                share.backups.remove(at);
            }
            let active =
                |share: &SlotShare| share.backups.iter().chain(&share.joining).filter(|one| !is_drained(one)).count();
            if active(share) >= replicas {
                share.joining.retain(|name| !is_drained(name));
            }
            while active(share) > replicas && share.joining.pop().is_some() {}
        }
    }

    /// Names of members that may get shares.
    fn active(&self) -> impl Iterator<Item = &String> {
        self.members.iter().map(|member| &member.id.name).filter(|name| !self.is_draining(name))
    }

    /// The moves that make the loads even, of the shares of some members.
    fn plan(&self, gives: impl Fn(&str) -> bool) -> Vec<SlotMove> {
        let (mut surplus, mut need) = self.differences();
        let mut moves = Vec::new();
        // Small shares go first, as a whole: so few shares are cut.
        let mut shares: Vec<&SlotShare> = self.shares.iter().filter(|share| share.can_move()).collect();
        shares.sort_by_key(|share| share.to - share.from);
        for share in shares {
            let Some(left) = share.primary.as_ref().filter(|name| gives(name)).and_then(|name| surplus.get_mut(name))
            else {
                continue;
            };
            let count = share.slots().count().min(*left);
            *left -= count;
            self.give(share, count, &mut need, &mut moves);
        }
        moves
    }

    /// Slots that each member has too many, and too few.
    fn differences(&self) -> (Counts, Counts) {
        let mut loads: Counts = self.members.iter().map(|member| (member.id.name.clone(), 0)).collect();
        for share in &self.shares {
            if let Some(load) = share.heir().and_then(|name| loads.get_mut(name)) {
                *load += share.slots().count();
            }
        }
        let total: usize = loads.values().sum();
        let mut active: Vec<&String> = self.active().collect();
        // Those that have more keep one more.
        active.sort_by_key(|name| std::cmp::Reverse(loads[*name]));
        let (count, mut surplus, mut need) = (active.len(), Counts::new(), Counts::new());
        for (name, load) in &loads {
            let place = active.iter().position(|other| *other == name);
            let quota = place.map_or(0, |place| total / count + usize::from(place < total % count));
            surplus.insert(name.clone(), load.saturating_sub(quota));
            need.insert(name.clone(), quota.saturating_sub(*load));
        }
        (surplus, need)
    }

    /// Gives the last slots of a share to members that need some.
    fn give(&self, share: &SlotShare, mut count: usize, need: &mut Counts, moves: &mut Vec<SlotMove>) {
        let mut end = usize::from(share.to) + 1;
        while count > 0
            && let Some(target) = self.choose(share, end, need)
        {
            let Some(needed) = need.get_mut(&target) else { return };
            let given = count.min(*needed);
            *needed -= given;
            moves.push(SlotMove { from: (end - given) as u16, to: (end - 1) as u16, target });
            count -= given;
            end -= given;
        }
    }

    /// The member that should get slots of a share before `end`: a backup, which has the data; then the one that serves the slot behind;
    /// then the one that needs the most.
    fn choose(&self, share: &SlotShare, end: usize, need: &Counts) -> Option<String> {
        let behind = self.shares.iter().find(|other| usize::from(other.from) == end).and_then(SlotShare::heir);
        let rank = |(name, needed): &(&String, &usize)| {
            (share.backups.contains(name), behind == Some(name), **needed, std::cmp::Reverse((*name).clone()))
        };
        let needy = need.iter().filter(|(name, needed)| **needed > 0 && share.primary.as_ref() != Some(name));
        needy.max_by_key(rank).map(|(name, _)| name.clone())
    }
}

impl SlotShare {
    /// All members that have a part in the share.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let former = self.hand_over().map(|(former, _)| former);
        let named = self.primary.iter().chain(&self.backups).chain(&self.joining).map(String::as_str);
        named.chain(former)
    }
}

#[cfg(test)]
mod tests;
