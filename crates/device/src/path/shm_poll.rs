//! The shared-memory path: the work of one poll of the application.
//!
//! A poll of the lanes costs some nanoseconds, and a poll of everything a hundred times as much. So most polls of a
//! thread poll the lanes alone.

use std::sync::Arc;

use transport::Time;

use crate::clock;
use crate::objects::counters::EngineCounter;
use crate::path::shm::LanePath;
use crate::qp::services::QpServices;
use crate::qp::slots::LastQp;
use crate::shm::link::ShmLink;

/// The time between two polls of everything by an application that polls. At most this many polls of empty lanes, and
/// this many busy polls and frames, come between. (Busy polls and frames count together: a poll with large frames
/// lasts long enough for the background thread to step in, and one may take no frame at all.)
const STEP_INTERVAL_NS: u64 = 500;
const MAX_POLLS_PER_STEP: u64 = 64;
const TAKEN_PER_STEP: u32 = 64;
/// The number of polls of empty lanes after which deferred ACKs leave.
const POLLS_PER_ACK: u32 = 8;

/// The lanes as one thread saw them last, and its polls of them.
#[derive(Default)]
pub(crate) struct LaneView {
    version: u64,
    pub(crate) links: Option<Arc<[Arc<ShmLink>]>>,
    pub(crate) last: LastQp,
    /// Polls of empty lanes since the last step.
    empty_polls: u32,
    /// Busy polls and frames since the last step.
    pub(crate) taken: u32,
    /// All of them before the last step.
    polls: u32,
    /// The polls for each step that the application's pace allows; zero counts as one.
    per_step: u32,
    last_step: Time,
    /// Frames that are not counted yet.
    pub(crate) frames: u64,
}

/// The polls left until deferred ACKs leave; zero if there are none.
#[derive(Debug, Default)]
pub(crate) struct AckCountdown(u32);

impl AckCountdown {
    /// An ACK was deferred.
    #[inline]
    pub(crate) fn start(&mut self) {
        self.0 = POLLS_PER_ACK;
    }

    /// Counts a poll of empty lanes.
    #[inline]
    fn count(&mut self) -> LanePoll {
        let before = self.0;
        self.0 = before.saturating_sub(1);
        if before == 1 { LanePoll::Acks } else { LanePoll::Nothing }
    }
}

/// The polling of an application that has peers on this host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PollPace {
    pub(crate) now: Time,
    /// Polls since the last step.
    pub(crate) polls: u32,
}

/// The work of one poll of the application.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LanePoll {
    /// Nothing: the lanes are empty, and the last step was a moment ago.
    Nothing,
    /// Take the frames.
    Frames,
    /// Send the deferred ACKs.
    Acks,
    /// Look at everything.
    Everything,
}

impl LaneView {
    /// Whether there are peers on this host.
    #[inline]
    pub(crate) fn has_links(&self) -> bool {
        self.links.as_ref().is_some_and(|links| !links.is_empty())
    }

    /// Counts the frames that this thread has taken.
    pub(crate) fn count_frames(&mut self, services: &QpServices) {
        services.counters.add(EngineCounter::ShmFrames, std::mem::take(&mut self.frames));
    }

    /// Notes a step of the application. `None` if there are no peers on this host.
    pub(crate) fn pace(&mut self) -> Option<PollPace> {
        if !self.has_links() {
            return None;
        }
        let now = clock::now();
        let polls = std::mem::take(&mut self.polls).max(1);
        let took_ns = now.since(std::mem::replace(&mut self.last_step, now)).as_nanos() as u64;
        let allowed = STEP_INTERVAL_NS * u64::from(polls) / took_ns.max(1);
        self.per_step = allowed.min(MAX_POLLS_PER_STEP) as u32;
        Some(PollPace { now, polls })
    }
}

impl LanePath {
    /// The work of one poll.
    #[inline]
    pub(crate) fn poll(&self, services: &QpServices, view: &mut LaneView, acks: &mut AckCountdown) -> LanePoll {
        let Some(links) = &view.links else { return LanePoll::Everything };
        if view.version != self.links.list.version() || links.is_empty() {
            return LanePoll::Everything;
        }
        let waiting = links.iter().any(|link| link.waiting() != 0);
        view.empty_polls += u32::from(!waiting);
        view.taken += u32::from(waiting);
        if waiting && view.taken < TAKEN_PER_STEP {
            return LanePoll::Frames;
        }
        if !waiting && view.empty_polls < view.per_step {
            return acks.count();
        }
        view.polls = view.empty_polls + view.taken;
        (view.empty_polls, view.taken) = (0, 0);
        *acks = AckCountdown::default();
        view.count_frames(services);
        LanePoll::Everything
    }

    /// Brings the view up to date with the list of links. True if the list is another one.
    #[inline]
    pub(crate) fn refresh(&self, view: &mut LaneView) -> bool {
        let version = self.links.list.version();
        let is_other = view.version != version;
        if is_other {
            *view =
                LaneView { version, links: Some(self.links.list.all()), frames: view.frames, ..LaneView::default() };
        }
        is_other
    }
}
