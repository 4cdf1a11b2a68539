//! The configuration after the next: how members come, go and replace each other. Pure.

use crate::config::{ClusterConfig, ClusterMember, ConfigError, MemberId, ShareMove, SlotShare};
use crate::slot::SLOTS;

impl ClusterConfig {
    /// A configuration that never changes, of members that need no coordinator: name and address of each. They share the
    /// slots evenly, and have no backups.
    ///
    /// # Errors
    /// No members, two of one name, or a name or address that cannot be.
    pub fn fixed(members: &[(&str, &str)]) -> Result<ClusterConfig, ConfigError> {
        let member = |(name, address): &(&str, &str)| ClusterMember {
            id: MemberId { name: (*name).into(), incarnation: 0 },
            address: (*address).into(),
        };
        let config = ClusterConfig::form(members.iter().map(member).collect(), 0);
        config.check()?;
        Ok(config)
    }

    /// The first configuration. The members share the slots evenly; each is the backup of those before it in the ring.
    #[doc(hidden)]
    pub fn form(mut members: Vec<ClusterMember>, replicas: u8) -> ClusterConfig {
        members.sort_by(|a, b| a.id.cmp(&b.id));
        let count = members.len();
        let name = |number: usize| members[number % count].id.name.clone();
        let bound = |number: usize| (number * usize::from(SLOTS) / count) as u16;
        let share = |number: usize| SlotShare {
            from: bound(number),
            to: bound(number + 1) - 1,
            primary: Some(name(number)),
            backups: (1..=usize::from(replicas).min(count - 1)).map(|behind| name(number + behind)).collect(),
            joining: Vec::new(),
            last: None,
            moving: None,
        };
        let shares = if count == 0 { Vec::new() } else { (0..count).map(share).collect() };
        ClusterConfig { epoch: 1, replicas, keeps_data: false, joined: 0, members, draining: Vec::new(), shares }
    }

    /// Without a member. The other end of a hand-over serves its share then, or the first backup. A share without backups stays
    /// without a primary until the same life of its last one comes back. If the cluster has neither backups nor data on disk, another member serves
    /// it, empty.
    #[doc(hidden)]
    pub fn lose(&self, id: &MemberId) -> Option<ClusterConfig> {
        let mut next = self.has(id).then(|| self.successor())?;
        next.members.retain(|member| member.id != *id);
        next.draining.retain(|name| *name != id.name);
        let mut cancelled = Vec::new();
        for number in 0..next.shares.len() {
            if next.cancel_move(number, &id.name) {
                cancelled.push(next.shares[number].from);
            }
            let share = &mut next.shares[number];
            share.backups.retain(|name| *name != id.name);
            share.joining.retain(|name| *name != id.name);
            if share.primary.as_ref() != Some(&id.name) {
                continue;
            }
            share.primary = (!share.backups.is_empty()).then(|| share.backups.remove(0));
            share.last = share.primary.is_none().then(|| id.clone());
            if share.primary.is_none()
                && !next.waits_for_data()
                && let Some(heir) = next.least_loaded()
            {
                next.shares[number].take(heir);
            }
        }
        next.recruit();
        next.trim();
        cancelled.into_iter().for_each(|from| next.merge_around(from));
        Some(next)
    }

    /// With a member whose process has begun anew, and whose data may lack its last changes. It serves only slots of which no other member
    /// that lives has the data, and fetches all others anew.
    #[doc(hidden)]
    pub fn returned(&self, id: &MemberId, lives: impl Fn(&str) -> bool) -> Option<ClusterConfig> {
        let mut next = self.has(id).then(|| self.successor())?;
        let mut cancelled = Vec::new();
        for number in 0..next.shares.len() {
            let is_cancelled = next.cancel_move(number, &id.name);
            let share = &mut next.shares[number];
            let heir = share.backups.iter().position(|name| *name != id.name && lives(name));
            match &share.primary {
                Some(primary) if *primary == id.name => {
                    share.primary = heir.map(|heir| share.backups.remove(heir)).or_else(|| share.primary.take());
                }
                Some(primary) if heir.is_some() || lives(primary) => share.backups.retain(|name| *name != id.name),
                _ => {}
            }
            if is_cancelled {
                cancelled.push(share.from);
                // The target of a move is one backup more.
                while share.backups.len() > usize::from(self.replicas) {
                    let is_away = |name: &String| *name != id.name && !lives(name);
                    share.backups.remove(share.backups.iter().position(is_away).unwrap_or(0));
                }
            }
        }
        next.joined = next.epoch;
        next.recruit();
        next.trim();
        cancelled.into_iter().for_each(|from| next.merge_around(from));
        Some(next)
    }

