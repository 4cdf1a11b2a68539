//! A member: its table, its two ends, its term.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use cluster::{ClusterConfig, ClusterMember, ConfigWish, HashSlot, MemberId, ShareMove};

use crate::receiver::{KeySet, ReplicaReceiver, ReplicaStore, StoreRefusal};
use crate::record::ReplicaRecord;
use crate::roles::RecordSource;
use crate::sender::{BatchAck, BatchHead, ReplicaSender, SenderOptions};
use crate::sim::clients::CLIENTS;
use crate::sim::table::{SimRows, SimTable};
use crate::sim::tests::SimBug;

/// Value and number of the change.
pub(super) type SimValue = (u64, u64);

/// An operation that waits for backups: its place in the history, and the number that it waits for.
#[derive(Clone, Copy, Debug)]
pub(super) struct SimReply {
    pub(super) op: usize,
    pub(super) key: usize,
    pub(super) number: u64,
    /// Told with the answer: epoch, settled number and end of the term.
    pub(super) told: (u64, u64, u64),
}

/// One life of a member.
pub(super) struct SimLife {
    pub(super) member: ClusterMember,
    pub(super) sender: ReplicaSender,
    pub(super) receiver: ReplicaReceiver,
    pub(super) table: SimTable,
    /// Each change has to be in the log of every member before it is answered.
    pub(super) is_strict: bool,
    /// Acknowledgements that wait for the log, each with its mark there.
    pub(super) acks: Vec<(u64, BatchHead, BatchAck)>,
    /// The table as it was before the crash, if it may lack something and the configuration does not know that yet.
    pub(super) before: Option<SimRows>,
    pub(super) until: u64,
    pub(super) replies: Vec<SimReply>,
    pub(super) wishes: Vec<ConfigWish>,
    /// The newest that each client was told.
    pub(super) told: [Option<(u64, u64, u64)>; CLIENTS],
    /// Its beats reach the coordinator again from this moment on.
    pub(super) cut_until: u64,
    /// Closed shares, and the moment until which clients may read them alone.
    closed: BTreeMap<u16, u64>,
}

/// A machine: `None` while no process runs there.
pub(super) struct SimNode {
    pub(super) life: Option<SimLife>,
    pub(super) lives: u64,
    pub(super) processes: u32,
    /// The disk of a machine whose process has crashed.
    pub(super) disk: Option<SimTable>,
}

impl SimLife {
    pub(super) fn new(number: usize, life: u64, is_strict: bool) -> SimLife {
        let id = MemberId { name: format!("m{number}"), incarnation: life };
        let options = SenderOptions {
            patience_ns: 120,
            pause_ns: 10,
            later_ns: 5,
            batch_bytes: 64,
            group_bytes: 200,
            group_ns: 20,
            queue_bytes: 1000,
            stop_ns: 60,
            ask_ns: 10,
        };
        SimLife {
            member: ClusterMember { id: id.clone(), address: format!("m{number}:1") },
            sender: ReplicaSender::new(id.clone(), options),
            receiver: ReplicaReceiver::new(id),
            table: SimTable::default(),
            is_strict,
            acks: Vec::new(),
            before: None,
            until: 0,
            replies: Vec::new(),
            wishes: Vec::new(),
            told: [None; CLIENTS],
            cut_until: 0,
            closed: BTreeMap::new(),
        }
    }

    pub(super) fn learn(&mut self, config: &Arc<ClusterConfig>, until: u64) {
        let me = &self.member.id;
        self.wishes.retain(|wish| config.granted(wish, me).is_some());
        self.sender.set_config(config);
        let is_closed = |share: &&cluster::SlotShare| matches!(share.moving, Some(ShareMove::Close { .. }));
        let closed: Vec<u16> = config.shares_of(me).filter(is_closed).map(|share| share.from).collect();
        self.closed.retain(|from, _| closed.contains(from));
        for from in closed {
            self.closed.entry(from).or_insert(self.until);
        }
        self.until = until;
        let roles = self.sender.roles();
        self.table.retain(|key| roles.has_part(HashSlot::of_key(key)));
        self.collect();
    }

    /// A share is handed over when nobody can read it alone any more.
    pub(super) fn is_time(&self, wish: &ConfigWish, now: u64) -> bool {
        let ConfigWish::HandOver { from } = wish else { return true };
        self.closed.get(from).is_some_and(|until| now >= *until)
    }

    pub(super) fn collect(&mut self) {
        for wish in self.sender.take_wishes() {
            let older = self.wishes.iter().position(|old| is_renewed(old, &wish));
            match older {
                Some(at) => self.wishes[at] = wish,
                None => self.wishes.push(wish),
            }
        }
    }

    pub(super) fn may_serve(&self, key: &[u8], now: u64) -> bool {
        now < self.until && self.sender.serves(HashSlot::of_key(key))
    }

