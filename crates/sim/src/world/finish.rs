//! The end of a run: nothing is left to happen, so everything must add up.

use transport::{QpEvent, QpState, QpType};

use super::{Report, World};
use crate::check::{Outcome, ensure};
use crate::end;
use crate::node::SHARED_WORDS;
use crate::scenario::Temper;

const QUIET: &str = "an idle world has nothing left to do";
const TOTALS: &str = "counters add up";

impl World {
    pub(super) fn finish(&mut self) -> Outcome<Report> {
        for e in 0..self.ends.len() {
            self.check_quiet(e).map_err(|violation| violation.at(format!("end {e}, run over")))?;
        }
        let failures = self.ends.iter().filter(|end| !end.is_alive()).count();
        for e in 0..self.ends.len() {
            self.tear_down(e).map_err(|violation| violation.at(format!("end {e}, torn down")))?;
        }
        self.settle_memory()?;
        self.check_totals()?;
        self.check_calm()?;
        Ok(self.report(failures))
    }

    fn report(&self, failures: usize) -> Report {
        Report {
            hash: self.trace.hash(),
            ended: self.clock.now(),
            sends: self.ends.iter().map(|end| end.sends.done()).sum(),
            receives: self.ends.iter().map(|end| end.received).sum(),
            failures,
            fabric: *self.fabric.counters(),
            nodes: self.nodes.iter().map(|node| node.counters.clone()).collect(),
            retransmitted: self.ends.iter().map(|end| end.qp.counters().retransmitted_packets).sum(),
            seen: self.seen.clone(),
            done_at: self.ends.iter().map(|end| end.sends.progress()).collect(),
        }
    }

    fn has_crashed(&self, e: usize) -> bool {
        self.nodes[self.ends[e].spec.node].crashed
    }

    /// Nothing is outstanding that could still be done, no timer runs, nothing waits to be sent.
    fn check_quiet(&mut self, e: usize) -> Outcome {
        if self.has_crashed(e) {
            return Ok(());
        }
        let end = &self.ends[e];
        let timer = end.qp.next_timeout();
        ensure!(QUIET, timer.is_none(), "a timer runs: {timer:?}, but nobody waits for it");
        ensure!(QUIET, !end.qp.wants_transmit() && !end.qp.ack_due(), "it wants to send");
        let oldest = end.sends.outstanding().front();
        ensure!("a request is done or fails in bounded time", oldest.is_none(), "still outstanding: {oldest:?}");
        ensure!("a drained queue is reported", !end.app.draining || !end.is_alive(), "SQD without its event");
        if self.scenario.temper != Temper::Fatal {
            let failure = end.qp.failure();
            ensure!("patience outlasts the storm", failure.is_none(), "it died: {failure:?}");
            ensure!("the plan is carried out", !self.wants_to_post(e), "{} requests to go", end.app.left);
        }
        if let (QpType::Rc, Some(peer), true) = (self.service(), end.spec.peer, end.is_alive())
            && self.ends[peer].is_alive()
            && !self.has_crashed(peer)
        {
            let (heard, sent) = (end.heard, self.ends[peer].log.len());
            ensure!("every message arrives", heard == sent, "{heard} of {sent} messages arrived");
        }
        Ok(())
    }

    /// To the error state: everything is flushed, once; then to Reset, which leaves nothing.
    fn tear_down(&mut self, e: usize) -> Outcome {
        if self.has_crashed(e) {
            return Ok(());
        }
        if self.ends[e].is_alive() {
            self.step(e, end::just(QpState::Error))?;
        }
        self.take_completions(e)?;
        self.take_events(e)?;
        let end = &self.ends[e];
        let told = end.events.contains(&QpEvent::LastWqeReached);
        ensure!("the end of a shared queue is told", told == end.spec.shared_recv, "events: {:?}", end.events);
        let (sends, taken) = (end.sends.outstanding().len(), end.mailbox.taken.len());
        let receives = end.recvs.outstanding().len();
        let rule = "the error state flushes everything exactly once";
        ensure!(rule, (sends, receives, taken) == (0, 0, 0), "left: {sends} sends, {receives} receives, {taken} taken");
        ensure!(QUIET, end.qp.next_timeout().is_none() && !end.qp.wants_transmit(), "in the error state");
        self.step(e, end::just(QpState::Reset))?;
        let end = &self.ends[e];
        let silent = end.mailbox.completions.is_empty();
        ensure!(rule, silent, "Reset completed something: {:?}", end.mailbox.completions);
        ensure!(QUIET, end.qp.next_timeout().is_none() && !end.qp.wants_transmit(), "after Reset");
        Ok(())
    }

