//! A client's process: operations of all kinds on some keys, and deaths in the middle of them.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use longarm_rpc::Executed;

use crate::client::{GetWay, KvOptions, KvTable, PutWay, TableSession};
use crate::envelope::KvVersion;
use crate::error::KvError;
use crate::protocol::{PutExpiry, PutIf};
use crate::sim::actor::{self, Actor, Died};
use crate::sim::caller::SimNetwork;
use crate::sim::record::{Deed, KeyDeed, Term};
use crate::sim::server::TABLE;
use crate::sim::values;
use crate::sim::world::SimWorld;

/// A client of the table.
struct SimClient<'w> {
    world: &'w Arc<SimWorld>,
    number: usize,
    me: &'w Actor,
    table: KvTable,
    /// The value that was seen last of each key, and its version.
    seen: Vec<Option<(u64, KvVersion)>>,
}

/// The outcome that an operation has told.
enum Told {
    Deed(KeyDeed),
    /// It was certainly not executed, or told nothing.
    Nothing,
    Unknown,
}

/// Runs a client: lives of it until its operations are done.
pub(crate) fn run(world: &Arc<SimWorld>, number: usize) {
    let Some(me) = actor::current() else { return };
    let mut left = world.plan.operations;
    while left > 0 {
        let pauses = world.plan.client_pauses;
        let dies = pauses > 0 && me.draw(|rng| rng.u8(..4)) > 0;
        me.live(dies.then(|| me.draw(|rng| rng.u32(..pauses))));
        let lived = catch_unwind(AssertUnwindSafe(|| live(world, number, &me, &mut left)));
        me.bury();
        world.client_gone(number);
        match lived {
            Ok(()) => {}
            Err(payload) if !payload.is::<Died>() => resume_unwind(payload),
            Err(_) if world.stage.stopped().is_some() => break,
            Err(_) => {
                world.trace(|| format!("client {number} dies"));
                world.ledger.lock().counts.deaths += 1;
            }
        }
        me.live(None);
        let away_ns = me.draw(|rng| rng.u64(..2_000_000));
        me.pause(away_ns);
    }
    me.live(None);
    if number == 1 && world.stage.stopped().is_none() {
        crate::sim::rest::look(world, &me);
    }
    world.client_done();
}

fn live(world: &Arc<SimWorld>, number: usize, me: &Actor, left: &mut usize) {
    while *left > 0 {
        let opened = open(world, number, me);
        let table = match opened {
            Ok(table) => table,
            Err(error) => {
                world.trace(|| format!("client {number} cannot open the table: {error}"));
                *left -= 1;
                continue;
            }
        };
        let seen = vec![None; world.plan.keys];
        let mut client = SimClient { world, number, me, table, seen };
        let lasts = me.draw(|rng| rng.usize(1..20));
        for _ in 0..lasts.min(*left) {
            *left -= 1;
            client.work();
        }
        let stats = client.table.stats();
        let counts = &mut world.ledger.lock().counts;
        counts.one_sided_gets += stats.one_sided_gets;
        counts.rpc_gets += stats.rpc_gets;
        counts.one_sided_puts += stats.one_sided_puts;
    }
}

/// Opens the table, in one of the ways.
pub(crate) fn open(world: &Arc<SimWorld>, number: usize, me: &Actor) -> Result<KvTable, KvError> {
    let mut get = [GetWay::OneSided, GetWay::OneSided, GetWay::Rpc, GetWay::Choose][me.draw(|rng| rng.usize(..4))];
    let alone = world.plan.writable && me.draw(|rng| rng.u8(..8)) < if world.plan.is_eager { 7 } else { 4 };
    let put = if alone { PutWay::OneSided } else { PutWay::Rpc };
    if alone {
        get = GetWay::OneSided;
    }
    let locations = [0, 8, 100][me.draw(|rng| rng.usize(..3))];
    let timeout = Duration::from_nanos(world.plan.timeout_ns);
    let options = KvOptions { get, put, locations, timeout, ..KvOptions::default() };
    let network = Arc::new(SimNetwork { world: Arc::clone(world), client: number });
    KvTable::open_session(TableSession::over(network, "server", TABLE, options))
}

