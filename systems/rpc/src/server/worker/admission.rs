//! From a connection to a session.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use longarm::Incoming;

use super::ServerWorker;
use crate::auth::AuthenticatedPeer;
use crate::observe::{self, ServerEvent};
use crate::server::opening::{OpeningRules, OpeningSession, Step};
use crate::session::ServerSession;
use crate::verbs::VerbsLink;

/// Messages over the connection beside one for each call: those about the session, and withdrawals.
const MESSAGES: u32 = 8;
/// In ways without immediate data only long and withdrawn calls take messages: one receive buffer for so many.
const FEW: u32 = 4;

/// The messages and the datagrams of a session for which its port has receive buffers.
pub(super) fn expected_of(session: &ServerSession<VerbsLink>) -> (u32, u32) {
    let (messages, carrier) = (u32::from(session.slots()) + MESSAGES, session.carrier());
    (if carrier.takes_receives() { messages } else { messages / FEW }, carrier.credits())
}

impl ServerWorker {
    pub(super) fn accept(&mut self, incoming: Incoming) {
        let is_full = self.sessions.len() + self.opening.len() + self.connecting.len() >= self.options.max_sessions;
        if is_full || self.draining {
            let _ = incoming.reject(if is_full { b"the server is full" } else { b"the server is shutting down" });
            return;
        }
        self.connecting.push(Box::pin(incoming.accept(self.port.rc(&self.options.tuning), b"")));
    }

    pub(super) fn poll_connecting(&mut self) {
        let waker = Waker::from(Arc::clone(&self.alarm));
        let mut task = Context::from_waker(&waker);
        let mut at = 0;
        while at < self.connecting.len() {
            match self.connecting[at].as_mut().poll(&mut task) {
                Poll::Pending => at += 1,
                Poll::Ready(connected) => {
                    drop(self.connecting.swap_remove(at));
                    if let Ok(connection) = connected {
                        let opening = OpeningSession::new(connection, self.sessions.next_index());
                        self.begin_opening(opening);
                    }
                }
            }
        }
    }

    fn begin_opening(&mut self, opening: OpeningSession) {
        let qpn = opening.qpn();
        self.opening.insert(qpn, opening);
        for (_, message) in self.early.extract_if(.., |(early, _)| *early == qpn).collect::<Vec<_>>() {
            if let Some(opening) = self.opening.remove(&qpn) {
                self.open(opening, &message);
            }
        }
        if self.connecting.is_empty() {
            self.early.clear();
        }
    }

    pub(super) fn open(&mut self, opening: OpeningSession, message: &[u8]) {
        let rules = OpeningRules {
            port: &self.port,
            options: &self.options,
            demands: &self.demands,
            polled: self.sessions.polled().len(),
        };
        match opening.on_message(rules, message) {
            Step::Wait(opening) => drop(self.opening.insert(opening.qpn(), opening)),
            Step::TurnAway(opening) => {
                self.opening.insert(opening.qpn(), opening);
                self.figures.unauthenticated.fetch_add(1, Ordering::Relaxed);
                observe::count(ServerEvent::Unauthenticated, 1);
            }
            Step::Begin(index, session, peer) => self.begin(index, *session, peer),
            Step::End(index) => {
                self.sessions.free_index(index);
                self.figures.malformed.fetch_add(1, Ordering::Relaxed);
                observe::count(ServerEvent::Malformed, 1);
            }
        }
    }

    fn begin(&mut self, index: u32, mut session: ServerSession<VerbsLink>, peer: Option<Arc<AuthenticatedPeer>>) {
        if self.draining {
            session.drain();
        }
        let (messages, datagrams) = expected_of(&session);
        self.port.expect(messages, datagrams);
        self.sessions.insert(index, session, peer);
        self.figures.accepted.fetch_add(1, Ordering::Relaxed);
        observe::count(ServerEvent::Accepted, 1);
        observe::session_begins();
        self.figures.sessions.store(self.sessions.len() as u64, Ordering::Relaxed);
    }
}
