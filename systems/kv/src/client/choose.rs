//! Requests whose way the client chooses at run time, and the lesson from each.

use std::time::Duration;

use crate::client::choice::{ChoiceKind, Searcher, WayChoices};
use crate::client::get::EachValue;
use crate::client::options::GetWay;
use crate::client::table::KvTable;
use crate::clock::now_ns;
use crate::error::KvError;
use crate::surroundings::instant;

/// The way of a request that begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChosenWay {
    kind: ChoiceKind,
    pub(crate) searcher: Searcher,
    /// The wait for the server after which READs are the better way; `None` if the caller has chosen the way.
    pub(crate) patience: Option<Duration>,
    /// When the request began; zero if nobody wants to know.
    began_ns: u64,
}

impl ChosenWay {
    /// The server searches, and nothing is learnt from it.
    pub(crate) fn server(kind: ChoiceKind) -> ChosenWay {
        ChosenWay { kind, searcher: Searcher::Server, patience: None, began_ns: 0 }
    }
}

impl WayChoices {
    /// The way of a request that begins now. Without a session (`has_session`) a request would have to make one first.
    pub(crate) fn begin(&mut self, way: GetWay, kind: ChoiceKind, has_session: bool) -> ChosenWay {
        let fixed = |searcher| ChosenWay { kind, searcher, patience: None, began_ns: 0 };
        match way {
            GetWay::OneSided => fixed(Searcher::Client),
            GetWay::Rpc => ChosenWay::server(kind),
            GetWay::Device => match kind {
                ChoiceKind::Gets(_) => fixed(Searcher::Client),
                ChoiceKind::Range(_) => ChosenWay::server(kind),
            },
            GetWay::Choose if !has_session => fixed(Searcher::Client),
            GetWay::Choose => {
                let (began_ns, chooser) = (now_ns(), self.of(kind));
                let searcher = chooser.decide(began_ns);
                let patience_ns = chooser.patience_ns().filter(|_| searcher == Searcher::Server);
                ChosenWay { kind, searcher, patience: patience_ns.map(Duration::from_nanos), began_ns }
            }
        }
    }

    /// Learns from a request that has ended, or was given up.
    pub(crate) fn end(&mut self, chosen: ChosenWay) {
        if chosen.began_ns != 0 {
            let now_ns = now_ns();
            let took_ns = now_ns.saturating_sub(chosen.began_ns);
            self.of(chosen.kind).learn(chosen.searcher, took_ns, now_ns);
        }
    }
}

impl KvTable {
    /// The way of a request that begins now.
    #[inline]
    pub(super) fn choose(&mut self, kind: ChoiceKind) -> ChosenWay {
        let has_session = self.session.rpc().is_some();
        self.choices.begin(self.session.options.get, kind, has_session)
    }

    /// Learns from a request that has ended, or was given up.
    pub(super) fn learn(&mut self, chosen: ChosenWay) {
        self.choices.end(chosen);
    }

    /// GETs keys by a way.
    pub(super) fn get_by(&mut self, chosen: ChosenWay, keys: &[&[u8]], each: EachValue<'_>) -> Result<(), KvError> {
        let Some(patience) = chosen.patience else {
            let done = match chosen.searcher {
                Searcher::Client => self.read_each(keys, each),
                Searcher::Server => {
                    let until = self.session.deadline();
                    self.ask_each(keys, until, each)
                }
            };
            if done.is_ok() {
                self.learn(chosen);
            }
            return done;
        };
        let mut is_told = vec![false; keys.len()];
        let asked = self.ask_each(keys, instant() + patience, &mut |number, found| {
            is_told[number] = true;
            each(number, found);
        });
        self.learn(chosen);
        match asked {
            Err(KvError::Server(_)) => {
                let left: Vec<usize> = (0..keys.len()).filter(|number| !is_told[*number]).collect();
                let wanted: Vec<&[u8]> = left.iter().map(|number| keys[*number]).collect();
                self.read_each(&wanted, &mut |at, found| each(left[at], found))
            }
            done => done,
        }
    }
}
