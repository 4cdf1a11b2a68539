//! The primary's end of all streams of one member.

use std::collections::{BTreeMap, VecDeque};

use cluster::{ConfigWish, HashSlot, MemberId};

use crate::record::ReplicaRecord;
use crate::roles::{RecordSource, ShareRoles};
use crate::sender::link::{CopyPhase, LinkShare, ReplicaLink};
use crate::sender::moves::Hands;
use crate::tenure::Tenures;

/// Ranges of changes with unknown outcome that are remembered. Beyond, the two oldest become one, with all between.
const MOST_LOST: usize = 16;

/// Streams of one process at most: bits.
const PROCESS_BITS: u32 = 32;

/// Settings of the primary's end.
#[derive(Clone, Copy, Debug)]
pub struct SenderOptions {
    /// A backup that keeps answers waiting for so long is left out, by a new configuration: nanoseconds.
    pub patience_ns: u64,
    /// The pause before a stream that broke begins anew: nanoseconds.
    pub pause_ns: u64,
    /// The pause before a member is asked again that has received everything and not applied it: nanoseconds.
    pub later_ns: u64,
    /// Bytes of a batch at most.
    pub batch_bytes: usize,
    /// Bytes of changes that belong together, and go in one batch, at most.
    pub group_bytes: usize,
    /// Changes that belong together hold up a batch for so long at most: nanoseconds.
    pub group_ns: u64,
    /// Bytes that wait for one backup at most, the last record aside.
    pub queue_bytes: usize,
    /// A share that is handed over makes no changes for so long at most: nanoseconds.
    pub stop_ns: u64,
    /// The time between two questions of a target: nanoseconds.
    pub ask_ns: u64,
}

impl Default for SenderOptions {
    fn default() -> SenderOptions {
        SenderOptions {
            patience_ns: 500_000_000,
            pause_ns: 50_000_000,
            later_ns: 2_000_000,
            batch_bytes: 256 << 10,
            group_bytes: 2 << 20,
            group_ns: 20_000_000,
            queue_bytes: 64 << 20,
            stop_ns: 8_000_000,
            ask_ns: 500_000,
        }
    }
}

/// The state of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeState {
    /// A backup has not acknowledged it.
    Waiting,
    /// It and all before are with all backups.
    Settled,
    /// This member is no longer the primary. Nobody here knows whether the next one has it.
    Unknown,
}

/// The delay of a member, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaLag {
    /// The member.
    pub member: MemberId,
    /// The first slot of the share.
    pub from: u16,
    /// Bytes that it has not applied.
    pub bytes: u64,
    /// True if it has all keys that were there when its stream began.
    pub is_copied: bool,
}

/// The primary's end of all streams of one member.
#[derive(Debug)]
pub struct ReplicaSender {
    pub(super) roles: ShareRoles,
    pub(super) options: SenderOptions,
    pub(super) links: BTreeMap<MemberId, ReplicaLink>,
    /// The number of the last change.
    pub(super) last: u64,
    pub(super) streams: u64,
    /// Changes whose outcome nobody here will know: first and last numbers.
    lost: VecDeque<(u64, u64)>,
    pub(super) wishes: Vec<ConfigWish>,
    pub(super) hands: Hands,
    pub(super) tenures: Tenures,
    /// Groups of changes that have begun and not ended.
    groups: usize,
    /// Changes that this member's own log has not made safe yet: number, and mark in that log.
    unlogged: VecDeque<(u64, u64)>,
}

impl ReplicaSender {
    /// The end of that member, which knows no configuration yet.
    pub fn new(me: MemberId, options: SenderOptions) -> ReplicaSender {
        ReplicaSender {
            roles: ShareRoles::new(me),
            options,
            links: BTreeMap::new(),
            last: 0,
            streams: 0,
            lost: VecDeque::new(),
            wishes: Vec::new(),
            hands: Hands::default(),
            tenures: Tenures::new(),
            groups: 0,
            unlogged: VecDeque::new(),
        }
    }

