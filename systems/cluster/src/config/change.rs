//! The configuration after the next: how members come, go and replace each other. Pure.

use crate::config::{ClusterConfig, ClusterMember, ConfigError, MemberId, SlotShare};
use crate::slot::SLOTS;

/// A change that a primary wants for one of its shares, named by the share's first slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigWish {
    /// A member that was joining has all the data: it becomes a backup.
    Admit {
        /// The first slot of the share.
        from: u16,
        /// The member.
        member: MemberId,
    },
    /// A backup did not take a record: from now on the primary answers without it. The backup has to fetch the data anew.
    Demote {
        /// The first slot of the share.
        from: u16,
        /// The member.
        member: MemberId,
    },
}

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
        };
        let shares = if count == 0 { Vec::new() } else { (0..count).map(share).collect() };
        ClusterConfig { epoch: 1, replicas, members, shares }
    }

    /// Without a member. Its first backup becomes primary. A share without backups stays without a primary until the same
    /// life of its last one comes back. If the cluster keeps no replicas at all, another member serves it, empty.
    #[doc(hidden)]
    pub fn lose(&self, id: &MemberId) -> Option<ClusterConfig> {
        let mut next = self.has(id).then(|| self.successor())?;
        next.members.retain(|member| member.id != *id);
        for number in 0..next.shares.len() {
            let share = &mut next.shares[number];
            share.backups.retain(|name| *name != id.name);
            share.joining.retain(|name| *name != id.name);
            if share.primary.as_ref() != Some(&id.name) {
                continue;
            }
            share.primary = (!share.backups.is_empty()).then(|| share.backups.remove(0));
            share.last = share.primary.is_none().then(|| id.clone());
            if next.replicas == 0
                && let Some(heir) = next.least_loaded()
            {
                next.shares[number].take(heir);
            }
        }
        next.recruit();
        Some(next)
    }

    /// With one more member. It joins shares that have too few members, and serves again those that it was the last to serve. If
    /// the cluster keeps no replicas, it serves all that nobody serves.
    #[doc(hidden)]
    pub fn join(&self, member: &ClusterMember) -> Option<ClusterConfig> {
        if self.member(&member.id.name).is_some() {
            return None;
        }
        let mut next = self.successor();
        let at = next.members.partition_point(|other| other.id.name < member.id.name);
        next.members.insert(at, member.clone());
        for share in next.shares.iter_mut().filter(|share| share.primary.is_none()) {
            if share.last.as_ref() == Some(&member.id) || next.replicas == 0 {
                share.take(member.id.name.clone());
            }
        }
        next.recruit();
        Some(next)
    }

    /// As a primary wishes; `None` if there is nothing to do (any more), or it is not the primary.
    #[doc(hidden)]
    pub fn granted(&self, wish: &ConfigWish, primary: &MemberId) -> Option<ClusterConfig> {
        let (ConfigWish::Admit { from, member } | ConfigWish::Demote { from, member }) = wish;
        let mut next = (self.has(member) && self.has(primary)).then(|| self.successor())?;
        let share = next.shares.iter_mut().find(|share| share.from == *from)?;
        if share.primary.as_ref() != Some(&primary.name) {
            return None;
        }
        let (source, target) = match wish {
            ConfigWish::Admit { .. } => (&mut share.joining, &mut share.backups),
            ConfigWish::Demote { .. } => (&mut share.backups, &mut share.joining),
        };
        let at = source.iter().position(|name| *name == member.name)?;
        target.push(source.remove(at));
        Some(next)
    }

    fn successor(&self) -> ClusterConfig {
        ClusterConfig { epoch: self.epoch + 1, ..self.clone() }
    }

    /// Lets members join the shares that have too few.
    fn recruit(&mut self) {
        for number in 0..self.shares.len() {
            while let Some(name) = self.recruit_for(&self.shares[number]) {
                self.shares[number].joining.push(name);
            }
        }
    }

    /// The member that should join a share: one that has the fewest parts.
    fn recruit_for(&self, share: &SlotShare) -> Option<String> {
        let has = |name: &String| [&share.backups, &share.joining].iter().any(|list| list.contains(name));
        let is_complete = share.backups.len() + share.joining.len() >= usize::from(self.replicas);
        let primary = share.primary.as_ref().filter(|_| !is_complete)?;
        let free = self.members.iter().map(|member| &member.id.name).filter(|name| *name != primary && !has(name));
        free.min_by_key(|name| self.parts(name)).cloned()
    }

    /// The member that serves the fewest slots.
    fn least_loaded(&self) -> Option<String> {
        let load = |name: &str| -> usize {
            let shares = self.shares.iter().filter(|share| share.primary.as_deref() == Some(name));
            shares.map(|share| share.slots().count()).sum()
        };
        self.members.iter().min_by_key(|member| load(&member.id.name)).map(|member| member.id.name.clone())
    }

    fn parts(&self, name: &str) -> usize {
        let named = |share: &&SlotShare| {
            let mut all = share.primary.iter().chain(&share.backups).chain(&share.joining);
            all.any(|other| other == name)
        };
        self.shares.iter().filter(named).count()
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
