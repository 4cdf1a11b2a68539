//! Asking a hub about a port, whichever there is.

use super::{BindError, ManagerSession};
use crate::client::attachment::ANSWER_PATIENCE;
use crate::message::{BindRefusal, Request};
use std::time::Instant;

/// The port, or why not.
pub(super) type PortAnswer = Result<u16, BindRefusal>;

/// Whether there is an answer about a port.
enum Answer {
    Now(PortAnswer),
    /// Not before this time, or something can be read.
    Later(Option<Instant>),
}

impl ManagerSession {
    /// Asks about a port until a hub has answered. Returns the port.
    pub(super) fn ask(&mut self, token: u64, request: &Request) -> Result<u16, BindError> {
        if !self.attachment.is_ours() {
            return Err(BindError::NotRunning);
        }
        let end = Instant::now() + ANSWER_PATIENCE;
        let mut told = None;
        loop {
            if self.is_attached() && told != Some(self.hub) {
                told = Some(self.hub);
                self.tell(request);
            }
            let now = Instant::now();
            match self.answer(token, now)? {
                Answer::Now(Ok(port)) => return Ok(port),
                Answer::Now(Err(refusal)) => return Err(refusal.into()),
                Answer::Later(_) if now >= end => return Err(BindError::TimedOut),
                Answer::Later(wake) => {
                    let until = wake.map_or(end, |wake| wake.min(end));
                    self.attachment.wait(until.saturating_duration_since(now))?;
                }
            }
        }
    }

    /// Hears what there is until the answer about a port is among it.
    fn answer(&mut self, token: u64, now: Instant) -> Result<Answer, BindError> {
        while self.is_attached() {
            match self.receive() {
                Ok(Some(heard)) => match self.hear(heard) {
                    Some((about, outcome)) if about == token => return Ok(Answer::Now(outcome)),
                    _ => {}
                },
                Ok(None) => {
                    self.flush();
                    return Ok(Answer::Later(None));
                }
                Err(reason) => self.lose_hub(&reason),
            }
        }
        if !self.attachment.expects_hub() {
            return Err(BindError::NotRunning);
        }
        Ok(Answer::Later(self.seek(now)))
    }
}
