//! The state that the tasks of a channel and its driver share.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use bytes::Bytes;
use longarm::Target;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::alarm::Alarm;
use crate::client::Client;
use crate::code::Executed;
use crate::frame::take_metadata;
use crate::link::SessionLink;
use crate::message::Response;
use crate::options::ClientOptions;
use crate::service::{Answer, Method};
use crate::session::{Body, CallId, Finished, NotStarted, ReplyBody};
use crate::status::Status;
use crate::verbs::VerbsLink;
use crate::way::Way;

/// Pauses between attempts to connect, from the first to the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// Figures of a channel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChannelStats {
    /// The way of the present session; `None` if there is none.
    pub way: Option<Way>,
    /// The reason why it is that way, in words.
    pub reason: String,
    /// Sessions that were made.
    pub sessions: u64,
    /// Calls that were sent.
    pub started: u64,
    /// Calls that ended with a reply of their handler.
    pub ok: u64,
    /// Calls that ended otherwise.
    pub failed: u64,
}

/// The state and the means to wake the driver.
pub(crate) struct ChannelCore {
    pub(crate) target: Target,
    pub(crate) options: ClientOptions,
    pub(crate) alarm: Arc<Alarm>,
    pub(crate) state: Mutex<ChannelState>,
}

/// A session, and the calls that wait for it.
struct LiveSession {
    client: Client,
    generation: u32,
    /// By slot: the calls that the server has not answered.
    calls: Vec<Option<WaitingCall>>,
    /// Answers that no task has taken yet. Their slots may have other calls already.
    answers: FxHashMap<CallId, Answer>,
}

struct WaitingCall {
    id: CallId,
    waker: Waker,
}

/// A call of a channel that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SentCall {
    generation: u32,
    id: CallId,
}

/// The outcome of an attempt to send a call.
pub(crate) enum SendOutcome {
    Sent(SentCall),
    /// There is no session, or it has no room: the waker will be called.
    Wait,
    Refused(Status),
}

/// Sessions, calls, and tasks that wait.
#[derive(Default)]
pub(crate) struct ChannelState {
    /// The last takes new calls, unless it is closed. The others end when their calls are answered.
    sessions: VecDeque<LiveSession>,
    generation: u32,
    /// Tasks that wait for room or for a session, with their deadlines.
    waiting: Vec<(Option<Instant>, Waker)>,
    /// The reason why the last attempt to connect failed, and the earliest time of the next.
    failure: Option<(Status, Instant)>,
    pause: Duration,
    /// Calls have waited for longer than tasks spin: the driver watches.
    watched: bool,
    closed: bool,
    /// Figures of sessions that have gone.
    past: ChannelStats,
}

impl ChannelCore {
    pub(crate) fn new(target: Target, options: ClientOptions) -> Result<Arc<ChannelCore>, Status> {
        let alarm = Alarm::new().map_err(|error| Status::unavailable(error.to_string()))?;
        Ok(Arc::new(ChannelCore { target, options, alarm, state: Mutex::default() }))
    }

    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.alarm.ring();
    }

    pub(crate) fn stats(&self) -> ChannelStats {
        let state = self.state.lock();
        let mut stats = state.past.clone();
        for session in &state.sessions {
            stats.add(&session.client);
        }
        if let Some(session) = state.current() {
            stats.way = Some(session.client.way());
            stats.reason = session.client.reason().to_string();
        }
        stats
    }

    /// Lets the driver watch the calls: they have waited for longer than a task spins.
    pub(crate) fn watch(&self, state: &mut ChannelState) {
        if !std::mem::replace(&mut state.watched, true) {
            self.alarm.ring();
        }
    }
}

impl ChannelStats {
    fn add(&mut self, client: &Client) {
        let stats = client.stats();
        self.started += stats.started;
        self.ok += stats.ok;
        self.failed += stats.failed;
    }
}

impl ChannelState {
    fn current(&self) -> Option<&LiveSession> {
        self.sessions.back().filter(|session| session.client.closed().is_none())
    }

    /// True if the driver is to end.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// True if there is a session that takes calls.
    pub(crate) fn is_connected(&self) -> bool {
        self.current().is_some()
    }

    /// The reason why the channel is not connected, if an attempt has failed just now.
    pub(crate) fn failure(&self, now: Instant) -> Option<Status> {
        self.failure.as_ref().filter(|(_, next)| now < *next).map(|(status, _)| status.clone())
    }

    /// True if tasks wait for a session, there is none, and the pause after the last failure is over.
    pub(crate) fn wants_session(&self, now: Instant) -> bool {
        !self.waiting.is_empty() && !self.is_connected() && self.failure(now).is_none()
    }

    /// Takes a new session, or the reason why there is none.
    pub(crate) fn connected(&mut self, result: Result<Client, Status>) {
        match result {
            Ok(client) => {
                self.generation = self.generation.wrapping_add(1);
                let calls = (0..client.slots()).map(|_| None).collect();
                let answers = FxHashMap::default();
                self.sessions.push_back(LiveSession { client, generation: self.generation, calls, answers });
                (self.failure, self.pause) = (None, PAUSES.0);
                self.past.sessions += 1;
            }
            Err(status) => {
                self.pause = self.pause.clamp(PAUSES.0, PAUSES.1);
                self.failure = Some((status, Instant::now() + self.pause));
                self.pause *= 2;
            }
        }
        self.wake_waiting();
    }

    /// Lets all tasks that wait try again.
    pub(crate) fn wake_waiting(&mut self) {
        self.waiting.drain(..).for_each(|(_, waker)| waker.wake());
    }

