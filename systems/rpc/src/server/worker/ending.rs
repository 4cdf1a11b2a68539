//! The end of sessions, and of the server.

use std::sync::atomic::Ordering;
use std::time::Instant;

use super::ServerWorker;
use super::admission::expected_of;
use crate::observe::{self, ServerEvent};

impl ServerWorker {
    /// Ends a session: the connection is closed and its memory freed.
    pub(super) fn close(&mut self, index: u32) {
        let Some(mut session) = self.sessions.remove(index) else {
            return;
        };
        session.link().disconnect();
        let (messages, datagrams) = expected_of(&session);
        self.port.forget(messages, datagrams);
        let (counters, carrier) = (session.counters(), session.carrier().counters());
        let figures = &self.figures;
        for (figure, event, count) in [
            (&figures.repeated, ServerEvent::Repeated, counters.repeated + carrier.repeated),
            (&figures.malformed, ServerEvent::Malformed, counters.malformed),
            (&figures.late, ServerEvent::Late, counters.late),
            (&figures.cancelled, ServerEvent::Cancelled, counters.cancelled),
            (&figures.dropped, ServerEvent::Dropped, carrier.dropped),
        ] {
            figure.fetch_add(count, Ordering::Relaxed);
            observe::count(event, count);
        }
        observe::session_ends();
        figures.sessions.store(self.sessions.len() as u64, Ordering::Relaxed);
    }

    pub(super) fn keep_house(&mut self, now: Instant) {
        for (_, opening) in self.opening.extract_if(|_, opening| opening.is_over(now)) {
            self.sessions.free_index(opening.index());
        }
        for index in self.sessions.indices() {
            if let Some((_, session)) = self.sessions.get(index) {
                if session.ended().is_none() && !session.link().is_connected() {
                    let why = session.link().end_reason();
                    session.on_down(&why);
                }
                if session.ended().is_some() || (self.draining && session.is_quiet()) {
                    self.close(index);
                } else {
                    // The session tries again to send the replies that the device refused.
                    self.sessions.make_ready(index);
                }
            }
        }
        if self.draining && self.sessions.len() == 0 && self.opening.is_empty() {
            self.stopped = true;
        }
    }

    pub(super) fn drain(&mut self) {
        self.draining = true;
        self.connecting.clear();
        for index in self.sessions.indices() {
            if let Some((_, session)) = self.sessions.get(index) {
                session.drain();
            }
            self.sessions.make_ready(index);
        }
    }
}
