//! Configurations: which members get which shares.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use cluster::{ClusterConfig, ConfigWish, MemberId, SlotShare};

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
    let before = owned_slots(sender);
    // A member may have had no part in between, and dropped its keys: its copy begins anew.
    let has_skipped = config.epoch > sender.roles.epoch() + 1;
    // One that is about to become a backup may have come back, without the last of what it was sent.
    let has_joined = sender.roles.config().is_some_and(|before| config.joined > before.joined);
    let settled = sender.settled();
    sender.roles.set(config);
    sender.links.values_mut().for_each(|link| link.recut(&config.shares, settled));
    sender.hands.learn(config);
    let had = |share: &SlotShare| before.iter().any(|range| range.start() <= &share.to && range.end() >= &share.from);
    let had_all =
        |share: &SlotShare| before.iter().any(|range| range.start() <= &share.from && range.end() >= &share.to);
    let is_now = |share: &&SlotShare| sender.roles.is_primary(share.from);
    let lost: Vec<u16> = config.shares.iter().filter(|one| !is_now(one) && had(one)).map(|one| one.from).collect();
    let gains = config.shares.iter().any(|share| is_now(&share) && !had_all(share));
    if has_skipped {
        sender.tenures.end();
    }
    sender.count_tenures();
    sender.lose(&lost);
    if gains {
        sender.begin_numbers();
    }
    if has_skipped || has_joined {
        sender.links.values_mut().for_each(|link| link.copy_anew(settled));
    }
    connect(sender, settled, &[]);
}

impl ReplicaSender {
    /// Notes which slots have this member as their primary now.
    pub(super) fn count_tenures(&mut self) {
        let owned = owned_slots(self);
        self.tenures.set(&owned);
    }

    /// The numbers from here on are of a share that this member did not have before. The first one counts as a change: an answer about
    /// what an earlier primary or process has changed waits until the backups have it, too.
    fn begin_numbers(&mut self) {
        self.last = (self.last + 1).max(self.roles.epoch() << NUMBER_BITS);
    }

    /// This member is the primary of a share that was handed over to it. Members that are in step need no copy.
    pub(super) fn gain(&mut self, in_step: &[MemberId]) {
        let settled = self.settled();
        self.count_tenures();
        self.begin_numbers();
        connect(self, settled, in_step);
    }
}

/// Has streams to all members that need one, and to no others. Changes that were safe stay so.
fn connect(sender: &mut ReplicaSender, settled: u64, in_step: &[MemberId]) {
    let Some(config) = sender.roles.config().cloned() else { return };
    let wanted = wanted(sender, &config);
    sender.links.retain(|id, _| wanted.contains_key(id));
    for (id, shares) in wanted {
        update(sender, &id, &shares, settled, in_step.contains(&id));
    }
}

/// The slots whose primary the member is: rows without gaps.
fn owned_slots(sender: &ReplicaSender) -> Vec<RangeInclusive<u16>> {
    let shares = sender.roles.config().map(|config| config.shares.as_slice()).unwrap_or_default();
    let mut rows: Vec<RangeInclusive<u16>> = Vec::new();
    for share in shares.iter().filter(|share| sender.roles.is_primary(share.from)) {
        match rows.last_mut().filter(|row| row.end() + 1 == share.from) {
            Some(row) => *row = *row.start()..=share.to,
            None => rows.push(share.slots()),
        }
    }
    rows
}

/// The members that get shares of ours. During a hand-over each end has the other one as a backup.
fn wanted(sender: &ReplicaSender, config: &ClusterConfig) -> BTreeMap<MemberId, BTreeMap<u16, WantedShare>> {
    let mut wanted: BTreeMap<MemberId, BTreeMap<u16, WantedShare>> = BTreeMap::new();
    let me = sender.roles.me();
    for share in config.shares.iter().filter(|share| sender.roles.is_primary(share.from)) {
        for name in share.names().filter(|name| *name != me.name) {
            if let Some(member) = config.member(name) {
                let is_backup = !share.joining.iter().any(|joining| joining == name);
                wanted.entry(member.id.clone()).or_default().insert(share.from, (share.to, is_backup));
            }
        }
    }
    wanted
}

fn update(
    sender: &mut ReplicaSender,
    id: &MemberId,
    shares: &BTreeMap<u16, WantedShare>,
    settled: u64,
    is_in_step: bool,
) {
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
            let share = LinkShare { to: *to, is_backup: *is_backup, is_wished: false, phase, cap };
            if is_in_step && *is_backup {
                link.shares.insert(*from, LinkShare { phase: CopyPhase::Whole, cap: None, ..share });
            } else {
                link.begin(*from, share);
            }
            continue;
        };
        if share.is_backup && !is_backup {
            is_demoted = true;
        }
        share.is_wished &= !is_backup;
        share.is_backup = *is_backup;
        if share.is_wished && share.phase == CopyPhase::Whole {
            let epoch = sender.roles.epoch();
            sender.wishes.push(ConfigWish::Admit { from: *from, member: id.clone(), epoch });
        }
    }
    if is_demoted {
        // It was too slow, or its stream broke.
        sender.reset(id);
    }
}
