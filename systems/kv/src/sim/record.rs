//! The operations of each client with each key, and their times: the histories that are checked.

use crate::server::TableFigures;
use crate::sim::check::{Fault, Keyed, is_explained};

/// The expiry that an operation gives a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Term {
    Never,
    Keep,
    After(u64),
}

/// An operation on one key, with its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyDeed {
    Get(Option<u64>),
    Put(u64, Term),
    /// A PUT of a key that must be absent; false: it was present.
    Insert(u64, Term, bool),
    /// A PUT of a key that must be present; false: it was absent.
    Update(u64, Term, bool),
    /// A PUT that compared the version: that of which value, the new value, and whether it happened.
    Replace(u64, u64, Term, bool),
    /// False: the key was absent.
    Delete(bool),
    /// A DELETE that compared the version. `None`: the key was absent; false: it had another version.
    DeleteOf(u64, Option<bool>),
    /// The summand, and the sum if it is known.
    Add(i64, Option<i64>),
    /// Another expiry; false: the key was absent.
    Expire(Term, bool),
    /// The server has lost everything.
    Wipe,
}

/// An operation and its time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deed {
    pub(crate) client: usize,
    pub(crate) deed: KeyDeed,
    pub(crate) begin: u64,
    /// `None`: nobody knows whether it was executed.
    pub(crate) end: Option<u64>,
}

/// All histories of a run.
pub(crate) struct Ledger {
    keys: Vec<Vec<Deed>>,
    last_value: u64,
    pub(crate) figures: TableFigures,
    pub(crate) counts: DeedCounts,
}

/// Counts of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeedCounts {
    /// Operations with an outcome.
    pub done: u64,
    /// Those of which nobody knows whether they were executed.
    pub unknown: u64,
    /// Those that found the memory full.
    pub full: u64,
    /// GETs by READs alone.
    pub one_sided_gets: u64,
    /// GETs by request.
    pub rpc_gets: u64,
    /// PUTs by compare-and-swap and WRITEs alone.
    pub one_sided_puts: u64,
    /// Clients that died.
    pub deaths: u64,
    /// Servers that died.
    pub wipes: u64,
}

impl Ledger {
    pub(crate) fn new(keys: usize) -> Ledger {
        let (figures, counts) = (TableFigures::default(), DeedCounts::default());
        Ledger { keys: vec![Vec::new(); keys], last_value: 1_000_000, figures, counts }
    }

    /// A value that nobody has put yet.
    pub(crate) fn new_value(&mut self) -> u64 {
        self.last_value += 1;
        self.last_value
    }

    /// Notes an operation that begins. Its outcome is unknown until it [ends](Ledger::end).
    pub(crate) fn begin(&mut self, key: usize, deed: Deed) -> usize {
        self.keys[key].push(deed);
        self.keys[key].len() - 1
    }

    pub(crate) fn end(&mut self, key: usize, number: usize, deed: KeyDeed, end: u64) {
        self.counts.done += 1;
        let noted = &mut self.keys[key][number];
        (noted.deed, noted.end) = (deed, Some(end));
    }

    /// An operation that certainly was not executed, or told nothing.
    pub(crate) fn void(&mut self, key: usize, number: usize) {
        self.keys[key][number].deed = KeyDeed::Get(None);
        self.keys[key][number].end = None;
    }

    pub(crate) fn wipe(&mut self, begin: u64, end: u64) {
        self.counts.wipes += 1;
        let deed = Deed { client: 0, deed: KeyDeed::Wipe, begin, end: Some(end) };
        self.keys.iter_mut().for_each(|key| key.push(deed));
    }

    /// Checks the history of each key.
    pub(crate) fn check(&self, evicts: bool) -> Result<(), String> {
        for (key, deeds) in self.keys.iter().enumerate() {
            let open = |deed: &&Deed| deed.end.is_some() || !matches!(deed.deed, KeyDeed::Get(_));
            let deeds: Vec<Deed> = deeds.iter().filter(open).copied().collect();
            match is_explained(&deeds, Keyed { evicts }) {
                Ok(()) => {}
                Err(fault) => {
                    let why = match fault {
                        Fault::NotLinearizable => "cannot have happened one by one",
                        Fault::TooLong => "take too long to check",
                    };
                    let mut words = format!("the operations on key {key} {why}:");
                    let mut deeds = deeds;
                    deeds.sort_by_key(|deed| deed.begin);
                    deeds.iter().for_each(|Deed { client, deed, begin, end }| {
                        let end = end.map_or("?".into(), |end| end.to_string());
                        words.push_str(&format!("\n  client {client}: {begin} to {end} {deed:?}"));
                    });
                    return Err(words);
                }
            }
        }
        Ok(())
    }
}
