//! A member as a value: it takes the time and the coordinator's answers, and says its next step. No clock, no thread.

mod closing;
mod watchman;

use std::sync::Arc;

use crate::config::wish::ConfigWish;
use crate::config::{ClusterConfig, ClusterMember, MemberId};
use crate::coordinator::{ClusterPicture, CoordinatorReply, CoordinatorRequest, MemberBeat, Revision};
use crate::handover::HandOverEnd;
use crate::right::ServingRight;
use crate::term::ends_ns;

use closing::ClosedShares;
use watchman::BeatWatch;

/// Beats in the time of one term.
const BEATS_PER_TERM: u64 = 5;
/// Without pictures for so many beats, others are not judged.
const LONGEST_GAP_BEATS: u64 = 2;

/// The next step of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NextStep {
    /// To send this request. [`MemberAgent::answered`] takes the answer.
    Call(CoordinatorRequest),
    /// To wait for this moment.
    WaitUntil(u64),
    /// The member has left the cluster.
    Gone,
}

/// A member of a cluster.
#[derive(Debug)]
pub(crate) struct MemberAgent {
    beat: MemberBeat,
    replicas: u8,
    form_with: usize,
    right: ServingRight,
    /// The revision of our last beat.
    beaten: Revision,
    config: Option<(Arc<ClusterConfig>, Revision)>,
    watch: BeatWatch,
    wishes: Vec<ConfigWish>,
    /// Orders of operators that are in the last request. Each comes true once.
    tried: Vec<ConfigWish>,
    /// Shares that nobody should read alone any more.
    closed: ClosedShares,
    next_beat_ns: u64,
    sent: Option<(CoordinatorRequest, u64)>,
    /// The request that the last picture has made necessary.
    planned: Option<CoordinatorRequest>,
    leaving: bool,
    gone: bool,
    /// This member keeps its data on disk.
    keeps_data: bool,
    /// Our data may lack the last changes, and the configuration does not know it yet: we have no right.
    returning: bool,
}

impl MemberAgent {
    /// A member with that first beat. It forms the cluster when `form_with` members are there.
    pub(crate) fn new(beat: MemberBeat, replicas: u8, form_with: usize) -> MemberAgent {
        let right = ServingRight::new(beat.member.id.clone());
        MemberAgent {
            beat,
            replicas,
            form_with,
            right,
            beaten: 0,
            config: None,
            watch: BeatWatch::default(),
            wishes: Vec::new(),
            tried: Vec::new(),
            closed: ClosedShares::default(),
            next_beat_ns: 0,
            sent: None,
            planned: None,
            leaving: false,
            gone: false,
            keeps_data: false,
            returning: false,
        }
    }

    /// The member has data on disk. They may lack the last changes of its life. To be called at the beginning.
    pub(crate) fn set_kept_data(&mut self, may_lack: bool) {
        (self.keeps_data, self.returning) = (true, may_lack);
    }