    /// A change by a client: a value, or none.
    pub(super) fn change(&mut self, key: &[u8], value: Option<u64>) {
        let stamp = self.sender.next_number();
        let bytes = value.map(u64::to_le_bytes);
        let record = match &bytes {
            Some(value) => ReplicaRecord::Put { table: 0, stamp, expires_unix_ns: 0, key, value },
            None => ReplicaRecord::Delete { table: 0, key },
        };
        // Some changes are groups of one: their records come as a whole.
        let is_group = stamp.is_multiple_of(3);
        if is_group {
            self.sender.begin_group();
        }
        self.sender.change(HashSlot::of_key(key), record);
        if is_group {
            self.sender.end_group();
        }
        match value {
            Some(value) => self.table.insert(key, (value, stamp)),
            None => self.table.remove(key),
        }
        if self.is_strict {
            self.sender.log(self.table.mark());
        }
    }

    /// The log is synced. Returns the acknowledgements that leave.
    pub(super) fn sync(&mut self) -> Vec<(BatchHead, BatchAck)> {
        self.table.sync();
        self.sender.logged(self.table.synced());
        self.acks.drain(..).map(|(_, head, ack)| (head, ack)).collect()
    }

    /// A configuration knows that the table may lack something. Of slots that this member still has, nobody else has the data: there it lacks
    /// nothing, since the rules would blame it for what was answered.
    pub(super) fn come_back(&mut self, next: &ClusterConfig) {
        let me = &self.member.id.name;
        let Some(before) = self.before.take() else { return };
        let has = |key: &[u8]| {
            next.share(HashSlot::of_key(key))
                .is_some_and(|share| share.primary.as_ref() == Some(me) || share.backups.contains(me))
        };
        let lost: Vec<_> =
            self.table.rows.keys().filter(|key| has(key) && !before.contains_key(*key)).cloned().collect();
        lost.iter().for_each(|key| self.table.remove(key));
        before.into_iter().filter(|(key, _)| has(key)).for_each(|(key, value)| self.table.insert(&key, value));
    }

    /// One step of a copy: one key. The planted bug leaves keys out.
    pub(super) fn copy(&mut self, bug: Option<SimBug>) {
        let Some(task) = self.sender.copy_due() else { return };
        let slots = task.from..=task.to;
        let keys: Vec<_> =
            self.table.rows.iter().filter(|(key, _)| slots.contains(&HashSlot::of_key(key).number())).collect();
        // Keys in their order; the cursor is a hash of the last one's place, as changes go on between.
        let next = keys.iter().find(|(key, _)| place(key) >= task.cursor.at);
        let mut records = Vec::new();
        if let Some((key, (value, stamp))) = next.filter(|_| bug != Some(SimBug::NoCopy)) {
            let value = &value.to_le_bytes();
            ReplicaRecord::Put { table: 0, stamp: *stamp, expires_unix_ns: 0, key, value }.append(&mut records);
        }
        let rest = next.map(|(key, _)| crate::CopyCursor { table: 0, at: place(key) + 1 });
        self.sender.copied(&task, &records, rest);
    }
}

/// The same wish, from another epoch perhaps.
fn is_renewed(old: &ConfigWish, new: &ConfigWish) -> bool {
    match (old, new) {
        (ConfigWish::Admit { from: one, member: first, .. }, ConfigWish::Admit { from: other, member: second, .. }) => {
            (one, first) == (other, second)
        }
        _ => old == new,
    }
}

/// Keys are `k0`, `k1`, …: the number of one.
fn place(key: &[u8]) -> u64 {
    std::str::from_utf8(&key[1..]).ok().and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// The table of a life as a store for records; the fence is the sender's.
pub(super) struct SimStore<'a> {
    pub(super) sender: &'a mut ReplicaSender,
    pub(super) table: &'a mut SimTable,
    pub(super) bug: Option<SimBug>,
    /// Refuses for a moment.
    pub(super) is_late: bool,
}

impl SimStore<'_> {
    fn admit(&mut self, source: RecordSource<'_>, slot: HashSlot) -> Result<(), StoreRefusal> {
        let share = self.sender.share_of(slot).ok_or(StoreRefusal::Later)?;
        let is_admitted = self.sender.admit(source, share);
        if is_admitted || self.bug == Some(SimBug::NoFence) { Ok(()) } else { Err(StoreRefusal::Fenced) }
    }
}

impl ReplicaStore for SimStore<'_> {
    fn put(&mut self, source: RecordSource<'_>, put: ReplicaRecord<'_>) -> Result<(), StoreRefusal> {
        let ReplicaRecord::Put { stamp, key, value, .. } = put else { return Err(StoreRefusal::Later) };
        self.admit(source, HashSlot::of_key(key))?;
        if self.is_late {
            return Err(StoreRefusal::Later);
        }
        let value = u64::from_le_bytes(value.try_into().map_err(|_| StoreRefusal::Failed("no number".into()))?);
        self.table.insert(key, (value, stamp));
        Ok(())
    }

    fn delete(&mut self, source: RecordSource<'_>, _: u16, key: &[u8]) -> Result<(), StoreRefusal> {
        self.admit(source, HashSlot::of_key(key))?;
        self.table.remove(key);
        Ok(())
    }

    fn keys(&mut self, source: RecordSource<'_>, slots: RangeInclusive<u16>) -> Result<KeySet, StoreRefusal> {
        self.admit(source, HashSlot::new(*slots.start()).ok_or(StoreRefusal::Later)?)?;
        let keys = self.table.rows.keys().filter(|key| slots.contains(&HashSlot::of_key(key).number()));
        Ok(keys.map(|key| (0, key.clone().into_boxed_slice())).collect())
    }
}