    fn settle_memory(&mut self) -> Outcome {
        for e in 0..self.ends.len() {
            self.settle_exposed(e).map_err(|violation| violation.at(format!("what end {e} wrote")))?;
        }
        for e in 0..self.ends.len() {
            let crashed = self.has_crashed(e);
            let end = &self.ends[e];
            let place = |violation: crate::check::Violation| violation.at(format!("memory of end {e}"));
            end.source.check_all().map_err(place)?;
            end.exposed.check_all().map_err(place)?;
            if !crashed {
                end.landing.check_all().map_err(place)?;
            }
        }
        for number in 0..self.nodes.len() {
            self.settle_node(number).map_err(|violation| violation.at(format!("memory of node {number}")))?;
        }
        Ok(())
    }

    fn settle_exposed(&mut self, e: usize) -> Outcome {
        let Some(peer) = self.ends[e].spec.peer else { return Ok(()) };
        let mtu_bytes = self.scenario.mtu.bytes() as usize;
        let all = self.is_calm();
        let mut remote = core::mem::take(&mut self.ends[e].remote);
        let writes = core::mem::take(&mut self.ends[e].writes);
        let area = &mut self.ends[peer].exposed;
        match self.scenario.service {
            QpType::Rc => remote.settle(mtu_bytes, area),
            _ => writes.settle(mtu_bytes, all, area),
        }
    }

    fn settle_node(&mut self, number: usize) -> Outcome {
        let node = &mut self.nodes[number];
        let commons = &mut node.commons;
        commons.read_only.check_all()?;
        commons.write_only.check_all()?;
        commons.foreign.check_all()?;
        let words = commons.words.actual(0..commons.words.len());
        let word = |i: usize| u64::from_ne_bytes(*words[8 * i..].first_chunk().expect("a word"));
        for (i, counter) in commons.counters.iter_mut().enumerate() {
            counter.settle(word(i)).map_err(|violation| violation.at(format!("counter {i}")))?;
        }
        for (i, chain) in commons.chains.iter().enumerate() {
            chain.settle(word(SHARED_WORDS + i)).map_err(|violation| violation.at(format!("chain {i}")))?;
        }
        commons.words.accept(0..2 * SHARED_WORDS * 8);
        commons.words.check_all()?;
        match &node.srq {
            Some(srq) if !node.crashed => srq.area.check_all(),
            _ => Ok(()),
        }
    }

    /// Every packet is somewhere: sent is lost or arrived, arrived is dropped for a reason or taken.
    fn check_totals(&self) -> Outcome {
        let fabric = self.fabric.counters();
        let (made, gone) = (fabric.sent + fabric.duplicated, fabric.lost + fabric.partitioned + fabric.arrived);
        ensure!(TOTALS, self.fabric.is_empty() && made == gone, "packets are missing: {fabric:?}");
        let built: u64 = self.ends.iter().map(|end| end.qp.counters().tx_packets).sum();
        ensure!(TOTALS, built == self.transmitted, "queue pairs counted {built} packets, sent {}", self.transmitted);
        for (number, node) in self.nodes.iter().enumerate() {
            let counters = &node.counters;
            let came = counters.arrived + counters.copies;
            ensure!(TOTALS, came == counters.accounted(), "node {number}: {counters:?}");
            let taken: u64 = node.ends.iter().map(|e| self.ends[*e].qp.counters().rx_packets).sum();
            ensure!(TOTALS, taken == counters.accepted, "node {number}: queue pairs counted {taken}: {counters:?}");
        }
        let arrived: u64 = self.nodes.iter().map(|node| node.counters.arrived).sum();
        ensure!(TOTALS, arrived == fabric.arrived, "nodes saw {arrived} packets: {fabric:?}");
        Ok(())
    }

    /// In a run without faults, nothing is lost, refused or sent twice.
    fn check_calm(&self) -> Outcome {
        if !self.is_calm() {
            return Ok(());
        }
        const RULE: &str = "where nothing goes wrong nothing is repeated";
        for (e, end) in self.ends.iter().enumerate() {
            let c = end.qp.counters();
            let repeats = c.retransmitted_packets + c.ack_timeouts + c.probes + c.duplicate_requests;
            let refusals = c.tx_sequence_naks + c.tx_rnr_naks + c.tx_error_naks + c.out_of_sequence_requests;
            ensure!(RULE, repeats + refusals + c.messages_dropped == 0, "end {e}: {c:?}");
        }
        for (number, node) in self.nodes.iter().enumerate() {
            let c = &node.counters;
            ensure!(RULE, c.accepted == c.arrived + c.copies - c.no_qp, "node {number}: {c:?}");
        }
        let expected: usize = self.ends.iter().flat_map(|end| &end.log).map(|m| self.receivers_of(m.only)).sum();
        let received: u64 = self.ends.iter().map(|end| end.received).sum();
        ensure!(RULE, received == expected as u64, "{received} messages of {expected} arrived");
        Ok(())
    }

    fn receivers_of(&self, only: Option<usize>) -> usize {
        match (self.service(), only) {
            (QpType::Ud, None) => self.ends.iter().filter(|end| end.spec.in_group).count(),
            _ => 1,
        }
    }
}
