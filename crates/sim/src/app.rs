//! The application of each end: takes completions, posts receives and sends, until its
//! plan is done.
//!
//! It draws its requests at random as it runs. It talks to its peer's application beside the network, at no cost: so
//! it learns keys, and the window that it may use.

mod bad;
pub(crate) mod connected;
mod datagram;
mod draft;
mod receive;
mod results;
mod windows;

use core::time::Duration;

use faults::Rng;
use transport::{QpEvent, QpState, QpType};

use crate::check::{Outcome, ensure};
use crate::end;
use crate::scenario::{Ending, RecvPolicy, Signal, Temper};
use crate::world::World;
use draft::Draft;

/// Sends posted in one turn at most.
const BURST: u64 = 8;

impl World {
    /// One turn of an application.
    pub(crate) fn application(&mut self, e: usize) -> Outcome {
        self.take_completions(e)?;
        self.take_events(e)?;
        self.post_receives(e)?;
        self.post_sends(e)
    }

    /// Takes the events that have come.
    pub(crate) fn take_events(&mut self, e: usize) -> Outcome {
        while let Some(event) = self.ends[e].mailbox.events.pop_front() {
            self.note(&[6, e as u64, event as u64], || format!("q{e} event {event:?}"));
            self.saw(format!("{event:?}"));
            self.check_event(e, event)?;
            self.ends[e].events.push(event);
            if event == QpEvent::SendQueueDrained && self.ends[e].is_alive() {
                self.ends[e].app.draining = false;
                self.step(e, end::just(QpState::Rts))?;
            }
        }
        Ok(())
    }

    /// Events are rare, and each has a reason.
    fn check_event(&self, e: usize, event: QpEvent) -> Outcome {
        const RULE: &str = "events have a reason";
        let end = &self.ends[e];
        let refused = |end: &end::End| Ending::REFUSED_BY_PEER.contains(&end.spec.ending);
        let twice = end.events.contains(&event) && event != QpEvent::SendQueueDrained;
        ensure!(RULE, !twice, "{event:?} came twice");
        let reason = match event {
            QpEvent::Fatal => false,
            QpEvent::RequestError | QpEvent::AccessError => end.spec.peer.is_some_and(|peer| refused(&self.ends[peer])),
            QpEvent::CommunicationEstablished => true,
            QpEvent::SendQueueDrained => end.app.draining,
            QpEvent::LastWqeReached => end.spec.shared_recv && !end.is_alive(),
        };
        ensure!(RULE, reason, "{event:?} in {:?}", end.qp.state());
        Ok(())
    }

    /// Keeps the receive queue filled, as the policy says.
    fn post_receives(&mut self, e: usize) -> Outcome {
        let now = self.now();
        if !self.ends[e].is_alive() || self.ends[e].qp.state() == QpState::Init {
            return Ok(());
        }
        if self.room_for_receives(e) == 0 {
            return Ok(());
        }
        if now < self.ends[e].app.recv_at {
            let at = self.ends[e].app.recv_at;
            self.wake_at(e, at);
            return Ok(());
        }
        while self.room_for_receives(e) > 0 {
            self.post_receive(e)?;
        }
        if let RecvPolicy::Late(delay) = self.ends[e].spec.recv {
            self.ends[e].app.recv_at = now + delay;
        }
        self.touched(e);
        Ok(())
    }

    fn post_sends(&mut self, e: usize) -> Outcome {
        let mut rng = self.ends[e].app.rng.clone();
        let outcome = self.post_burst(e, &mut rng);
        self.ends[e].app.rng = rng;
        outcome
    }

    fn post_burst(&mut self, e: usize, rng: &mut Rng) -> Outcome {
        if !self.may_post(e) {
            return Ok(());
        }
        for _ in 0..rng.range(1..=BURST) {
            if !self.wants_to_post(e) {
                break;
            }
            if self.room_for_sends(e) == 0 {
                return Ok(()); // a completion will wake it
            }
            let draft = self.draft(e, rng);
            self.ends[e].app.left -= 1;
            self.post(e, rng, draft)?;
            self.interlude(e)?;
        }
        if self.wants_to_post(e) {
            self.wake_soon(e);
            return Ok(());
        }
        if !self.ends[e].app.ended && self.ends[e].sends.outstanding().is_empty() {
            self.ends[e].app.ended = true;
            self.end_badly(e, rng)?;
        }
        Ok(())
    }

