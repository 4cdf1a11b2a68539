//! The end of a run: without further faults, each key can be read and changed.

use std::sync::Arc;

use crate::error::KvError;
use crate::protocol::{PutExpiry, PutIf};
use crate::server::WhenFull;
use crate::sim::actor::Actor;
use crate::sim::client::open;
use crate::sim::record::{Deed, KeyDeed, Term};
use crate::sim::values;
use crate::sim::world::SimWorld;

/// Time for the other clients to end.
const LOOK_NS: u64 = 1_000_000;
/// Operations that are tried once more: a pause of a process is no fault that ends.
const ATTEMPTS: u32 = 40;

/// Reads and changes each key, after the other clients have ended.
pub(crate) fn look(world: &Arc<SimWorld>, me: &Actor) {
    while world.state.lock().clients_left > 1 {
        me.pause(LOOK_NS);
        if world.stage.stopped().is_some() {
            return;
        }
    }
    world.state.lock().is_calm = true;
    for key in 0..world.plan.keys {
        if let Err(error) = look_at(world, me, key) {
            world.stage.stop(format!("nobody is left, and key {key} cannot be used: {error}"));
        }
    }
}

fn look_at(world: &Arc<SimWorld>, me: &Actor, key: usize) -> Result<(), KvError> {
    let (name, mut last) = (values::key(key), Ok(()));
    for _ in 0..ATTEMPTS {
        let begin = world.stage.now_ns();
        let value = 1_000 + key as u64;
        let deed = Deed { client: 1, deed: KeyDeed::Put(value, Term::Never), begin, end: None };
        let number = world.ledger.lock().begin(key, deed);
        let used = open(world, 1, me).and_then(|mut table| {
            let bytes = values::bytes(value, true, &[]);
            match table.put_with(&name, &bytes, PutIf::Always, PutExpiry::Never) {
                Ok(_) => world.ledger.lock().end(key, number, deed.deed, world.stage.now_ns()),
                Err(KvError::Full(_)) if world.plan.when_full == WhenFull::Refuse => {
                    world.ledger.lock().void(key, number);
                }
                Err(error) => return Err(error),
            }
            let begin = world.stage.now_ns();
            let found = table.get(&name)?;
            let found = found.map(|found| values::number(&found.bytes).unwrap_or_default());
            let (deed, mut ledger) = (KeyDeed::Get(found), world.ledger.lock());
            let number = ledger.begin(key, Deed { client: 1, deed, begin, end: None });
            ledger.end(key, number, deed, world.stage.now_ns());
            Ok(())
        });
        match used {
            Ok(()) => return Ok(()),
            Err(error) => {
                last = Err(error);
                me.pause(LOOK_NS * 5);
            }
        }
    }
    last
}
