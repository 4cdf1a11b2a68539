//! Hand-overs of shares, as both ends take part in them.
//!
//! ```text
//!  target                                former primary
//!   asks ── HandOverAsk ──────────────►  asked: makes no more changes, until all backups have everything
//!        ◄────────── NotYet ───────────     (after `stop_ns` it goes on serving, and tries again later)
//!        ── HandOverAsk ──────────────►  releases the share
//!   told ◄── Released { in_step } ─────
//!   serves; backups in step need no copy
//! ```

use std::collections::BTreeMap;

use cluster::{ClusterConfig, ConfigWish, HandOverEnd, MemberId, ShareMove};

use crate::sender::state::ReplicaSender;

/// The question of a target: has the former primary released the share?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandOverAsk {
    /// The first slot of the share.
    pub from: u16,
    /// The epoch in which the hand-over began.
    pub since: u64,
}

/// The answer of the former primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandOverAnswer {
    /// It still serves the share, or waits for its backups.
    NotYet,
    /// It serves the share no more.
    Released {
        /// Members that have the same data as the target.
        in_step: Vec<MemberId>,
    },
}

/// A share that this member hands over.
#[derive(Clone, Debug, Default)]
struct Leaving {
    since: u64,
    /// The moment of the first look at it.
    begun_ns: Option<u64>,
    /// It makes no changes since then.
    stopped_ns: Option<u64>,
    /// It does not stop again before.
    again_ns: u64,
    /// The members that were in step when it was released.
    in_step: Vec<MemberId>,
}

/// The hand-overs of one member, by the first slots of shares.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hands {
    leaving: BTreeMap<u16, Leaving>,
    /// The moments of the next questions.
    asks: BTreeMap<u16, u64>,
}

impl Hands {
    pub(crate) fn learn(&mut self, config: &ClusterConfig) {
        let since = |from: u16| {
            let share = config.shares.iter().find(|share| share.from == from)?;
            share.hand_over().map(|(_, since)| since)
        };
        self.leaving.retain(|from, leaving| since(*from) == Some(leaving.since));
        self.asks.retain(|from, _| since(*from).is_some());
    }

    /// True if the share makes no changes for a moment.
    pub(crate) fn is_stopped(&self, from: u16) -> bool {
        self.leaving.get(&from).is_some_and(|leaving| leaving.stopped_ns.is_some())
    }
}

impl ReplicaSender {
    /// Questions that are due now, each with the former primary that gets it.
    pub fn asks(&mut self, now_ns: u64) -> Vec<(MemberId, HandOverAsk)> {
        let Some(config) = self.roles.config().cloned() else { return Vec::new() };
        let mut due = Vec::new();
        for (from, since, end) in self.roles.hand_overs.all() {
            let at_ns = self.hands.asks.entry(from).or_default();
            let former = config.shares.iter().find(|share| share.from == from).and_then(|share| share.hand_over());
            let former = former.and_then(|(former, _)| config.member(former));
            if let (HandOverEnd::Awaited { .. }, Some(former)) = (end, former)
                && now_ns >= *at_ns
            {
                *at_ns = now_ns.saturating_add(self.options.ask_ns);
                due.push((former.id.clone(), HandOverAsk { from, since }));
            }
        }
        due
    }

    /// True while this member waits for shares that others hand over to it: [`asks`](ReplicaSender::asks) has questions, now or soon.
    pub fn awaits_shares(&self) -> bool {
        self.roles.hand_overs.all().any(|(_, _, end)| matches!(end, HandOverEnd::Awaited { .. }))
    }

    /// Answers the question of a target. The caller holds the lock of the tables. Before the answer leaves,
    /// [`ServingRight::release`](cluster::ServingRight::release) has to agree.
    pub fn asked(&mut self, target: &MemberId, ask: HandOverAsk, now_ns: u64) -> HandOverAnswer {
        let HandOverAsk { from, since } = ask;
        let share = self.roles.config().and_then(|config| {
            let share = config.shares.iter().find(|share| share.from == from)?;
            let primary = config.member(share.primary.as_deref()?)?;
            (primary.id == *target).then_some(())
        });
        let end = share.and_then(|()| self.roles.hand_overs.end(from, since));
        match end {
            Some(HandOverEnd::Released) => {}
            Some(HandOverEnd::Held) => self.stop(ask, now_ns),
            _ => return HandOverAnswer::NotYet,
        }
        let is_released = self.roles.hand_overs.end(from, since) == Some(HandOverEnd::Released);
        let leaving = self.hands.leaving.get(&from).filter(|leaving| is_released && leaving.since == since);
        leaving.map_or(HandOverAnswer::NotYet, |leaving| HandOverAnswer::Released { in_step: leaving.in_step.clone() })
    }

