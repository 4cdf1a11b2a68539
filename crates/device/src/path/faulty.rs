//! Staging under injected faults.

use faults::Verdict;

use crate::clock;
use crate::engine::Engine;
use crate::objects::single::SinglePacket;
use crate::wire::route::Route;
use crate::wire::staging::Staging;

impl Engine {
    /// Stages the packet of `len_bytes` that was just written to the staging's room, if and as fault injection has it.
    ///
    /// One that meets no fault, or is doubled, is committed like any other, so that groups stay together: a lost
    /// one leaves no trace, and its successor gets its place and identification. Damaged ones travel alone, since
    /// a group goes where its first packet says.
    #[cold]
    pub(crate) fn commit_with_faults(&self, staging: &mut Staging, route: &Route, len_bytes: usize, together: bool) {
        let verdict = self.faults.judge(&self.counters);
        if verdict.drop {
            return;
        }
        let copies = 1 + usize::from(verdict.duplicate);
        if is_untouched(&verdict) {
            self.commit_copies(staging, route, len_bytes, together, copies);
        } else {
            let packet = struck(staging.take_out(route, len_bytes), &verdict);
            let leaving = self.faults.dispose(packet, copies, &verdict, clock::now(), &self.counters);
            leaving.iter().for_each(|packet| staging.push(packet));
            self.background.deadline(self.faults.earliest());
        }
    }

    fn commit_copies(&self, staging: &mut Staging, route: &Route, len_bytes: usize, together: bool, copies: usize) {
        let start = staging.bytes_staged();
        for copy in 0..copies {
            match copy {
                0 => staging.commit(route, len_bytes, together),
                _ => staging.commit_again(start, route, len_bytes, together),
            }
            self.faults.passed().iter().for_each(|packet| staging.push(packet));
        }
    }
}

/// Whether the packet leaves now and as it is.
fn is_untouched(verdict: &Verdict) -> bool {
    verdict.corrupt.is_none() && verdict.hold.is_none() && verdict.delay.is_none()
}

fn struck(mut packet: SinglePacket, verdict: &Verdict) -> SinglePacket {
    if let Some(corruption) = verdict.corrupt {
        corruption.flip(&mut packet.bytes);
    }
    packet
}
