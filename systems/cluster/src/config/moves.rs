//! Shares that move to another member: cuts, stages, ends. Pure.
//!
//! ```text
//!  (none) ── Move ──► Copy ── Admit ──► Close ── HandOver ──► HandOver ── Arrive ──► (none), another primary
//!                      ▲────── Demote ────┘                      └────── TakeBack ──► (none), the old primary
//! ```
//! A target that is a backup already begins with `Close`.

use serde::{Deserialize, Serialize};

use crate::config::{ClusterConfig, MemberId, SlotShare};

/// The stage of a share on its way to another member, the target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShareMove {
    /// The target fetches the data; it is among those that join.
    Copy {
        /// The target.
        to: String,
    },
    /// The target is a backup. Nobody reads the primary's memory alone any more; it serves by requests.
    Close {
        /// The target.
        to: String,
    },
    /// The target is the primary now. The former one serves until it has released the share to the target.
    HandOver {
        /// The former primary, which has all data until the end of the move.
        former: String,
        /// The epoch in which this stage began.
        since: u64,
    },
}

/// Slots in a row that should move to another member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotMove {
    /// The first slot.
    pub from: u16,
    /// The last slot.
    pub to: u16,
    /// The member that should serve them.
    pub target: String,
}

impl ShareMove {
    /// The name of the target before the hand-over.
    pub(crate) fn target(&self) -> Option<&String> {
        match self {
            ShareMove::Copy { to } | ShareMove::Close { to } => Some(to),
            ShareMove::HandOver { .. } => None,
        }
    }
}

impl SlotShare {
    /// The former primary and the epoch of the stage, while the share is handed over.
    pub fn hand_over(&self) -> Option<(&str, u64)> {
        match &self.moving {
            Some(ShareMove::HandOver { former, since }) => Some((former, *since)),
            _ => None,
        }
    }

    /// True if clients may read the primary's memory alone under this configuration. Not so shortly before another member serves.
    pub fn may_be_read_alone(&self) -> bool {
        !matches!(self.moving, Some(ShareMove::Close { .. } | ShareMove::HandOver { .. }))
    }

    /// The member that serves the share when its move is done.
    pub(crate) fn heir(&self) -> Option<&String> {
        self.moving.as_ref().and_then(ShareMove::target).or(self.primary.as_ref())
    }

    /// True if a move may begin.
    pub(crate) fn can_move(&self) -> bool {
        self.primary.is_some() && self.moving.is_none()
    }

    /// Begins a move.
    fn set_out(&mut self, target: &str) {
        let to = target.to_owned();
        if self.backups.contains(&to) {
            self.moving = Some(ShareMove::Close { to });
            return;
        }
        if !self.joining.contains(&to) {
            self.joining.push(to.clone());
        }
        self.moving = Some(ShareMove::Copy { to });
    }
}

impl ClusterConfig {
    /// With shares cut so that these slots move. Slots that cannot move now stay: those that nobody serves, that move already, or
    /// that the target serves. `None` if all stay.
    pub(crate) fn with_moves(&self, moves: &[SlotMove]) -> Option<ClusterConfig> {
        let mut next = self.successor();
        moves.iter().for_each(|one| next.begin_move(one));
        (next.shares != self.shares).then_some(next)
    }

    fn begin_move(&mut self, one: &SlotMove) {
        let is_active = self.member(&one.target).is_some() && !self.is_draining(&one.target);
        if !is_active || one.from > one.to {
            return;
        }
        let mut shares = Vec::new();
        for share in self.shares.drain(..) {
            let (from, to) = (share.from.max(one.from), share.to.min(one.to));
            if from > to || !share.can_move() || share.primary.as_ref() == Some(&one.target) {
                shares.push(share);
                continue;
            }
            let [before, mut middle, behind] = cut(&share, from, to);
            middle.iter_mut().for_each(|middle| middle.set_out(&one.target));
            shares.extend([before, middle, behind].into_iter().flatten());
        }
        self.shares = shares;
    }

