//! Messages of other threads to a polling thread.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use longarm::Incoming;

use crate::alarm::Alarm;
use crate::service::Answer;
use crate::session::CallId;

/// A session of a worker; another one that takes its place later has another generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SessionKey {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// A message to a worker.
pub(crate) enum ToWorker {
    /// Somebody wants to connect.
    Accept(Box<Incoming>),
    /// A handler is done.
    Reply(SessionKey, CallId, Answer),
    /// The request was withdrawn, or its deadline passed, before its handler began.
    Pointless(SessionKey, CallId),
    /// Refuse new requests, and end when the others are answered.
    Drain,
    /// End now.
    Stop,
}

/// The end that other threads have.
#[derive(Clone)]
pub(crate) struct WorkerInbox {
    sender: Sender<ToWorker>,
    alarm: Arc<Alarm>,
}

impl WorkerInbox {
    /// Both ends.
    pub(crate) fn new(alarm: &Arc<Alarm>) -> (WorkerInbox, Receiver<ToWorker>) {
        let (sender, receiver) = channel();
        (WorkerInbox { sender, alarm: Arc::clone(alarm) }, receiver)
    }

    /// Hands a message over. It is lost if the worker has ended.
    pub(crate) fn send(&self, message: ToWorker) {
        if self.sender.send(message).is_ok() {
            self.alarm.ring();
        }
    }
}