    /// Registers a task that waits for room or for a session.
    pub(crate) fn wait(&mut self, deadline: Option<Instant>, waker: &Waker) {
        match self.waiting.iter_mut().find(|(_, other)| other.will_wake(waker)) {
            Some(place) => place.0 = [place.0, deadline].into_iter().flatten().min(),
            None => self.waiting.push((deadline, waker.clone())),
        }
    }

    /// Sends a call, if there is a session with room.
    pub(crate) fn send(
        &mut self,
        method: Method,
        flags: u8,
        body: &[u8],
        deadline: Option<Instant>,
        waker: &Waker,
    ) -> SendOutcome {
        if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            return SendOutcome::Refused(late());
        }
        if self.is_connected()
            && let Some(session) = self.sessions.back_mut()
        {
            match session.client.start_encoded(method, flags, body, deadline) {
                Ok(id) => {
                    session.calls[usize::from(id.slot)] = Some(WaitingCall { id, waker: waker.clone() });
                    return SendOutcome::Sent(SentCall { generation: session.generation, id });
                }
                Err(NotStarted::Refused(status)) => return SendOutcome::Refused(status),
                Err(NotStarted::Full) => {}
            }
        } else if let Some(status) = self.failure(Instant::now()) {
            return SendOutcome::Refused(status);
        }
        self.wait(deadline, waker);
        SendOutcome::Wait
    }

    fn session(&mut self, sent: SentCall) -> Option<&mut LiveSession> {
        self.sessions.iter_mut().find(|session| session.generation == sent.generation)
    }

    /// The answer of a call, if it has come. Otherwise the waker will be called.
    pub(crate) fn take_answer(&mut self, sent: SentCall, waker: &Waker) -> Option<Answer> {
        let session = self.session(sent);
        let gone = || Some(Err(Status::unavailable("the session has gone").with_executed(Executed::Unknown)));
        let Some(session) = session else {
            return gone();
        };
        if let Some(answer) = session.answers.remove(&sent.id) {
            return Some(answer);
        }
        match session.waiting(sent.id) {
            None => gone(),
            Some(call) => {
                call.waker.clone_from(waker);
                None
            }
        }
    }

    /// Nobody waits for a call any more.
    pub(crate) fn withdraw(&mut self, sent: SentCall) {
        if let Some(session) = self.session(sent)
            && session.answers.remove(&sent.id).is_none()
            && session.waiting(sent.id).is_some()
        {
            session.calls[usize::from(sent.id.slot)] = None;
            session.client.cancel(sent.id);
        }
    }

    /// Drives the sessions and hands answers to their tasks.
    pub(crate) fn drive(&mut self) {
        let mut ended = false;
        for session in &mut self.sessions {
            ended |= session.drive();
        }
        let past = &mut self.past;
        let last = self.generation;
        self.sessions.retain(|session| {
            let stays = session.generation == last && session.client.closed().is_none();
            let stays =
                stays || session.client.outstanding() > 0 && session.client.is_up() || !session.answers.is_empty();
            if !stays {
                past.add(&session.client);
            }
            stays
        });
        if ended {
            self.wake_waiting();
        }
    }

    /// Calls that the server has not answered.
    pub(crate) fn outstanding(&self) -> usize {
        self.sessions.iter().map(|session| session.client.outstanding()).sum()
    }

    /// True if tasks wait though a call has room: the link was busy. No answer tells when it is not any more.
    pub(crate) fn waits_for_link(&self) -> bool {
        let has_slot = |session: &LiveSession| session.client.outstanding() < usize::from(session.client.slots());
        !self.waiting.is_empty() && self.current().is_some_and(has_slot)
    }

    /// Wakes tasks whose deadline has passed while they waited for room; returns the next deadline.
    pub(crate) fn expire_waiting(&mut self, now: Instant) -> Option<Instant> {
        if self.waiting.iter().any(|(deadline, _)| deadline.is_some_and(|deadline| deadline <= now)) {
            self.wake_waiting();
        }
        self.waiting.iter().filter_map(|(deadline, _)| *deadline).min()
    }

    /// The present session's client, to be slept on.
    pub(crate) fn client(&mut self) -> Option<&mut Client> {
        self.sessions.back_mut().map(|session| &mut session.client)
    }

    /// The earliest moment at which a session has something to do by itself.
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        self.sessions.iter().filter_map(|session| session.client.next_timer()).min()
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.watched
    }

    pub(crate) fn unwatch(&mut self) {
        self.watched = false;
    }
}

impl LiveSession {
    /// The call with that number, if it has no answer yet.
    fn waiting(&mut self, id: CallId) -> Option<&mut WaitingCall> {
        self.calls.get_mut(usize::from(id.slot))?.as_mut().filter(|call| call.id == id)
    }

    /// Returns whether calls have ended.
    fn drive(&mut self) -> bool {
        let mut ended = false;
        while let Some(Finished { id, result }) = self.client.next(Duration::ZERO) {
            ended = true;
            if self.waiting(id).is_none() {
                continue;
            }
            let answer = result.and_then(|reply| self.response(reply));
            self.answers.insert(id, answer);
            self.calls[usize::from(id.slot)].take().into_iter().for_each(|call| call.waker.wake());
        }
        ended
    }

    fn response(&self, reply: ReplyBody<<VerbsLink as SessionLink>::Bytes>) -> Answer {
        let body = match reply.body {
            Body::Short => Bytes::copy_from_slice(self.client.body()),
            Body::Long(bytes) => Bytes::from_owner(bytes),
        };
        let (metadata, start) =
            take_metadata(reply.flags, &body).ok_or_else(|| Status::internal("the server sent malformed metadata"))?;
        Ok(Response::from_parts(body.slice(start..), metadata))
    }
}

/// The outcome of a call whose deadline passed before it was sent.
pub(crate) fn late() -> Status {
    Status::deadline_exceeded("the deadline passed before the request was sent").with_executed(Executed::No)
}