impl SimClient<'_> {
    /// One operation, or GETs of several keys.
    fn work(&mut self) {
        let keys = self.world.plan.keys;
        let (kind, key) = (self.me.draw(|rng| rng.u8(..100)), self.me.draw(|rng| rng.usize(..keys)));
        if kind < 8 {
            return self.get_several();
        }
        let planned = self.plan(kind, key);
        let begin = self.world.stage.now_ns();
        let number = self.world.ledger.lock().begin(key, Deed { client: self.number, deed: planned, begin, end: None });
        self.world.trace(|| format!("client {} begins {planned:?} of key {key}", self.number));
        let told = self.carry_out(key, planned);
        let (end, mut ledger) = (self.world.stage.now_ns(), self.world.ledger.lock());
        match told {
            Told::Deed(deed) => ledger.end(key, number, deed, end),
            Told::Nothing => ledger.void(key, number),
            Told::Unknown => ledger.counts.unknown += 1,
        }
        drop(ledger);
        let told = match told {
            Told::Deed(deed) => format!("{deed:?}"),
            Told::Nothing => "nothing".into(),
            Told::Unknown => "unknown".into(),
        };
        self.world.trace(|| format!("client {} ends: {told}, {:?}", self.number, self.table.stats()));
        if self.me.draw(|rng| rng.u8(..4)) == 0 {
            let pause_ns = self.me.draw(|rng| rng.u64(..200_000));
            self.me.pause(pause_ns);
        }
    }

    /// The operation, as if it succeeds.
    fn plan(&mut self, kind: u8, key: usize) -> KeyDeed {
        let term = self.term();
        let new = |client: &Self| client.world.ledger.lock().new_value();
        if key >= self.world.plan.first_counter {
            let by = self.me.draw(|rng| rng.i64(1..10));
            return match kind {
                ..40 => KeyDeed::Get(None),
                40..85 => KeyDeed::Add(by, None),
                85..90 => KeyDeed::Delete(true),
                90..95 => KeyDeed::Expire(term, true),
                _ => KeyDeed::Put(by as u64 * 100, term),
            };
        }
        let kind = if self.world.plan.is_eager && kind >= 30 { kind % 58 + 30 } else { kind };
        match (kind, self.seen[key]) {
            (..45, _) => KeyDeed::Get(None),
            (45..65, _) => KeyDeed::Put(new(self), term),
            (65..72, _) => KeyDeed::Insert(new(self), term, true),
            (72..76, _) => KeyDeed::Update(new(self), term, true),
            (76..88, Some((value, _))) => KeyDeed::Replace(value, new(self), term, true),
            (88..91, Some((value, _))) => KeyDeed::DeleteOf(value, Some(true)),
            (91..94, _) => KeyDeed::Expire(term, true),
            _ => KeyDeed::Delete(true),
        }
    }

    fn term(&self) -> Term {
        let has_expiry = self.world.plan.has_expiry;
        self.me.draw(|rng| match rng.u8(..6) {
            0..3 if has_expiry => Term::After([20_000, 100_000, 2_000_000][rng.usize(..3)]),
            3 => Term::Keep,
            _ => Term::Never,
        })
    }

    fn carry_out(&mut self, key: usize, planned: KeyDeed) -> Told {
        let name = values::key(key);
        let is_counter = key >= self.world.plan.first_counter;
        let bytes = |value| values::bytes(value, is_counter, self.world.plan.longest);
        match planned {
            KeyDeed::Get(_) => match self.table.get(&name) {
                Ok(found) => {
                    let value = found.as_ref().map(|found| self.value_of(&found.bytes));
                    self.seen[key] = value.zip(found.map(|found| found.version));
                    Told::Deed(KeyDeed::Get(value))
                }
                Err(_) => Told::Nothing,
            },
            KeyDeed::Put(value, term) => {
                let put = self.table.put_with(&name, &bytes(value), PutIf::Always, expiry(term));
                self.put_told(key, value, put, planned, planned)
            }
            KeyDeed::Insert(value, term, _) => {
                let put = self.table.put_with(&name, &bytes(value), PutIf::Absent, expiry(term));
                self.put_told(key, value, put, planned, KeyDeed::Insert(value, term, false))
            }
            KeyDeed::Update(value, term, _) => {
                let put = self.table.put_with(&name, &bytes(value), PutIf::Present, expiry(term));
                self.put_told(key, value, put, planned, KeyDeed::Update(value, term, false))
            }
            KeyDeed::Replace(old, value, term, _) => {
                let Some((_, version)) = self.seen[key] else { return Told::Nothing };
                let put = self.table.put_with(&name, &bytes(value), PutIf::Version(version), expiry(term));
                self.put_told(key, value, put, planned, KeyDeed::Replace(old, value, term, false))
            }
            KeyDeed::Delete(_) => match self.table.delete(&name) {
                Ok(was_there) => Told::Deed(KeyDeed::Delete(was_there)),
                Err(error) => self.failed(&error),
            },
            KeyDeed::DeleteOf(old, _) => {
                let Some((_, version)) = self.seen[key] else { return Told::Nothing };
                match self.table.compare_and_delete(&name, version) {
                    Ok(true) => Told::Deed(planned),
                    Ok(false) => Told::Deed(KeyDeed::DeleteOf(old, None)),
                    Err(KvError::Conflict(_)) => Told::Deed(KeyDeed::DeleteOf(old, Some(false))),
                    Err(error) => self.failed(&error),
                }
            }
            KeyDeed::Add(by, _) => match self.table.add(&name, by) {
                Ok(sum) => Told::Deed(KeyDeed::Add(by, Some(sum))),
                Err(error) => self.failed(&error),
            },
            KeyDeed::Expire(term, _) => {
                let changed = match term {
                    Term::After(ns) => self.table.expire(&name, Duration::from_nanos(ns)),
                    Term::Never => self.table.persist(&name),
                    Term::Keep => self.table.time_to_live(&name).map(|left| left.is_some()),
                };
                match changed {
                    Ok(was_there) => Told::Deed(KeyDeed::Expire(term, was_there)),
                    Err(error) => self.failed(&error),
                }
            }
            KeyDeed::Wipe => Told::Nothing,
        }
    }

    fn put_told(
        &mut self,
        key: usize,
        value: u64,
        put: Result<KvVersion, KvError>,
        done: KeyDeed,
        refused: KeyDeed,
    ) -> Told {
        match put {
            Ok(version) => {
                self.seen[key] = Some((value, version));
                Told::Deed(done)
            }
            Err(KvError::Conflict(_)) if done != refused => Told::Deed(refused),
            Err(error) => self.failed(&error),
        }
    }

    /// The number in a value. Any other bytes are the end of the run.
    fn value_of(&self, bytes: &[u8]) -> u64 {
        values::number(bytes).unwrap_or_else(|problem| {
            self.world.stage.stop(problem);
            0
        })
    }

    fn get_several(&mut self) {
        let keys = self.world.plan.keys;
        let wanted: Vec<usize> = self.me.draw(|rng| (0..rng.usize(2..12)).map(|_| rng.usize(..keys)).collect());
        let (begin, mut found) = (self.world.stage.now_ns(), Vec::new());
        let names: Vec<Vec<u8>> = wanted.iter().map(|key| values::key(*key)).collect();
        let _ = self.table.multi_get(&names, |at, value| {
            found.push((wanted[at], value.map(|(bytes, version)| (bytes.to_vec(), version))));
        });
        let end = self.world.stage.now_ns();
        for (key, value) in found {
            let number = value.as_ref().map(|(bytes, _)| self.value_of(bytes));
            self.world.trace(|| format!("client {} has got {number:?} of key {key}", self.number));
            let deed = KeyDeed::Get(number);
            let mut ledger = self.world.ledger.lock();
            let at = ledger.begin(key, Deed { client: self.number, deed, begin, end: None });
            ledger.end(key, at, deed, end);
        }
    }

    /// Whether an operation that failed may have been executed.
    fn failed(&self, error: &KvError) -> Told {
        self.world.trace(|| format!("client {}: {error}", self.number));
        match error {
            KvError::Full(_) => {
                self.world.ledger.lock().counts.full += 1;
                Told::Nothing
            }
            KvError::Server(status) if status.executed() == Executed::No => Told::Nothing,
            KvError::Invalid(_) | KvError::NotAttached(..) => Told::Nothing,
            KvError::Server(_) => Told::Unknown,
            other => {
                self.world.stage.stop(format!("an operation of client {} failed: {other}", self.number));
                Told::Unknown
            }
        }
    }
}

fn expiry(term: Term) -> PutExpiry {
    match term {
        Term::Never => PutExpiry::Never,
        Term::Keep => PutExpiry::Keep,
        Term::After(ns) => PutExpiry::AfterNs(ns),
    }
}
