//! One session of a client, with its figures: what the client that polls one and the group that polls many share.

use std::time::Instant;

use crate::client::poll::ClientStats;
use crate::code::{Code, Executed};
use crate::frame::take_metadata;
use crate::link::SessionLink;
use crate::observe::ClientObserver;
use crate::published::PublishedSlice;
use crate::session::{Body, CallId, ClientSession, Finished, NewCall, NotStarted};
use crate::status::Status;
use crate::verbs::{PortEvent, VerbsLink};
use crate::way::Way;

/// A call that has ended.
pub(super) type Ended = Finished<<VerbsLink as SessionLink>::Bytes>;

/// A session on which both ends have agreed.
pub(super) struct CallerSession {
    session: ClientSession<VerbsLink>,
    way: Way,
    why: String,
    stats: ClientStats,
    observer: ClientObserver,
    /// The reason why the connection has ended, until the replies that came before are taken.
    ending: Option<String>,
}

impl CallerSession {
    pub(super) fn new(
        session: ClientSession<VerbsLink>,
        way: Way,
        why: String,
        observer: ClientObserver,
    ) -> CallerSession {
        CallerSession { session, way, why, stats: ClientStats::default(), observer, ending: None }
    }

    pub(super) fn way(&self) -> Way {
        self.way
    }

    pub(super) fn why(&self) -> &str {
        &self.why
    }

    pub(super) fn stats(&self) -> ClientStats {
        let losses = self.session.carrier().counters();
        ClientStats { repeated: losses.repeated, dropped: losses.dropped, ..self.stats.clone() }
    }

    pub(super) fn session(&self) -> &ClientSession<VerbsLink> {
        &self.session
    }

    pub(super) fn link(&mut self) -> &mut VerbsLink {
        self.session.link()
    }

    /// True if completions tell of replies, so that nobody need look into memory for them.
    #[inline]
    pub(super) fn wakes(&self) -> bool {
        self.session.carrier().wakes()
    }

    /// Sends a request of that method. With `more` it may wait for others.
    pub(super) fn start(
        &mut self,
        method: crate::Method,
        call: &NewCall<'_>,
        more: bool,
        now: Instant,
    ) -> Result<CallId, NotStarted> {
        self.session.link().set_more(more);
        let started = self.session.start(call, now);
        self.note_start(method, started)
    }

    /// As [`start`](CallerSession::start), for published bytes in place of the call's body.
    pub(super) fn start_published(
        &mut self,
        method: crate::Method,
        (call, body): (&NewCall<'_>, &PublishedSlice),
        more: bool,
        now: Instant,
    ) -> Result<CallId, NotStarted> {
        let Some(exposed) = self.session.link().publish(body) else {
            let mut copy = Vec::with_capacity(body.len());
            body.append_to(&mut copy);
            return self.start(method, &NewCall { body: &copy, ..*call }, more, now);
        };
        self.session.link().set_more(more);
        let started = self.session.start_exposed(call, exposed, now);
        self.note_start(method, started)
    }

    fn note_start(&mut self, method: crate::Method, started: Result<CallId, NotStarted>) -> Result<CallId, NotStarted> {
        if let Ok(id) = started {
            self.stats.started += 1;
            self.observer.begin(id, method);
        }
        started
    }

    pub(super) fn cancel(&mut self, id: CallId) {
        self.session.cancel(id);
        self.observer.end(id, Code::Cancelled);
    }

    /// The next call that has ended.
    #[inline]
    pub(super) fn next(&mut self, now: Instant) -> Option<Ended> {
        let ended = self.session.next(now).or_else(|| self.end(now))?;
        match &ended.result {
            Ok(_) => self.stats.ok += 1,
            Err(_) => self.stats.failed += 1,
        }
        self.observer.end(ended.id, ended.result.as_ref().map_or_else(Status::code, |_| Code::Ok));
        Some(ended)
    }

    /// Ends the session if its connection has ended.
    fn end(&mut self, now: Instant) -> Option<Ended> {
        let why = self.ending.take()?;
        self.session.on_down(&why);
        self.session.next(now)
    }

    /// Hands the outcome of a call to its caller, before [`next`](CallerSession::next) returns another one.
    pub(super) fn hand_over(&self, Finished { id, result }: Ended, to: impl FnOnce(CallId, Result<&[u8], Status>)) {
        let reply = match result {
            Err(status) => return to(id, Err(status)),
            Ok(reply) => reply,
        };
        let body = match &reply.body {
            Body::Short => self.session.body(),
            Body::Long(bytes) => bytes.as_ref(),
        };
        let start = take_metadata(reply.flags, body).map(|(_, start)| start);
        to(id, start.map(|start| &body[start..]).ok_or_else(malformed));
    }

    /// Looks whether the connection still stands, and returns that. If not, the session ends when its last replies are taken.
    pub(super) fn check_connection(&mut self) -> bool {
        let is_connected = self.session.link().is_connected();
        if !is_connected {
            self.ending = Some(self.session.link().end_reason());
        }
        is_connected
    }

    /// The device serves it no more. The session ends when its last replies are taken.
    pub(super) fn on_down(&mut self, why: &str) {
        self.ending = Some(why.to_string());
    }

    pub(super) fn on_datagram(&mut self, datagram: &[u8], now: Instant) {
        self.session.on_datagram(datagram, now);
    }

    /// Takes an event of one of its queue pairs; a datagram has [`on_datagram`](CallerSession::on_datagram).
    pub(super) fn on_event(&mut self, event: PortEvent) {
        match event {
            PortEvent::Imm(_, imm) => self.session.on_imm(imm),
            PortEvent::Message(_, message) => self.session.on_message(&message),
            PortEvent::Sent(completion) => {
                if let Some((tag, bytes)) = self.session.link().on_completion(completion) {
                    self.session.on_read(tag, bytes);
                }
            }
            PortEvent::Failed(_, why, completion) => {
                let _ = self.session.link().on_completion(completion);
                self.on_down(&format!("the session has ended: {why}"));
            }
            PortEvent::Datagram(_) => {}
        }
    }
}

pub(super) fn malformed() -> Status {
    Status::internal("the server sent malformed metadata").with_executed(Executed::Yes)
}