    /// Makes no more changes, and releases the share when all backups have everything.
    fn stop(&mut self, ask: HandOverAsk, now_ns: u64) {
        let HandOverAsk { from, since } = ask;
        if !self.roles.is_primary(from) {
            return;
        }
        let leaving = self.hands.leaving.entry(from).or_insert_with(|| Leaving { since, ..Leaving::default() });
        if now_ns < leaving.again_ns {
            return;
        }
        leaving.stopped_ns.get_or_insert(now_ns);
        self.resume_late(now_ns);
        let is_stopped = self.hands.is_stopped(from);
        if is_stopped && self.is_settled_share(from) && self.roles.hand_overs.release(from, since) {
            let carries = self.links.iter().filter(|(_, link)| link.shares.contains_key(&from));
            let in_step = carries.map(|(id, _)| id.clone()).chain([self.roles.me().clone()]).collect();
            self.links.values_mut().for_each(|link| link.remove(from));
            self.links.retain(|_, link| !link.shares.is_empty());
            self.hands.leaving.insert(from, Leaving { since, in_step, ..Leaving::default() });
            self.count_tenures();
        }
    }

    /// True if all members that have the share have everything of it.
    fn is_settled_share(&self, from: u16) -> bool {
        let mut carries = self.links.values().filter(|link| link.shares.contains_key(&from));
        carries.all(|link| link.is_in_step(from))
    }

    /// For a planted bug: believes that all members have everything of a share.
    #[cfg(test)]
    pub(crate) fn forget_unsettled(&mut self, from: u16) {
        self.links.values_mut().for_each(|link| link.forget_unsettled(from));
    }

    /// Shares that have not settled in time are served again.
    fn resume_late(&mut self, now_ns: u64) {
        let (stop_ns, pause_ns) = (self.options.stop_ns, self.options.pause_ns);
        for leaving in self.hands.leaving.values_mut() {
            if leaving.stopped_ns.is_some_and(|since_ns| now_ns.saturating_sub(since_ns) >= stop_ns) {
                (leaving.stopped_ns, leaving.again_ns) = (None, now_ns.saturating_add(pause_ns));
            }
        }
    }

    /// Takes the answer of a former primary. Returns true if this member serves the share now: then
    /// [`ServingRight::accept`](cluster::ServingRight::accept) has to hear of it.
    pub fn told(&mut self, ask: HandOverAsk, answer: &HandOverAnswer) -> bool {
        let HandOverAnswer::Released { in_step } = answer else { return false };
        let Some(HandOverEnd::Awaited { is_first }) = self.roles.hand_overs.end(ask.from, ask.since) else {
            return false;
        };
        if !self.roles.hand_overs.accept(ask.from, ask.since) {
            return false;
        }
        // An earlier process of this member may have changed something since.
        self.gain(if is_first { in_step } else { &[] });
        self.wishes.push(ConfigWish::Arrive { from: ask.from, since: ask.since });
        true
    }

    /// Wishes the next steps of moves.
    pub(super) fn move_on(&mut self, now_ns: u64) {
        self.resume_late(now_ns);
        let Some(config) = self.roles.config().cloned() else { return };
        for share in config.shares.iter().filter(|share| self.roles.is_primary(share.from)) {
            let is_closed = matches!(share.moving, Some(ShareMove::Close { .. })) && share.joining.is_empty();
            let is_whole = |link: &crate::sender::link::ReplicaLink| {
                link.shares.get(&share.from).is_none_or(|one| one.is_backup && one.cap.is_none())
            };
            if is_closed && self.links.values().all(is_whole) {
                self.wishes.push(ConfigWish::HandOver { from: share.from });
            }
        }
        let ends: Vec<_> = self.roles.hand_overs.all().collect();
        for (from, since, end) in ends {
            match end {
                HandOverEnd::Accepted | HandOverEnd::Lost => self.wishes.push(ConfigWish::Arrive { from, since }),
                HandOverEnd::Held | HandOverEnd::Kept => self.lose_patience(from, since, now_ns),
                _ => {}
            }
        }
    }

    /// Keeps a share that the target does not fetch.
    fn lose_patience(&mut self, from: u16, since: u64, now_ns: u64) {
        let leaving = self.hands.leaving.entry(from).or_insert_with(|| Leaving { since, ..Leaving::default() });
        let begun_ns = *leaving.begun_ns.get_or_insert(now_ns);
        let is_over = now_ns.saturating_sub(begun_ns) >= self.options.patience_ns;
        if is_over && self.roles.hand_overs.keep(from, since) {
            leaving.stopped_ns = None;
            self.wishes.push(ConfigWish::TakeBack { from, since });
        }
    }
}
