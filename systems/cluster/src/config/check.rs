//! Configurations as text, and what is wrong with one. It comes from outside: a file, etcd, a server.

use std::collections::BTreeSet;

use crate::config::{ClusterConfig, ClusterMember, MemberId, ShareMove, SlotShare};
use crate::slot::SLOTS;

/// The longest text of a configuration in bytes.
const LONGEST: usize = 4 << 20;
/// The most members.
const MOST_MEMBERS: usize = 1000;
const LONGEST_NAME: usize = 64;
const LONGEST_ADDRESS: usize = 256;

/// A configuration that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the configuration of the cluster is wrong: {0}")]
pub struct ConfigError(String);

impl ConfigError {
    pub(super) fn new(words: String) -> ConfigError {
        ConfigError(words)
    }
}

impl MemberId {
    /// Checks the name.
    ///
    /// # Errors
    /// A name that is empty, too long or has other characters than letters, digits, `.`, `_` and `-`.
    pub fn check(&self) -> Result<(), ConfigError> {
        let name = &self.name;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if name.is_empty() || name.len() > LONGEST_NAME || !name.bytes().all(is_plain) {
            return wrong(format!("{name:?} is no name: 1 to {LONGEST_NAME} letters, digits, '.', '_' or '-'"));
        }
        Ok(())
    }
}

impl ClusterMember {
    /// Checks the name and the length of the address: 1 to 256 bytes.
    ///
    /// # Errors
    /// The one that is wrong.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.id.check()?;
        if self.address.is_empty() || self.address.len() > LONGEST_ADDRESS {
            return wrong(format!("the address of {} has {} bytes", self.id.name, self.address.len()));
        }
        Ok(())
    }
}

impl ClusterConfig {
    /// Reads the JSON text of a configuration, and checks it.
    ///
    /// # Errors
    /// The text is no configuration, or one that breaks a rule of [`ClusterConfig::check`].
    pub fn from_json(text: &[u8]) -> Result<ClusterConfig, ConfigError> {
        if text.len() > LONGEST {
            return wrong(format!("it has {} bytes, and {LONGEST} at most are possible", text.len()));
        }
        let config: ClusterConfig = serde_json::from_slice(text).map_err(|error| ConfigError(error.to_string()))?;
        config.check()?;
        Ok(config)
    }

    /// The JSON text.
    pub fn to_json(&self) -> Vec<u8> {
        // No map with other keys than strings and no number outside of JSON's: it cannot fail.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Checks the rules. The epoch is 1 or more. The members are in the order of their names, each once. The shares cover all
    /// slots once, and their members exist and have one part each.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.epoch == 0 || self.epoch == u64::MAX {
            return wrong(format!("{} is no epoch", self.epoch));
        }
        self.check_members()?;
        self.check_shares()
    }

    fn check_members(&self) -> Result<(), ConfigError> {
        if self.members.len() > MOST_MEMBERS {
            return wrong(format!("{} members, and {MOST_MEMBERS} at most are possible", self.members.len()));
        }
        if !self.members.is_sorted_by(|a, b| a.id.name < b.id.name) {
            return wrong("the members are not in the order of their names, each once".into());
        }
        if !self.draining.is_sorted_by(|a, b| a < b) || self.draining.iter().any(|name| self.member(name).is_none()) {
            return wrong("the drained are not members in the order of their names, each once".into());
        }
        self.members.iter().try_for_each(ClusterMember::check)
    }

    fn check_shares(&self) -> Result<(), ConfigError> {
        let mut next = 0;
        for share in &self.shares {
            if share.from != next || share.to < share.from || share.to >= SLOTS {
                return wrong(format!("slots {} to {} where slot {next} comes next", share.from, share.to));
            }
            next = share.to + 1;
            let mut seen = BTreeSet::new();
            for name in share.names() {
                if self.member(name).is_none() {
                    return wrong(format!("slots {} to {} name {name:?}, which is no member", share.from, share.to));
                }
                if !seen.insert(name) {
                    return wrong(format!("slots {} to {} name {name:?} twice", share.from, share.to));
                }
            }
            if share.primary.is_none() && !share.backups.is_empty() {
                return wrong(format!("slots {} to {} have backups and no primary", share.from, share.to));
            }
            self.check_move(share)?;
        }
        if next == SLOTS { Ok(()) } else { wrong(format!("slot {next} belongs to no share")) }
    }
}

impl ClusterConfig {
    fn check_move(&self, share: &SlotShare) -> Result<(), ConfigError> {
        let is_right = match &share.moving {
            None => true,
            Some(ShareMove::Copy { to }) => share.joining.contains(to),
            Some(ShareMove::Close { to }) => share.backups.contains(to),
            Some(ShareMove::HandOver { since, .. }) => share.joining.is_empty() && *since <= self.epoch,
        };
        if share.moving.is_some() && !(is_right && share.primary.is_some()) {
            return wrong(format!("slots {} to {} move in a way that cannot be", share.from, share.to));
        }
        Ok(())
    }
}

fn wrong<T>(words: String) -> Result<T, ConfigError> {
    Err(ConfigError(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> ClusterConfig {
        ClusterConfig::fixed(&[("a", "h:1"), ("b", "h:2")]).unwrap()
    }

    #[test]
    fn text_and_back() {
        let config = good();
        assert_eq!(ClusterConfig::from_json(&config.to_json()), Ok(config));
        assert!(ClusterConfig::from_json(b"{}").is_err());
    }

    #[test]
    fn each_broken_rule_is_found() {
        type Spoil = fn(&mut ClusterConfig);
        let spoils: [(&str, Spoil); 18] = [
            ("no epoch", |c| c.epoch = 0),
            ("order", |c| c.members.swap(0, 1)),
            ("order", |c| c.members[1] = c.members[0].clone()),
            ("no name", |c| c.members[0].id.name = "a b".into()),
            ("no name", |c| c.members[0].id.name = String::new()),
            ("address", |c| c.members[0].address = String::new()),
            ("comes next", |c| c.shares[1].from += 1),
            ("comes next", |c| c.shares[1].to = u16::MAX),
            ("no share", |c| drop(c.shares.pop())),
            ("no member", |c| c.shares[0].primary = Some("c".into())),
            ("twice", |c| c.shares[0].joining = vec!["a".into()]),
            ("drained", |c| c.draining = vec!["c".into()]),
            ("drained", |c| c.draining = vec!["b".into(), "a".into()]),
            ("move", |c| c.shares[0].moving = Some(ShareMove::Copy { to: "b".into() })),
            ("move", |c| c.shares[0].moving = Some(ShareMove::Close { to: "b".into() })),
            ("move", |c| c.shares[0].moving = Some(ShareMove::HandOver { former: "b".into(), since: 2 })),
            ("twice", |c| c.shares[0].moving = Some(ShareMove::HandOver { former: "a".into(), since: 1 })),
            ("no primary", |c| (c.shares[0].primary, c.shares[0].backups) = (None, vec!["b".into()])),
        ];
        for (words, spoil) in spoils {
            let mut config = good();
            spoil(&mut config);
            let error = config.check().unwrap_err().to_string();
            assert!(error.contains(words), "{words}: {error}");
            assert!(ClusterConfig::from_json(&config.to_json()).is_err());
        }
    }
}
