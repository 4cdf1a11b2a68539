//! From a request to its handler, and from the handler to the reply.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;

use crate::code::{Code, Executed};
use crate::frame::{put_metadata, take_metadata};
use crate::message::Request;
use crate::observe::{ObservedAnswer, ServerObserver};
use crate::server::executor::Executors;
use crate::server::inbox::{SessionKey, ToWorker, WorkerInbox};
use crate::server::sessions::PeerRef;
use crate::server::waiting::{NobodyWaits, WaitingRequest};
use crate::service::Method;
use crate::service::{Answer, BoxFuture, DirectHandler, FutureHandler, Handler, PublishedHandler, Router, RunOn};
use crate::session::{Arrived, Body, CallId, ServerSession};
use crate::status::Status;
use crate::verbs::VerbsLink;

type Session = ServerSession<VerbsLink>;
type SessionRequest = Arrived<<VerbsLink as crate::link::SessionLink>::Bytes>;

/// The parts of a worker that handlers need.
pub(crate) struct Serving {
    pub(crate) router: Arc<Router>,
    pub(crate) executors: Executors,
    pub(crate) inbox: WorkerInbox,
    /// The reply of a short handler, before it is sent.
    pub(crate) reply: Vec<u8>,
    pub(crate) observer: ServerObserver,
    /// Handlers that other threads run now.
    pub(crate) elsewhere: usize,
}

impl Serving {
    /// Runs the handler of a request, or refuses. The second moment is the one by which the deadline is judged.
    pub(crate) fn serve(
        &mut self,
        from: (SessionKey, PeerRef<'_>),
        session: &mut Session,
        request: SessionRequest,
        (now, late): (Instant, Instant),
    ) {
        let (id, deadline) = (request.id, request.deadline);
        if session.is_pointless(id, deadline, late) {
            return;
        }
        match self.router.find(request.method) {
            None => session.refuse(id, Code::Unimplemented, "the server has no such method", now),
            Some((method, Handler::Direct(handler))) => {
                let handler = Arc::clone(handler);
                self.run_direct(session, (method, &*handler), request, now);
            }
            Some((method, Handler::Published(handler))) => {
                let handler = Arc::clone(handler);
                self.run_published(session, (method, &*handler), request, now);
            }
            Some((method, Handler::Future(run_on, handler))) => {
                let (run_on, handler) = (*run_on, Arc::clone(handler));
                self.run_future(from, session, run_on, (method, &handler), request, (now, late));
            }
        }
    }

    fn run_direct(
        &mut self,
        session: &mut Session,
        (method, handler): (Method, &DirectHandler),
        request: SessionRequest,
        now: Instant,
    ) {
        let id = request.id;
        match self.run_here(session, method, request, handler) {
            Ok(()) => session.reply(id, (Code::Ok, Executed::Yes), 0, &self.reply, now),
            Err(status) => reply_error(session, id, &status, now),
        }
    }

    fn run_published(
        &mut self,
        session: &mut Session,
        (method, handler): (Method, &PublishedHandler),
        request: SessionRequest,
        now: Instant,
    ) {
        let id = request.id;
        let slice = match self.run_here(session, method, request, |body, _| handler(body)) {
            Ok(slice) => slice,
            Err(status) => return reply_error(session, id, &status, now),
        };
        if let Some(exposed) = session.link().publish(&slice) {
            return session.reply_exposed(id, exposed, now);
        }
        slice.append_to(&mut self.reply);
        session.reply(id, (Code::Ok, Executed::Yes), 0, &self.reply, now);
    }

    /// Runs a short handler on this thread, with the place for its reply.
    fn run_here<R>(
        &mut self,
        session: &mut Session,
        method: Method,
        request: SessionRequest,
        handler: impl FnOnce(&[u8], &mut Vec<u8>) -> Result<R, Status>,
    ) -> Result<R, Status> {
        let short = session.take_body();
        let body = match &request.body {
            Body::Short => &short[..],
            Body::Long(bytes) => bytes.as_ref(),
        };
        self.reply.clear();
        let reply = &mut self.reply;
        let done = match take_metadata(request.flags, body) {
            None => Err(malformed()),
            Some((metadata, start)) => {
                let call = self.observer.begin(method, &metadata);
                let run = || catch_unwind(AssertUnwindSafe(|| handler(&body[start..], reply)));
                let done = call.within(run).unwrap_or_else(|_| Err(panicked()));
                call.end(code_of(&done));
                done
            }
        };
        session.put_body(short);
        done
    }

    fn run_future(
        &mut self,
        (key, peer): (SessionKey, PeerRef<'_>),
        session: &mut Session,
        run_on: RunOn,
        (method, handler): (Method, &Arc<FutureHandler>),
        request: SessionRequest,
        (now, late): (Instant, Instant),
    ) {
        let Arrived { id, flags, deadline, body, .. } = request;
        let body = match body {
            Body::Short => {
                let short = session.take_body();
                let copy = Bytes::copy_from_slice(&short);
                session.put_body(short);
                copy
            }
            Body::Long(bytes) => Bytes::from_owner(bytes),
        };
        let Some((metadata, start)) = take_metadata(flags, &body) else {
            return reply_error(session, id, &malformed(), now);
        };
        let call = self.observer.begin(method, &metadata);
        let mut request = Request::from_parts(body.slice(start..), metadata, deadline);
        request.set_peer(peer.cloned());
        if run_on != RunOn::Poller {
            let withdrawn = session.withdrawn(id.slot);
            // The time that is left runs on from now, whenever the request has arrived.
            let deadline = deadline.map(|deadline| Instant::now() + deadline.saturating_duration_since(late));
            let waiting = WaitingRequest { id, handler: Arc::clone(handler), request, call, withdrawn, deadline };
            let report = self.report(key, id, false);
            return self.executors.run(run_on, report.of_waiting(waiting));
        }
        let made = call.within(|| catch_unwind(AssertUnwindSafe(|| handler(request))));
        let Ok(future) = made else {
            call.end(Code::Internal);
            return reply_error(session, id, &panicked(), now);
        };
        let mut future = ObservedAnswer::of(future, call);
        let first = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut Context::from_waker(Waker::noop()))));
        match first {
            Ok(Poll::Pending) => {
                let report = self.report(key, id, true);
                self.executors.run(run_on, report.of_begun(future));
            }
            Ok(Poll::Ready(answer)) => self.reply_answer(session, id, answer, now),
            Err(_) => reply_error(session, id, &panicked(), now),
        }
    }

    /// From now on another thread has the handler. It tells its outcome once.
    fn report(&mut self, key: SessionKey, id: CallId, has_begun: bool) -> OutcomeReport {
        self.elsewhere += 1;
        OutcomeReport { key, id, inbox: Some(self.inbox.clone()), has_begun }
    }

    /// Sends the outcome of a handler.
    pub(crate) fn reply_answer(&mut self, session: &mut Session, id: CallId, answer: Answer, now: Instant) {
        let response = match answer {
            Ok(response) => response,
            Err(status) => return reply_error(session, id, &status, now),
        };
        let (message, metadata) = response.into_parts();
        if metadata.is_empty() {
            return session.reply(id, (Code::Ok, Executed::Yes), 0, &message, now);
        }
        if !metadata.is_encodable() {
            return reply_error(session, id, &Status::internal("the handler's metadata are too long"), now);
        }
        self.reply.clear();
        let flags = put_metadata(&metadata, &mut self.reply);
        self.reply.extend_from_slice(&message);
        session.reply(id, (Code::Ok, Executed::Yes), flags, &self.reply, now);
    }
}