    /// The primary hands the share over, and serves until it has released it.
    pub(super) fn handing_over(&self, from: u16, primary: &MemberId) -> Option<ClusterConfig> {
        let mut next = self.has(primary).then(|| self.successor())?;
        let since = next.epoch;
        let share = next.shares.iter_mut().find(|share| share.from == from)?;
        let Some(ShareMove::Close { to }) = share.moving.clone() else { return None };
        if share.primary.as_ref() != Some(&primary.name) || !share.joining.is_empty() {
            return None;
        }
        share.backups.retain(|name| *name != to);
        share.primary = Some(to);
        share.moving = Some(ShareMove::HandOver { former: primary.name.clone(), since });
        Some(next)
    }

    /// The end of a hand-over: the target has the share. The former primary stays as a backup if there are too few.
    pub(super) fn arrived(&self, from: u16, since: u64, who: &MemberId) -> Option<ClusterConfig> {
        let mut next = self.has(who).then(|| self.successor())?;
        let (replicas, share) = (usize::from(next.replicas), next.handed(from, since)?);
        let former = share.hand_over()?.0.to_owned();
        if who.name != former && share.primary.as_ref() != Some(&who.name) {
            return None;
        }
        share.moving = None;
        if share.backups.len() < replicas {
            share.backups.insert(0, former);
        }
        next.settle_down(from);
        Some(next)
    }

    /// The end of a hand-over without a change: the former primary, which has not released the share, keeps it.
    pub(super) fn taken_back(&self, from: u16, since: u64, who: &MemberId) -> Option<ClusterConfig> {
        let mut next = self.has(who).then(|| self.successor())?;
        let (replicas, share) = (usize::from(next.replicas), next.handed(from, since)?);
        if share.hand_over()?.0 != who.name {
            return None;
        }
        let target = share.primary.replace(who.name.clone());
        share.moving = None;
        share.backups.extend(target.filter(|_| share.backups.len() < replicas));
        next.settle_down(from);
        Some(next)
    }

    fn handed(&mut self, from: u16, since: u64) -> Option<&mut SlotShare> {
        let share = self.shares.iter_mut().find(|share| share.from == from)?;
        share.hand_over().is_some_and(|(_, began)| began == since).then_some(share)
    }

    /// After a move: backups as they should be, and one share where there were several.
    fn settle_down(&mut self, from: u16) {
        self.recruit();
        self.trim();
        self.merge_around(from);
    }

    /// Ends the move of a share that the end of a member has made senseless. Returns whether there was one.
    pub(super) fn cancel_move(&mut self, at: usize, gone: &str) -> bool {
        let share = &mut self.shares[at];
        let is_primary = share.primary.as_deref() == Some(gone);
        match share.moving.clone() {
            // The target's copy goes with it. If it is the primary that goes, the next one is a backup.
            Some(ShareMove::Copy { to } | ShareMove::Close { to }) if to == gone || is_primary => {}
            // The term of the former primary is over: the target serves, as it would have when released.
            Some(ShareMove::HandOver { former, .. }) if former == gone => {}
            // The target's term is over. All that it has answered is with the former primary, too.
            Some(ShareMove::HandOver { former, .. }) if is_primary => share.primary = Some(former),
            _ => return false,
        }
        share.moving = None;
        true
    }

    /// Joins a share with its neighbours if they have the same members, and nothing is under way.
    pub(super) fn merge_around(&mut self, from: u16) {
        let Some(at) = self.shares.iter().position(|share| share.from == from) else { return };
        for at in [at, at.wrapping_sub(1)] {
            let [first, second] = self.shares.get(at..).and_then(|rest| rest.get(..2)).unwrap_or_default() else {
                continue;
            };
            if are_alike(first, second) {
                self.shares[at].to = second.to;
                self.shares.remove(at + 1);
            }
        }
    }
}

fn are_alike(first: &SlotShare, second: &SlotShare) -> bool {
    let rests = |share: &SlotShare| share.can_move() && share.joining.is_empty();
    rests(first) && rests(second) && first.primary == second.primary && first.backups == second.backups
}

/// The parts of a share before, from and behind these slots.
fn cut(share: &SlotShare, from: u16, to: u16) -> [Option<SlotShare>; 3] {
    let part = |from: u16, to: u16| SlotShare { from, to, ..share.clone() };
    [
        (share.from < from).then(|| part(share.from, from - 1)),
        Some(part(from, to)),
        (to < share.to).then(|| part(to + 1, share.to)),
    ]
}