    /// With one more member. It joins shares that have too few members, and serves again those that it was the last to serve. If
    /// the cluster has neither backups nor data on disk, it serves all that nobody serves.
    #[doc(hidden)]
    pub fn join(&self, member: &ClusterMember) -> Option<ClusterConfig> {
        if self.member(&member.id.name).is_some() {
            return None;
        }
        let mut next = self.successor();
        let is_heir = !next.waits_for_data();
        let at = next.members.partition_point(|other| other.id.name < member.id.name);
        next.members.insert(at, member.clone());
        next.joined = next.epoch;
        for share in next.shares.iter_mut().filter(|share| share.primary.is_none()) {
            if share.last.as_ref() == Some(&member.id) || is_heir {
                share.take(member.id.name.clone());
            }
        }
        next.recruit();
        Some(next)
    }

    /// A member that was joining becomes a backup.
    pub(super) fn admitted(&self, from: u16, member: &MemberId, primary: &MemberId) -> Option<ClusterConfig> {
        let (mut next, at) = self.of_primary(from, member, primary)?;
        let share = &mut next.shares[at];
        let place = share.joining.iter().position(|name| *name == member.name)?;
        let name = share.joining.remove(place);
        share.backups.push(name.clone());
        if share.moving == (Some(ShareMove::Copy { to: name.clone() })) {
            share.moving = Some(ShareMove::Close { to: name });
        }
        next.trim();
        Some(next)
    }

    /// A backup has to fetch the data anew.
    pub(super) fn demoted(&self, from: u16, member: &MemberId, primary: &MemberId) -> Option<ClusterConfig> {
        let (mut next, at) = self.of_primary(from, member, primary)?;
        let share = &mut next.shares[at];
        let place = share.backups.iter().position(|name| *name == member.name)?;
        let name = share.backups.remove(place);
        share.joining.push(name.clone());
        if share.moving == (Some(ShareMove::Close { to: name.clone() })) {
            share.moving = Some(ShareMove::Copy { to: name });
        }
        Some(next)
    }

    /// The next configuration, and the place of a share with that primary. During a hand-over the members stay.
    fn of_primary(&self, from: u16, member: &MemberId, primary: &MemberId) -> Option<(ClusterConfig, usize)> {
        let at = self.shares.iter().position(|share| share.from == from)?;
        let share = &self.shares[at];
        let is_primary = share.primary.as_ref() == Some(&primary.name) && share.hand_over().is_none();
        (is_primary && self.has(member) && self.has(primary)).then(|| (self.successor(), at))
    }

    pub(super) fn successor(&self) -> ClusterConfig {
        ClusterConfig { epoch: self.epoch + 1, ..self.clone() }
    }

    /// Lets members join the shares that have too few.
    pub(super) fn recruit(&mut self) {
        for number in 0..self.shares.len() {
            while let Some(name) = self.recruit_for(&self.shares[number]) {
                self.shares[number].joining.push(name);
            }
        }
    }

    /// The member that should join a share: one that has the fewest parts. Drained members do not count. During a hand-over nobody joins.
    fn recruit_for(&self, share: &SlotShare) -> Option<String> {
        let all = || share.backups.iter().chain(&share.joining);
        let active = all().filter(|name| !self.is_draining(name)).count();
        let is_complete = active >= usize::from(self.replicas) || share.hand_over().is_some();
        let primary = share.primary.as_ref().filter(|_| !is_complete)?;
        let names = self.members.iter().map(|member| &member.id.name).filter(|name| !self.is_draining(name));
        let free = names.filter(|name| *name != primary && !all().any(|other| other == *name));
        free.min_by_key(|name| self.parts_of(name)).cloned()
    }

    /// The member that serves the fewest slots.
    fn least_loaded(&self) -> Option<String> {
        let load = |name: &str| -> usize {
            let shares = self.shares.iter().filter(|share| share.primary.as_deref() == Some(name));
            shares.map(|share| share.slots().count()).sum()
        };
        let rank = |member: &&ClusterMember| (self.is_draining(&member.id.name), load(&member.id.name));
        self.members.iter().min_by_key(rank).map(|member| member.id.name.clone())
    }
}

impl SlotShare {
    /// Gives it to a member that serves it from now on.
    fn take(&mut self, name: String) {
        self.joining.retain(|other| *other != name);
        (self.primary, self.last) = (Some(name), None);
    }
}

#[cfg(test)]
mod tests;
