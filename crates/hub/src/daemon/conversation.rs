//! Hearing a client, and telling it things.

use super::error::HubError;
use super::server::{Answer, Server};
use super::watch::Source;
use crate::channel::{self, MAX_DESCRIPTORS, ReceiveError};
use crate::mad::Frame;
use crate::message::{ErrorCode, Reply};
use std::os::fd::AsFd;

/// Frames of one client taken before the others get a turn.
const MAX_FRAMES: usize = 64;

impl Server {
    /// Sends what is to be sent to a client, then reads one request and answers it, or several
    /// frames. No more, so that everybody gets a turn.
    pub(super) fn converse(&mut self, id: u64) -> Result<(), HubError> {
        for _ in 0..MAX_FRAMES {
            if !self.hear_one(id)? {
                break;
            }
        }
        Ok(())
    }

    /// Returns whether it was a frame.
    fn hear_one(&mut self, id: u64) -> Result<bool, HubError> {
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(false) };
        if connection.has_outgoing() {
            self.flush(id);
            return Ok(false);
        }
        match channel::receive(connection.as_fd(), MAX_DESCRIPTORS) {
            Ok(parcel) => {
                let was_frame = Frame::is_frame(&parcel.bytes);
                let answer = self.answer(id, parcel)?;
                self.give(id, answer);
                return Ok(was_frame);
            }
            Err(ReceiveError::Nothing) => {}
            Err(ReceiveError::Closed) => self.drop_connection(id, "it closed the connection"),
            Err(error @ (ReceiveError::TooLong | ReceiveError::TooManyDescriptors)) => {
                self.counters.malformed += 1;
                self.give(id, Answer::Last(Reply::error(ErrorCode::Malformed, error)));
            }
            Err(error @ ReceiveError::NoDescriptorsLeft) => {
                log::warn!("{error}");
                self.give(id, Answer::Last(Reply::error(ErrorCode::System, format!("the hub: {error}"))));
            }
            Err(ReceiveError::System(error)) => self.drop_connection(id, &error.to_string()),
        }
        Ok(false)
    }

    /// Gives a client its answer.
    pub(super) fn give(&mut self, id: u64, answer: Answer) {
        let (reply, descriptors, last) = match answer {
            Answer::Say(reply, descriptors) => (reply, descriptors, false),
            Answer::Last(reply) => (reply, Vec::new(), true),
            Answer::Later => return,
        };
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if let Err(error) = connection.say(&reply, descriptors) {
            let reply = Reply::error(ErrorCode::System, format!("the hub cannot make its answer: {error}"));
            if connection.say(&reply, Vec::new()).is_err() {
                return self.drop_connection(id, &error.to_string());
            }
        }
        self.flush(id);
        if last {
            self.drop_connection(id, "it was not understood or not wanted");
        }
    }

    /// Sends what can be sent, the news of the devices last, and watches for room for the rest.
    pub(super) fn flush(&mut self, id: u64) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if std::mem::take(&mut connection.devices_due) {
            let devices = self.devices.list().to_vec();
            if let Err(error) = connection.say(&Reply::DevicesChanged { devices }, Vec::new()) {
                log::warn!("cannot tell process {} of the devices: {error}", connection.pid);
            }
        }
        let sent = connection.flush();
        let output = connection.has_outgoing();
        let watched = match sent {
            Ok(()) if output == connection.awaits_room => Ok(()),
            Ok(()) => self.watch.change(&*connection, Source::Connection(id), output),
            Err(error) => Err(error),
        };
        connection.awaits_room = output;
        if let Err(error) = watched {
            self.drop_connection(id, &error.to_string());
        }
    }
}