/// Tells the worker the outcome of a handler that runs elsewhere, also if that panics or is dropped.
struct OutcomeReport {
    key: SessionKey,
    id: CallId,
    inbox: Option<WorkerInbox>,
    has_begun: bool,
}

impl OutcomeReport {
    /// Of a handler that has not begun.
    fn of_waiting(mut self, waiting: WaitingRequest) -> BoxFuture<()> {
        Box::pin(async move {
            self.has_begun = true;
            match waiting.begin(Instant::now()) {
                Ok(handler) => self.tell(ToWorker::Reply(self.key, self.id, handler.await)),
                Err(NobodyWaits) => self.tell(ToWorker::Pointless(self.key, self.id)),
            }
        })
    }

    /// Of a handler that has begun.
    fn of_begun(mut self, handler: BoxFuture<Answer>) -> BoxFuture<()> {
        Box::pin(async move { self.tell(ToWorker::Reply(self.key, self.id, handler.await)) })
    }

    fn tell(&mut self, outcome: ToWorker) {
        if let Some(inbox) = self.inbox.take() {
            inbox.send(outcome);
        }
    }
}

impl Drop for OutcomeReport {
    fn drop(&mut self) {
        let executed = if self.has_begun { Executed::Yes } else { Executed::No };
        self.tell(ToWorker::Reply(self.key, self.id, Err(panicked().with_executed(executed))));
    }
}

fn reply_error(session: &mut Session, id: CallId, status: &Status, now: Instant) {
    let outcome = (not_ok(status.code()), status.executed());
    let Some(metadata) = status.metadata().filter(|metadata| metadata.is_encodable()) else {
        return session.reply(id, outcome, 0, status.message().as_bytes(), now);
    };
    let mut body = Vec::new();
    let flags = put_metadata(metadata, &mut body);
    body.extend_from_slice(status.message().as_bytes());
    session.reply(id, outcome, flags, &body, now);
}

/// The code of an outcome.
pub(crate) fn code_of<T>(outcome: &Result<T, Status>) -> Code {
    outcome.as_ref().map_or_else(|status| not_ok(status.code()), |_| Code::Ok)
}

/// An error with the code of success would look like a reply.
fn not_ok(code: Code) -> Code {
    if code == Code::Ok { Code::Unknown } else { code }
}

fn malformed() -> Status {
    Status::invalid_argument("malformed metadata").with_executed(Executed::No)
}

fn panicked() -> Status {
    Status::internal("the handler ended without an answer")
}
