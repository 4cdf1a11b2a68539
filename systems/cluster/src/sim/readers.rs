//! Clients that read a member's memory alone: some client was told everything that a member could tell.

use crate::sim::member::SimMember;
use crate::slot::{HashSlot, SLOTS};
use crate::term::DRIFT_DIVISOR;

/// The moments until which clients read alone: for each slot that is looked at, one per machine.
#[derive(Debug, Default)]
pub(crate) struct SimReaders {
    until_ns: Vec<Vec<u64>>,
}

/// The slots that the rules look at.
pub(crate) fn watched_slots() -> impl Iterator<Item = HashSlot> {
    (0..SLOTS).step_by(usize::from(SLOTS) / 24).filter_map(HashSlot::new)
}

impl SimReaders {
    /// A client asks each member that serves. No other member may be read alone at this moment.
    pub(crate) fn check(&mut self, members: &[SimMember], now_ns: u64) -> Result<(), String> {
        self.until_ns.resize_with(watched_slots().count(), || vec![0; members.len()]);
        for (at, member) in members.iter().enumerate() {
            let Some(agent) = &member.agent else { continue };
            let shown_ns = member.clock.show(now_ns);
            for (slot, until_ns) in watched_slots().zip(&mut self.until_ns) {
                let Ok(grant) = agent.right().check_at(slot, shown_ns) else { continue };
                let other = (0..members.len()).find(|other| *other != at && until_ns[*other] > now_ns);
                if let Some(other) = other {
                    let (this, other) = (&member.name, &members[other].name);
                    return Err(format!("{this} serves slot {slot}, and clients read {other} alone"));
                }
                if grant.may_read_alone {
                    // The client's clock may be slow.
                    let left_ns = member.clock.when(grant.until_ns, now_ns) - now_ns;
                    until_ns[at] = until_ns[at].max(now_ns + left_ns + left_ns / DRIFT_DIVISOR);
                }
            }
        }
        Ok(())
    }

    /// Nobody reads a machine's memory any more.
    pub(crate) fn end(&mut self, machine: usize) {
        self.until_ns.iter_mut().for_each(|until_ns| until_ns[machine] = 0);
    }
}
