//! Calls as futures.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::channel::state::{ChannelCore, SendOutcome, SentCall};
use crate::code::{Code, Executed};
use crate::frame::put_metadata;
use crate::message::Request;
use crate::service::{Answer, Method};
use crate::status::Status;

/// The time for which a task drives the session itself. It yields to other tasks between its looks.
const SPIN: Duration = Duration::from_micros(50);

/// A call of a [`Channel`](crate::Channel). Dropping it withdraws the call.
#[must_use = "nothing is sent until it is awaited"]
pub struct Calling {
    shared: Arc<ChannelCore>,
    method: Method,
    /// The encoded message, with its metadata if there are any, until it is sent.
    body: Bytes,
    flags: u8,
    deadline: Option<Instant>,
    refused: Option<Status>,
    sent: Option<SentCall>,
    spin_until: Option<Instant>,
}

impl Calling {
    pub(super) fn new(shared: &Arc<ChannelCore>, method: Method, request: Request<Bytes>) -> Calling {
        let (message, metadata, deadline) = request.into_parts();
        let (mut flags, mut body, mut refused) = (0, message, None);
        if !metadata.is_encodable() {
            let words = "the metadata are too long, or have a name or a value that is";
            refused = Some(Status::new(Code::InvalidArgument, words).with_executed(Executed::No));
        } else if !metadata.is_empty() {
            let mut bytes = Vec::with_capacity(2 + metadata.encoded_bytes() + body.len());
            flags = put_metadata(&metadata, &mut bytes);
            bytes.extend_from_slice(&body);
            body = bytes.into();
        }
        let shared = Arc::clone(shared);
        Calling { shared, method, body, flags, deadline, refused, sent: None, spin_until: None }
    }

    fn poll_call(&mut self, task: &mut Context<'_>) -> Poll<Answer> {
        let mut state = self.shared.state.lock();
        let sent = match self.sent {
            Some(sent) => sent,
            None => match state.send(self.method, self.flags, &self.body, self.deadline, task.waker()) {
                SendOutcome::Refused(status) => return Poll::Ready(Err(status)),
                SendOutcome::Sent(sent) => {
                    self.body = Bytes::new();
                    self.spin_until = Some(Instant::now() + SPIN);
                    *self.sent.insert(sent)
                }
                SendOutcome::Wait => {
                    state.drive();
                    if state.is_connected() {
                        self.shared.watch(&mut state);
                    } else {
                        self.shared.alarm.ring();
                    }
                    return Poll::Pending;
                }
            },
        };
        state.drive();
        if let Some(answer) = state.take_answer(sent, task.waker()) {
            self.sent = None;
            return Poll::Ready(answer);
        }
        match self.spin_until {
            Some(until) if Instant::now() < until => task.waker().wake_by_ref(),
            _ => {
                self.spin_until = None;
                self.shared.watch(&mut state);
            }
        }
        Poll::Pending
    }
}

impl Future for Calling {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Answer> {
        match self.refused.take() {
            Some(status) => Poll::Ready(Err(status)),
            None => self.poll_call(task),
        }
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        if let Some(sent) = self.sent.take() {
            let mut state = self.shared.state.lock();
            state.withdraw(sent);
            // The server's answer frees the slot.
            self.shared.watch(&mut state);
        }
    }
}

/// A channel on its way to its first session.
pub(super) struct FirstSession {
    shared: Arc<ChannelCore>,
    asked: bool,
}

impl FirstSession {
    pub(super) fn new(shared: &Arc<ChannelCore>) -> FirstSession {
        FirstSession { shared: Arc::clone(shared), asked: false }
    }
}

impl Future for FirstSession {
    type Output = Result<(), Status>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Result<(), Status>> {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.state.lock();
        if state.is_connected() {
            return Poll::Ready(Ok(()));
        }
        if let Some(status) = state.failure(Instant::now()).filter(|_| self.asked) {
            return Poll::Ready(Err(status));
        }
        self.asked = true;
        state.wait(None, task.waker());
        shared.alarm.ring();
        Poll::Pending
    }
}