    /// Goes on with a life that has kept its data: `last` is the greatest number of a change there, and `processes` the number of earlier
    /// processes. Numbers of changes and streams are greater than all of theirs.
    pub fn resume(&mut self, last: u64, processes: u32) {
        self.last = self.last.max(last);
        self.streams = self.streams.max(u64::from(processes) << PROCESS_BITS);
    }

    /// The last change is in this member's own log, too, behind everything before. Its answer waits until the log has made this mark
    /// [safe](ReplicaSender::logged).
    pub fn log(&mut self, mark: u64) {
        self.unlogged.push_back((self.last, mark));
    }

    /// The own log has made everything up to this mark safe.
    pub fn logged(&mut self, mark: u64) {
        while self.unlogged.front().is_some_and(|(_, own)| *own <= mark) {
            self.unlogged.pop_front();
        }
    }

    /// The mark that the own log has to reach next, if there is one.
    pub fn next_mark(&self) -> Option<u64> {
        self.unlogged.front().map(|(_, mark)| *mark)
    }

    /// The roles of the member.
    pub fn roles(&self) -> &ShareRoles {
        &self.roles
    }

    /// True if the member is the primary of a slot, and not about to hand it over. (Whether its term lasts is another question.)
    pub fn serves(&self, slot: HashSlot) -> bool {
        self.roles.share_of(slot).is_some_and(|from| self.roles.is_primary(from) && !self.hands.is_stopped(from))
    }

    /// The number of the member's present tenure as the primary of a slot; `None` if it is not. Two looks that find the same number have
    /// one tenure around them: what was read in between is true. It lasts while the member hands the slot over and makes no changes.
    pub fn tenure(&self, slot: HashSlot) -> Option<u64> {
        self.tenures.of(slot)
    }

    /// The number of the last change. Everything that a request can have seen has this number at most.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// The number of the next change.
    pub fn next_number(&self) -> u64 {
        self.last + 1
    }

    /// Sends a change of a key in this slot to all members that have its share. Returns its number. The caller has asked
    /// [`serves`](ReplicaSender::serves) under the same lock.
    pub fn change(&mut self, slot: HashSlot, record: ReplicaRecord<'_>) -> u64 {
        self.last += 1;
        let Some(from) = self.roles.share_of(slot) else { return self.last };
        let mut bytes = Vec::new();
        for link in self.links.values_mut().filter(|link| link.shares.contains_key(&from)) {
            if bytes.is_empty() {
                record.append(&mut bytes);
            }
            link.change(self.last, slot.number(), from, &bytes);
        }
        self.bound_queues();
        self.last
    }

    /// Changes from here on belong together, until [`end_group`](ReplicaSender::end_group): no batch ends among them, if they are
    /// not longer than [`SenderOptions::group_bytes`] and [`SenderOptions::group_ns`]. So a backup has all of them or none. Several groups at a time count as one.
    pub fn begin_group(&mut self) {
        self.groups += 1;
        if self.groups == 1 {
            self.links.values_mut().for_each(ReplicaLink::begin_group);
        }
    }

    /// The changes of a group are complete. Returns true if there is something to send now.
    pub fn end_group(&mut self) -> bool {
        self.groups = self.groups.saturating_sub(1);
        self.groups == 0
            && self.links.values_mut().map(ReplicaLink::end_group).filter(|has_records| *has_records).count() > 0
    }

    /// A member that is too slow begins anew.
    fn bound_queues(&mut self) {
        let most = self.options.queue_bytes;
        let is_long = |link: &ReplicaLink| link.queue.len() > most;
        let long: Vec<MemberId> =
            self.links.iter().filter(|(_, link)| is_long(link)).map(|(id, _)| id.clone()).collect();
        for id in long {
            // Not at once again: the queue of a new stream is short.
            self.reset(&id);
        }
    }

    /// All changes up to this number are with all backups, and in the own log, if there is one.
    pub fn settled(&self) -> u64 {
        let own = self.unlogged.front().map(|(number, _)| number - 1);
        self.links.values().filter_map(ReplicaLink::settled).chain(own).min().unwrap_or(self.last).min(self.last)
    }

