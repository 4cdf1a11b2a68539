//! A member's table, and its log on disk.

use std::collections::BTreeMap;

use crate::sim::node::SimValue;

/// Keys with their values.
pub(super) type SimRows = BTreeMap<Vec<u8>, SimValue>;

/// A table whose changes are all in a log. A crash may lose those that are not synced, from some change on.
#[derive(Clone, Default)]
pub(super) struct SimTable {
    pub(super) rows: SimRows,
    log: Vec<(Vec<u8>, Option<SimValue>)>,
    synced: usize,
}

impl SimTable {
    pub(super) fn insert(&mut self, key: &[u8], value: SimValue) {
        self.rows.insert(key.to_vec(), value);
        self.log.push((key.to_vec(), Some(value)));
    }

    pub(super) fn remove(&mut self, key: &[u8]) {
        if self.rows.remove(key).is_some() {
            self.log.push((key.to_vec(), None));
        }
    }

    pub(super) fn retain(&mut self, keeps: impl Fn(&[u8]) -> bool) {
        let gone: Vec<_> = self.rows.keys().filter(|key| !keeps(key)).cloned().collect();
        gone.iter().for_each(|key| self.remove(key));
    }

    /// The length of the log.
    pub(super) fn mark(&self) -> u64 {
        self.log.len() as u64
    }

    /// Everything up to this mark survives a crash.
    pub(super) fn synced(&self) -> u64 {
        self.synced as u64
    }

    pub(super) fn sync(&mut self) {
        self.synced = self.log.len();
    }

    /// The table after a crash that has left so many changes that were not synced.
    pub(super) fn after_crash(&self, left: usize) -> SimTable {
        let log = self.log[..self.log.len().min(self.synced + left)].to_vec();
        let mut rows = SimRows::new();
        for (key, value) in &log {
            match value {
                Some(value) => drop(rows.insert(key.clone(), *value)),
                None => drop(rows.remove(key)),
            }
        }
        SimTable { rows, synced: log.len(), log }
    }

    /// The greatest number of a change.
    pub(super) fn last(&self) -> u64 {
        self.rows.values().map(|(_, number)| *number).max().unwrap_or(0)
    }
}
