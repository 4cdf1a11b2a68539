//! Configurations: which members get which shares.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cluster::{ClusterConfig, ConfigWish, MemberId};

use crate::sender::link::{CopyPhase, LinkShare, ReplicaLink};
use crate::sender::state::ReplicaSender;
use crate::sender::words::CopyCursor;

/// Bits of a number below the epoch in which its member became a primary. So a later primary's numbers are greater.
const NUMBER_BITS: u32 = 40;

/// A share that a member should get: its last slot, and whether the member is a backup already.
type WantedShare = (u16, bool);

impl ReplicaSender {
    /// Takes a configuration. An older one changes nothing.
    pub fn set_config(&mut self, config: &Arc<ClusterConfig>) {
        if config.epoch > self.roles.epoch() {
            take(self, config);
        }
    }
}

/// Takes a configuration that is newer than the present one.
fn take(sender: &mut ReplicaSender, config: &Arc<ClusterConfig>) {
    let before = owned(sender);
    sender.roles.set(config);
    let now = owned(sender);
    let lost: Vec<u16> = before.difference(&now).copied().collect();
    sender.lose(&lost);
    // Changes that were safe stay so.
    let settled = sender.settled();
    if now.difference(&before).next().is_some() {
        sender.last = sender.last.max(config.epoch << NUMBER_BITS);
    }
    let wanted = wanted(config, &now);
    sender.links.retain(|id, _| wanted.contains_key(id));
    for (id, shares) in wanted {
        update(sender, &id, &shares, settled);
    }
}

/// The first slots of shares whose primary the member is.
fn owned(sender: &ReplicaSender) -> BTreeSet<u16> {
    let shares = sender.roles.config().map(|config| config.shares.as_slice()).unwrap_or_default();
    shares.iter().map(|share| share.from).filter(|from| sender.roles.is_primary(*from)).collect()
}

fn wanted(config: &ClusterConfig, owned: &BTreeSet<u16>) -> BTreeMap<MemberId, BTreeMap<u16, WantedShare>> {
    let mut wanted: BTreeMap<MemberId, BTreeMap<u16, WantedShare>> = BTreeMap::new();
    for share in config.shares.iter().filter(|share| owned.contains(&share.from)) {
        let backups = share.backups.iter().map(|name| (name, true));
        for (name, is_backup) in backups.chain(share.joining.iter().map(|name| (name, false))) {
            if let Some(member) = config.member(name) {
                wanted.entry(member.id.clone()).or_default().insert(share.from, (share.to, is_backup));
            }
        }
    }
    wanted
}

fn update(sender: &mut ReplicaSender, id: &MemberId, shares: &BTreeMap<u16, WantedShare>, settled: u64) {
    if !sender.links.contains_key(id) {
        sender.streams += 1;
        sender.links.insert(id.clone(), ReplicaLink::new(sender.streams));
    }
    let Some(link) = sender.links.get_mut(id) else { return };
    let gone: Vec<u16> = link.shares.keys().filter(|from| !shares.contains_key(from)).copied().collect();
    gone.into_iter().for_each(|from| link.remove(from));
    let mut is_demoted = false;
    for (from, (to, is_backup)) in shares {
        let Some(share) = link.shares.get_mut(from) else {
            let cap = is_backup.then_some(settled);
            let phase = CopyPhase::Copying(CopyCursor::default());
            link.begin(*from, LinkShare { to: *to, is_backup: *is_backup, is_wished: false, phase, cap });
            continue;
        };
        if share.is_backup && !is_backup {
            is_demoted = true;
        }
        share.is_wished &= !is_backup;
        share.is_backup = *is_backup;
        if share.is_wished && share.phase == CopyPhase::Whole {
            sender.wishes.push(ConfigWish::Admit { from: *from, member: id.clone() });
        }
    }
    if is_demoted {
        // It was too slow, or its stream broke.
        sender.reset(id);
    }
}