    /// Readers of memory may take values up to this number in this epoch. None while a backup lacks a copy: it may
    /// not have what an earlier primary of the share has changed, whose numbers this member's own do not bound.
    pub fn shown(&self) -> u64 {
        let lacks = |link: &ReplicaLink| link.shares.values().any(|share| share.is_required() && share.cap.is_some());
        if self.links.values().any(lacks) { 0 } else { self.settled() }
    }

    /// Whether everything up to this number is safe.
    pub fn state(&self, number: u64) -> ChangeState {
        if self.lost.iter().any(|(first, last)| (*first..=*last).contains(&number)) {
            ChangeState::Unknown
        } else if number <= self.settled() {
            ChangeState::Settled
        } else {
            ChangeState::Waiting
        }
    }

    /// Wishes that the coordinator's member has to carry out.
    pub fn take_wishes(&mut self) -> Vec<ConfigWish> {
        std::mem::take(&mut self.wishes)
    }

    /// Asks whether a record may change a share here; then no older primary may any more, this member included. To be asked
    /// under the lock of the tables.
    pub fn admit(&mut self, source: RecordSource<'_>, from: u16) -> bool {
        let was_primary = self.roles.is_primary(from);
        let is_admitted = self.roles.admit(source, from);
        if was_primary && !self.roles.is_primary(from) {
            self.lose(&[from]);
        }
        is_admitted
    }

    /// The first slot of the share of a slot.
    pub fn share_of(&self, slot: HashSlot) -> Option<u16> {
        self.roles.share_of(slot)
    }

    /// Looks for members that keep answers waiting, and for the next steps of moves.
    pub fn tick(&mut self, now_ns: u64) {
        self.move_on(now_ns);
        let (last, patience_ns) = (self.last, self.options.patience_ns);
        let mut slow = Vec::new();
        for (id, link) in &mut self.links {
            let settled = link.settled().filter(|settled| *settled < last);
            link.blocked = match (settled, link.blocked) {
                (None, _) => None,
                (Some(at), Some((before, since))) if at == before => Some((at, since)),
                (Some(at), _) => Some((at, now_ns)),
            };
            if link.blocked.is_some_and(|(_, since)| now_ns.saturating_sub(since) >= patience_ns) {
                link.blocked = None;
                slow.push(id.clone());
            }
        }
        slow.iter().for_each(|id| self.leave_out(id));
    }

    /// Wishes a configuration without a member as a backup. One that may still become a backup is waited for: wishes come true in
    /// their order, and one to admit it behind one to leave it out would let it in unnoticed.
    fn leave_out(&mut self, id: &MemberId) {
        let Some(link) = self.links.get_mut(id) else { return };
        for (from, _) in link.shares.iter().filter(|(_, share)| share.is_backup) {
            self.wishes.push(ConfigWish::Demote { from: *from, member: id.clone() });
        }
        if link.shares.values().any(|share| matches!(share.phase, CopyPhase::CatchingUp(_))) {
            self.reset(id);
        }
    }

    /// Begins the stream to a member anew.
    pub(super) fn reset(&mut self, id: &MemberId) {
        let settled = self.settled();
        self.streams += 1;
        if let Some(link) = self.links.get_mut(id) {
            link.reset(self.streams, settled);
        }
    }

    /// This member is the primary of these shares no more: the outcome of changes that wait is unknown.
    pub(super) fn lose(&mut self, shares: &[u16]) {
        let settled = self.settled();
        if shares.is_empty() {
            return;
        }
        self.count_tenures();
        if settled < self.last {
            self.lost.push_back((settled + 1, self.last));
        }
        if self.lost.len() > MOST_LOST
            && let (Some((first, _)), Some((_, last))) = (self.lost.pop_front(), self.lost.pop_front())
        {
            self.lost.push_front((first, last));
        }
        let carries = |link: &&mut ReplicaLink| shares.iter().any(|from| link.shares.contains_key(from));
        for link in self.links.values_mut().filter(carries) {
            shares.iter().for_each(|from| link.remove(*from));
            self.streams += 1;
            // Records of those shares must not leave under a later epoch.
            link.reset(self.streams, settled);
        }
        self.links.retain(|_, link| !link.shares.is_empty());
    }

