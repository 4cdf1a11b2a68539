//! Posting: the device takes a request, or is busy, and decides its fate.

use super::{EndId, NetEvent, SimNetwork, SimNotice, SimOp};
use crate::link::LinkBusy;

impl SimNetwork {
    /// Takes a request of an end's queue pair.
    pub(crate) fn post(&mut self, end: EndId, op: SimOp) -> Result<(), LinkBusy> {
        let faults = self.connections[end.connection].faults;
        if !self.is_up(end.connection) {
            // A request may still be taken before the device knows.
            return if self.rng.bool() { Ok(()) } else { Err(LinkBusy) };
        }
        self.check_free(end, faults.depth, faults.busy)?;
        self.trace.note(self.now_ns, &[2, end.connection as u64, op.len()], || format!("{end} posts {op}"));
        let is_unreliable = faults.unreliable_writes && matches!(op, SimOp::Write { .. });
        let is_lost = is_unreliable && self.is_unlucky(faults.loss);
        let arrival = self.latency(end) + self.now_ns;
        let spread = self.rng.u64(0..=op.len() / 8 + 50);
        let at_ns = arrival.max(self.end(end).busy_until[usize::from(is_unreliable)]);
        let until = at_ns + spread;
        let is_read = matches!(op, SimOp::Read { .. });
        let sender = self.end_mut(end);
        // The peer may still be busy with a READ while later requests are executed.
        sender.busy_until[usize::from(is_unreliable)] = if is_read { at_ns } else { until };
        sender.under_way += 1;
        self.agenda.plan(at_ns, NetEvent::Arrive { from: end, op, until, is_lost });
        Ok(())
    }

    /// Takes a datagram: it arrives once, twice or never, and may be overtaken.
    pub(crate) fn post_datagram(&mut self, end: EndId, bytes: Vec<u8>) -> Result<(), LinkBusy> {
        let faults = self.connections[end.connection].faults;
        self.check_free(end, usize::MAX, faults.busy)?;
        self.trace.note(self.now_ns, &[3, end.connection as u64, bytes.len() as u64], || {
            format!("{end} posts a datagram of {} bytes", bytes.len())
        });
        if self.is_unlucky(faults.loss) {
            return Ok(());
        }
        let copies = if self.is_unlucky(faults.double) { 2 } else { 1 };
        for _ in 0..copies {
            let late = if self.rng.u8(..32) == 0 { self.rng.u64(..2_000_000) } else { 0 };
            let at_ns = self.now_ns + self.latency(end) + late;
            let notice = SimNotice::Datagram(bytes.clone());
            self.agenda.plan(at_ns, NetEvent::Notice { to: end.peer(), notice });
        }
        Ok(())
    }

    fn check_free(&mut self, end: EndId, depth: usize, busy: f64) -> Result<(), LinkBusy> {
        if self.end(end).under_way < depth && !self.is_unlucky(busy) {
            return Ok(());
        }
        self.end_mut(end).was_refused = true;
        Err(LinkBusy)
    }

    pub(super) fn latency(&mut self, end: EndId) -> u64 {
        let (least, most) = self.connections[end.connection].faults.latency_ns;
        // Most requests are quick; some take as long as they may.
        let most = if self.rng.u8(..8) == 0 { most } else { least + (most - least) / 8 };
        self.rng.u64(least..=most)
    }
}

impl SimOp {
    fn len(&self) -> u64 {
        match self {
            SimOp::Write { bytes, .. } | SimOp::Send(bytes) => bytes.len() as u64,
            SimOp::Read { key, .. } => key.len_bytes(),
        }
    }
}