    /// For a planted bug: counts the term from the answer.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn count_from(&mut self, now_ns: u64) {
        self.sent.iter_mut().for_each(|(_, sent_ns)| *sent_ns = now_ns);
    }

    /// For a planted bug: believes that nobody reads closed shares.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn forget_readers(&mut self) {
        self.closed.forget();
    }

    /// Takes orders to move slots if the server carries out moves. To be called before others have the right.
    pub(crate) fn set_moves_slots(&mut self, moves_slots: bool) {
        self.right.set_moves_slots(moves_slots);
    }

    /// The right that this member keeps up to date.
    pub(crate) fn right(&self) -> &ServingRight {
        &self.right
    }

    /// The time between two beats, and the time for which an answer is awaited.
    pub(crate) fn beat_ns(&self) -> u64 {
        self.beat.term_ns / BEATS_PER_TERM
    }

    /// Adds a wish. It is carried out unless it loses its sense.
    pub(crate) fn wish(&mut self, wish: ConfigWish) {
        if !self.wishes.contains(&wish) {
            self.wishes.push(wish);
            self.wake();
        }
    }

    /// Beats soon: the configuration may have changed.
    pub(crate) fn wake(&mut self) {
        self.next_beat_ns = 0;
    }

    /// Gives up all slots at once, and then leaves.
    pub(crate) fn leave(&mut self) {
        self.leaving = true;
        self.right.end();
        self.planned = None;
        self.wake();
    }

    /// The next step. While a request is under way there is none.
    pub(crate) fn next(&mut self, now_ns: u64) -> NextStep {
        if self.gone {
            return NextStep::Gone;
        }
        let request = match self.planned.take() {
            Some(request) => request,
            None if now_ns < self.next_beat_ns => return NextStep::WaitUntil(self.next_beat_ns),
            None => {
                self.next_beat_ns = now_ns.saturating_add(self.beat_ns());
                CoordinatorRequest::Beat { beat: self.beat.clone(), expected: self.beaten }
            }
        };
        self.sent = Some((request.clone(), now_ns));
        NextStep::Call(request)
    }

    /// Takes the answer to the request of the last step, or that there is none.
    pub(crate) fn answered(&mut self, reply: Option<CoordinatorReply>, now_ns: u64) {
        let Some((request, sent_ns)) = self.sent.take() else { return };
        match (request, reply) {
            (CoordinatorRequest::Beat { .. }, Some(CoordinatorReply::Beaten(written, picture))) => {
                self.look(picture, written, sent_ns, now_ns);
            }
            (CoordinatorRequest::Replace { config, .. }, Some(CoordinatorReply::Replaced(true)))
                if self.leaving && !config.has(&self.beat.member.id) =>
            {
                self.gone = true;
            }
            (CoordinatorRequest::Replace { .. }, Some(reply)) => {
                if reply == CoordinatorReply::Replaced(false) {
                    self.tried.clear();
                } else {
                    self.returning = false;
                }
                self.wake();
            }
            // Lost: the next beat shows whether it was executed.
            _ => {}
        }
    }

    fn look(&mut self, picture: ClusterPicture, written: Option<Revision>, sent_ns: u64, now_ns: u64) {
        self.watch.look(&picture, now_ns, self.beat_ns() * LONGEST_GAP_BEATS);
        let Some(revision) = written else { return self.claim(&picture, now_ns) };
        self.beaten = revision;
        if !self.take_config(&picture) {
            return;
        }
        if let Some((config, _)) = &self.config {
            self.closed.learn(self.right.member(), config, self.right.until_ns());
        }
        // Without a configuration, or a part in it, there is nothing to come back to.
        self.returning &= self.config.as_ref().is_some_and(|(config, _)| config.has(self.right.member()));
        if !self.leaving && !self.returning {
            let config = self.config.as_ref().map(|(config, _)| Arc::clone(config));
            self.right.set(config, ends_ns(sent_ns, self.beat.term_ns));
        }
        self.planned = self.plan(&picture, now_ns);
    }

    /// The last beat was not the one that we knew of: finds the one to beat upon.
    fn claim(&mut self, picture: &ClusterPicture, now_ns: u64) {
        let id = &self.beat.member.id;
        let last = picture.beats.iter().find(|(beat, _)| beat.member.id == *id);
        match last {
            // Ours, whose answer was lost.
            Some((beat, revision)) if beat.process == self.beat.process => self.beaten = *revision,
            // Another process with our name and data. If it has ended, its terms end, too.
            Some(_) => match self.watch.silent(id, now_ns) {
                Some(revision) => self.beaten = revision,
                None => return,
            },
            // We were deposed.
            None => self.beaten = 0,
        }
        self.wake();
    }

    /// Takes the configuration of a picture. One that goes back, which no member writes, is refused.
    fn take_config(&mut self, picture: &ClusterPicture) -> bool {
        match (&picture.config, &self.config) {
            (Some((_, revision)), Some((_, known))) if revision == known => true,
            (Some((new, _)), Some((known, _))) if new.epoch <= known.epoch => false,
            (None, Some(_)) => false,
            (None, None) => true,
            (Some((new, revision)), _) => {
                // A wish that has come true, or lost its sense, must not come true again in a later configuration.
                let me = &self.beat.member.id;
                self.wishes.retain(|wish| !self.tried.contains(wish) && new.granted(wish, me).is_some());
                self.tried.clear();
                self.config = Some((Arc::new(new.clone()), *revision));
                true
            }
        }
    }

    /// The change that this picture makes necessary.
    fn plan(&mut self, picture: &ClusterPicture, now_ns: u64) -> Option<CoordinatorRequest> {
        let me = self.beat.member.id.clone();
        let known = self.config.clone();
        // Beats of strangers that are silent: somebody has to take them away.
        let beats = picture.beats.iter().map(|(beat, _)| &beat.member.id);
        let strangers = beats.filter(|id| **id != me && known.as_ref().is_none_or(|(config, _)| !config.has(id)));
        let old: Vec<_> = strangers.filter_map(|id| Some((id.clone(), self.watch.silent(id, now_ns)?))).collect();
        let replace = |config, expected, deposed: Vec<_>| {
            let deposed = deposed.into_iter().chain(old).collect();
            Some(CoordinatorRequest::Replace { config, expected, deposed })
        };
        if self.leaving {
            let next = known.and_then(|(config, revision)| Some((config.lose(&me)?, revision)));
            self.gone = next.is_none();
            return next.and_then(|(config, revision)| replace(config, revision, vec![(me, self.beaten)]));
        }
        let Some((config, revision)) = known else {
            return replace(self.formed(picture, now_ns)?, 0, Vec::new());
        };
        let others = config.members.iter().map(|member| &member.id).filter(|id| **id != me);
        if self.returning {
            return replace(self.returned(&config, now_ns)?, revision, Vec::new());
        }
        let gone = others.filter_map(|id| Some((id.clone(), self.watch.gone(id, now_ns)?))).next();
        if let Some((id, last)) = gone {
            return replace(config.lose(&id)?, revision, vec![(id, last)]);
        }
        if !config.has(&me) {
            return replace(config.join(&self.beat.member)?, revision, Vec::new());
        }
        if let Some(next) = self.grant(&config, now_ns) {
            return replace(next, revision, Vec::new());
        }
        // One member looks after those that are drained; if it is gone, the next one does.
        let is_first = config.members.first().is_some_and(|first| first.id == me);
        replace(config.draining_further().filter(|_| is_first)?, revision, Vec::new())
    }

    /// The configuration that knows that our data may lack something, when it is known who else lives.
    fn returned(&self, config: &ClusterConfig, now_ns: u64) -> Option<ClusterConfig> {
        let me = self.right.member();
        let lives = |id: &MemberId| self.watch.lives(id, now_ns);
        let is_known = |id: &MemberId| lives(id) || self.watch.gone(id, now_ns).is_some();
        let mut others = config.members.iter().map(|member| &member.id).filter(|id| *id != me);
        let is_all_known = others.all(is_known);
        let by_name = |name: &str| config.member(name).is_some_and(|member| lives(&member.id));
        is_all_known.then(|| config.returned(me, by_name))?
    }

    /// The configuration after all wishes that can come true now. Wishes that have lost their sense go.
    fn grant(&mut self, config: &ClusterConfig, now_ns: u64) -> Option<ClusterConfig> {
        let (mut next, mut kept) = (config.clone(), Vec::new());
        self.tried.clear();
        for wish in std::mem::take(&mut self.wishes) {
            let granted = next.granted(&wish, self.right.member()).filter(|_| self.may_wish(&wish));
            let Some(granted) = granted else { continue };
            if self.is_time(&wish, now_ns) {
                // All are one change.
                next = ClusterConfig { epoch: config.epoch, ..granted };
                self.tried.extend(Some(wish.clone()).filter(ConfigWish::is_order));
            }
            // A wish that comes true stays until a configuration shows it.
            kept.push(wish);
        }
        self.wishes = kept;
        (next != *config).then(|| ClusterConfig { epoch: config.epoch + 1, ..next })
    }

    /// Makes sure that this process does not serve a share whose hand-over it ends, or never releases one that it keeps.
    fn may_wish(&self, wish: &ConfigWish) -> bool {
        match wish {
            ConfigWish::TakeBack { from, since } => self.right.keep(*from, *since),
            ConfigWish::Arrive { from, since } => match self.right.hand_over(*from, *since) {
                Some(HandOverEnd::Held) => self.right.release(*from, *since),
                Some(HandOverEnd::Kept | HandOverEnd::Awaited { .. }) => false,
                _ => true,
            },
            _ => true,
        }
    }

    /// A primary hands over when nobody reads its memory alone any more.
    fn is_time(&self, wish: &ConfigWish, now_ns: u64) -> bool {
        match wish {
            ConfigWish::HandOver { from } => self.closed.are_unread(*from, now_ns, self.beat.term_ns),
            _ => true,
        }
    }

    /// The first configuration, if enough members are there.
    fn formed(&self, picture: &ClusterPicture, now_ns: u64) -> Option<ClusterConfig> {
        let here = picture.beats.iter().map(|(beat, _)| &beat.member);
        let mut here: Vec<ClusterMember> =
            here.filter(|member| self.watch.silent(&member.id, now_ns).is_none()).cloned().collect();
        here.sort_by(|a, b| a.id.cmp(&b.id));
        here.dedup_by(|a, b| a.id.name == b.id.name);
        let is_enough = !self.leaving && here.len() >= self.form_with;
        let form = || ClusterConfig { keeps_data: self.keeps_data, ..ClusterConfig::form(here, self.replicas) };
        let config = is_enough.then(form)?;
        config.check().is_ok().then_some(config)
    }
}