    /// The members that this one sends to, and how far they are behind.
    pub fn lags(&self) -> Vec<ReplicaLag> {
        let of_link = |(id, link): (&MemberId, &ReplicaLink)| {
            let (member, bytes) = (id.clone(), link.end() - link.applied);
            let lag = move |(from, share): (&u16, &LinkShare)| ReplicaLag {
                member: member.clone(),
                from: *from,
                bytes,
                is_copied: matches!(share.phase, CopyPhase::Whole | CopyPhase::CatchingUp(_)),
            };
            link.shares.iter().map(lag).collect::<Vec<_>>()
        };
        self.links.iter().flat_map(of_link).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cluster::{ClusterConfig, ClusterMember, ConfigWish};

    use super::*;
    use crate::sender::words::BatchAck;

    /// Copies nothing, and acknowledges all.
    fn finish(sender: &mut ReplicaSender) {
        while let Some(task) = sender.copy_due() {
            sender.copied(&task, &[], None);
        }
        let members: Vec<MemberId> = sender.members().cloned().collect();
        for id in members {
            while let Some(batch) = sender.next_batch(&id, 0) {
                let end = batch.head.offset + batch.bytes.len() as u64;
                assert!(sender.answered(&batch.head, Some(BatchAck { received: end, applied: end }), 0));
            }
        }
    }

    /// The share of a dead primary: its changes have numbers that this one's own do not bound. So readers wait for the copy.
    #[test]
    fn readers_get_no_number_while_a_backup_lacks_a_copy() {
        let member = |name: &str| ClusterMember {
            id: MemberId { name: name.into(), incarnation: 1 },
            address: format!("{name}:1"),
        };
        let first = ClusterConfig::form(["a", "b", "c"].map(member).to_vec(), 2);
        let mut sender = ReplicaSender::new(member("b").id, SenderOptions::default());
        sender.set_config(&Arc::new(first.clone()));
        finish(&mut sender);
        let slot = HashSlot::new(8000).unwrap();
        assert!(sender.serves(slot));
        let number = sender.change(slot, ReplicaRecord::Delete { table: 0, key: b"k" });
        assert_eq!((sender.settled(), sender.shown()), (number - 1, number - 1));
        finish(&mut sender);
        assert_eq!((sender.settled(), sender.shown()), (number, number));

        let second = Arc::new(first.lose(&member("a").id).unwrap());
        sender.set_config(&second);
        assert!(sender.serves(HashSlot::new(0).unwrap()));
        assert_eq!((sender.settled(), sender.shown()), (number, 0));
        finish(&mut sender);
        assert!(sender.shown() > number && sender.shown() == sender.last());
    }

    /// Another process of a primary, in the same epoch: the one before may have changed something that no backup has.
    #[test]
    fn a_primary_that_returns_answers_when_its_backups_have_a_copy() {
        let (mut before, _, slot) = pair_sender(SenderOptions::default());
        put(&mut before, slot, 1);
        let config = Arc::clone(before.roles().config().unwrap());
        let mut sender = ReplicaSender::new(before.roles().me().clone(), SenderOptions::default());
        sender.resume(before.last(), 2);
        sender.set_config(&config);
        assert!(sender.serves(slot) && sender.last() > before.last());
        assert_eq!((sender.state(sender.last()), sender.shown()), (ChangeState::Waiting, 0));
        finish(&mut sender);
        assert_eq!(sender.state(sender.last()), ChangeState::Settled);
    }

    /// A member that was about to become a backup is killed, and comes back. It may lack what it has acknowledged.
    #[test]
    fn a_member_that_comes_back_gets_its_copy_anew() {
        let (mut sender, to, slot) = pair_sender(SenderOptions::default());
        let config = Arc::clone(sender.roles().config().unwrap());
        let demote = ConfigWish::Demote { from: sender.share_of(slot).unwrap(), member: to.clone() };
        let joining = Arc::new(config.granted(&demote, sender.roles().me()).unwrap());
        sender.set_config(&joining);
        finish(&mut sender);
        assert!(sender.copy_due().is_none(), "it has everything");
        let returned = Arc::new(joining.returned(&to, |_| true).unwrap());
        sender.take_wishes();
        sender.set_config(&returned);
        assert_eq!(sender.take_wishes(), [], "nobody knows what it has");
        assert!(sender.copy_due().is_some());
    }

    fn pair_sender(options: SenderOptions) -> (ReplicaSender, MemberId, HashSlot) {
        let member = |name: &str| ClusterMember {
            id: MemberId { name: name.into(), incarnation: 1 },
            address: format!("{name}:1"),
        };
        let config = ClusterConfig::form(["a", "b"].map(member).to_vec(), 1);
        let slot = config.shares.iter().find(|share| share.primary.as_deref() == Some("a")).unwrap().from;
        let mut sender = ReplicaSender::new(member("a").id, options);
        sender.set_config(&Arc::new(config));
        finish(&mut sender);
        (sender, member("b").id, HashSlot::new(slot).unwrap())
    }

    fn put(sender: &mut ReplicaSender, slot: HashSlot, bytes: usize) {
        let (key, value) = (b"key", &vec![7; bytes][..]);
        sender.change(slot, ReplicaRecord::Put { table: 0, stamp: 1, expires_unix_ns: 0, key, value });
    }

    /// The lengths of the batches until there is none.
    fn batches(sender: &mut ReplicaSender, to: &MemberId) -> Vec<usize> {
        let mut lengths = Vec::new();
        while let Some(batch) = sender.next_batch(to, 0) {
            lengths.push(batch.bytes.len());
            let end = batch.head.offset + batch.bytes.len() as u64;
            assert!(sender.answered(&batch.head, Some(BatchAck { received: end, applied: end }), 0));
        }
        lengths
    }

    /// Each record takes 130 bytes: 100 of the value, and 30 of key and head.
    #[test]
    fn no_batch_ends_among_changes_that_belong_together() {
        let options = SenderOptions { batch_bytes: 300, group_bytes: 600, group_ns: 10, ..SenderOptions::default() };
        let (mut sender, to, slot) = pair_sender(options);
        // Two alone, three together, one alone.
        (0..2).for_each(|_| put(&mut sender, slot, 100));
        sender.begin_group();
        put(&mut sender, slot, 100);
        assert_eq!(batches(&mut sender, &to), [260], "the open group waits");
        (0..2).for_each(|_| put(&mut sender, slot, 100));
        assert!(sender.next_batch(&to, 0).is_none());
        assert!(sender.end_group());
        put(&mut sender, slot, 100);
        assert_eq!(batches(&mut sender, &to), [390, 130]);
        // Two groups at a time are one; one without changes is none.
        sender.begin_group();
        put(&mut sender, slot, 100);
        sender.begin_group();
        assert!(!sender.end_group());
        assert!(sender.next_batch(&to, 0).is_none());
        put(&mut sender, slot, 100);
        assert!(sender.end_group());
        sender.begin_group();
        assert!(!sender.end_group());
        assert_eq!(batches(&mut sender, &to), [260]);
        // One that is too long goes in parts, whether it is open or not.
        sender.begin_group();
        (0..5).for_each(|_| put(&mut sender, slot, 100));
        assert_eq!(batches(&mut sender, &to), [300], "what is left fits into one batch");
        put(&mut sender, slot, 100);
        assert!(sender.end_group());
        assert_eq!(batches(&mut sender, &to), [480]);
        assert_eq!(sender.settled(), sender.last());
        // One that takes too long, too.
        sender.begin_group();
        put(&mut sender, slot, 100);
        assert!(sender.next_batch(&to, 5).is_none() && sender.next_batch(&to, 14).is_none());
        assert_eq!(sender.next_batch(&to, 15).map(|batch| batch.bytes.len()), Some(130));
        assert!(sender.end_group());
    }
}