    fn may_post(&self, e: usize) -> bool {
        matches!(self.ends[e].qp.state(), QpState::Rts | QpState::Sqd)
    }

    /// Whether its plan goes on.
    pub(crate) fn wants_to_post(&self, e: usize) -> bool {
        let app = &self.ends[e].app;
        self.may_post(e) && app.left > 0 && app.budget_bytes > 0
    }

    fn room_for_sends(&self, e: usize) -> usize {
        let end = &self.ends[e];
        end.spec.caps.max_send_wr as usize - end.sends.outstanding().len()
    }

    /// Things that happen once, in the middle.
    fn interlude(&mut self, e: usize) -> Outcome {
        let left = self.ends[e].app.left;
        if self.ends[e].app.drain_at == Some(left) && self.ends[e].qp.state() == QpState::Rts {
            self.drain(e)?;
        }
        if self.ends[e].spec.ending == Ending::Abandon && left == self.ends[e].spec.messages / 2 {
            self.ends[e].app.ended = true;
            self.step(e, end::just(QpState::Error))?;
        }
        Ok(())
    }

    fn draft(&mut self, e: usize, rng: &mut Rng) -> Draft {
        match self.service() {
            QpType::Ud => self.draft_datagram(e, rng),
            _ => self.draft_connected(e, rng),
        }
    }

    /// A length for the next message.
    fn draw_len(&self, e: usize, rng: &mut Rng, max_bytes: u32) -> usize {
        let end = &self.ends[e];
        let most = u64::from(max_bytes).min(end.app.budget_bytes) as u32;
        end.spec.sizes.draw(rng, self.scenario.mtu.bytes(), most) as usize
    }

    /// Whether the next send work request asks for a completion.
    fn draw_signal(&self, e: usize, rng: &mut Rng, is_last: bool) -> bool {
        let end = &self.ends[e];
        let probability = match end.spec.signal {
            Signal::All | Signal::Each => 1.0,
            Signal::Some(probability) => probability,
        };
        // Without one in every full queue, the application would not learn when there is room again.
        let outstanding = end.sends.outstanding();
        let silent = outstanding.iter().rev().take_while(|posted| !posted.signaled).count();
        let fills = silent + 1 >= end.spec.caps.max_send_wr as usize;
        let drawn = rng.chance(probability);
        drawn || is_last || fills
    }

    /// The longest time for which nothing may happen to a send work request of an RC queue pair.
    pub(crate) fn patience(&self, e: usize) -> Duration {
        let spec = &self.ends[e].spec;
        let faults = &self.scenario.faults;
        let millis = Duration::from_millis;
        let timeout = wire::ack_timeout(spec.timeout).unwrap_or(millis(100)).max(spec.tuning.min_ack_timeout);
        let peer = spec.peer.map_or(spec, |peer| &self.ends[peer].spec);
        let rnr = wire::rnr_timer(peer.min_rnr_timer) * 30;
        let silence = faults.partitions.iter().map(|p| p.until.since(p.from)).max().unwrap_or_default();
        let pause = faults.pauses.iter().map(|p| p.until.since(p.from)).max().unwrap_or_default();
        let outstanding = self.ends[e].sends.outstanding().iter();
        let mtu_bytes = u64::from(self.scenario.mtu.bytes());
        let packets: u64 = outstanding.map(|posted| u64::from(posted.len_bytes) / mtu_bytes + 1).sum();
        // Each loss may cost a few milliseconds.
        let per_packet = 1 + (20.0 * faults.plan.loss) as u64;
        timeout * (u32::from(spec.retry_count) + 2) + rnr + silence + pause + millis(20 + packets * per_packet)
    }

    pub(crate) fn check_patience(&self, e: usize) -> Outcome {
        let sends = &self.ends[e].sends;
        let Some(oldest) = sends.outstanding().front() else { return Ok(()) };
        let silence = self.now().since(sends.progress());
        let unseen = !self.ends[e].mailbox.completions.is_empty();
        ensure!(
            "a request is done or fails in bounded time",
            unseen || self.service() != QpType::Rc || silence <= self.patience(e),
            "end {e}: nothing for {silence:?}, oldest: {oldest:?}"
        );
        Ok(())
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.scenario.temper == Temper::Calm
    }
}
