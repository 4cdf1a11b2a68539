//! What the hub says, and another one after it.

use super::asking::PortAnswer;
use super::{ManagerEvent, ManagerSession};
use crate::channel::{ReceiveError, ReceivedMessage};
use crate::client::AttachError;
use crate::client::approach::Answered;
use crate::mad::{Frame, MadPacket};
use crate::message::{Reply, Request};
use crate::record::DeviceRecord;
use std::time::Instant;

/// A message of the hub.
pub(super) enum Heard {
    Mad(MadPacket),
    Undelivered(u32, MadPacket),
    Reply(Reply),
}

impl ManagerSession {
    /// The next message of the hub, if there is one.
    pub(super) fn receive(&self) -> Result<Option<Heard>, String> {
        let Some(ReceivedMessage { bytes, mut descriptors, is_cut, .. }) = self.attachment.receive()? else {
            return Ok(None);
        };
        if is_cut {
            return Err(ReceiveError::NoDescriptorsLeft.to_string());
        }
        if !Frame::is_frame(&bytes) {
            let reply = Reply::decode(&bytes, &mut descriptors).map_err(|error| error.to_string())?;
            return Ok(Some(Heard::Reply(reply)));
        }
        match Frame::decode(&bytes) {
            Some(Frame::Mad(packet)) => Ok(Some(Heard::Mad(packet))),
            Some(Frame::Undelivered(errno, packet)) => Ok(Some(Heard::Undelivered(errno, packet))),
            _ => Err("it sent a frame that makes no sense".into()),
        }
    }

    /// Takes in a message. Returns the answer about a port, if that is what it is.
    pub(super) fn hear(&mut self, heard: Heard) -> Option<(u64, PortAnswer)> {
        match heard {
            Heard::Mad(packet) => self.events.push_back(ManagerEvent::Mad(packet)),
            Heard::Undelivered(errno, packet) => {
                let errno = i32::try_from(errno).unwrap_or(i32::MAX);
                self.events.push_back(ManagerEvent::Undelivered { packet, errno });
            }
            Heard::Reply(Reply::DevicesChanged { devices }) => self.update_devices(devices),
            Heard::Reply(Reply::Leaving) => self.attachment.leaving(),
            Heard::Reply(Reply::Bound { token, port }) => return self.about_port(token, Ok(port)),
            Heard::Reply(Reply::NotBound { token, refusal }) => return self.about_port(token, Err(refusal)),
            Heard::Reply(other) => log::warn!("the hub said unasked: {other:?}"),
        }
        None
    }

    /// An answer about a port. That of a new hub to what it was told unasked is nobody else's.
    fn about_port(&mut self, token: u64, outcome: PortAnswer) -> Option<(u64, PortAnswer)> {
        if !self.unconfirmed.remove(&token) {
            return Some((token, outcome));
        }
        if let Err(refusal) = outcome
            && self.bindings.remove(&token).is_some()
        {
            log::warn!("a port went to somebody else: {refusal:?}");
            self.events.push_back(ManagerEvent::BindingLost { token });
        }
        None
    }

    /// Only the last state of the devices is of interest.
    fn update_devices(&mut self, devices: Vec<DeviceRecord>) {
        if devices == self.devices {
            return;
        }
        self.devices.clone_from(&devices);
        self.events.retain(|event| !matches!(event, ManagerEvent::DevicesChanged(_)));
        self.events.push_back(ManagerEvent::DevicesChanged(devices));
    }

    /// The connection is gone; begins to look for a new hub.
    pub(super) fn lose_hub(&mut self, reason: &str) {
        log::info!("lost the hub ({reason})");
        self.events.push_back(ManagerEvent::HubLost);
        self.outgoing.clear();
        let request = Request::Manage { number: Some(self.number) };
        if let Err(error) = self.attachment.look_for_another(request, Vec::new()) {
            log::error!("cannot look for a new hub: {error}");
            self.attachment.give_up();
        }
    }

    /// Goes on looking for a hub.
    pub(super) fn seek(&mut self, now: Instant) -> Option<Instant> {
        match self.attachment.seek(now) {
            Ok(Some(answered)) => self.reattached(answered),
            Ok(None) | Err(AttachError::NotRunning) => {}
            Err(error) => log::warn!("no hub yet: {error}"),
        }
        self.attachment.wake_after_seeking(now)
    }

    /// Tells a new hub everything.
    fn reattached(&mut self, answered: Answered) {
        let Reply::Managing { number, devices } = answered.reply else {
            return log::warn!("unexpected reply {:?}", answered.reply);
        };
        self.attachment.found(answered.socket);
        self.hub += 1;
        self.events.push_back(ManagerEvent::Reattached);
        if number != self.number {
            self.number = number;
            self.events.push_back(ManagerEvent::Renumbered(number));
        }
        self.unconfirmed = self.bindings.keys().copied().collect();
        for (token, held) in &self.bindings {
            let (token, spec, listening) = (*token, held.spec, held.listening);
            self.outgoing.request(Request::Bind { token, spec, listening, again: true }.encode());
        }
        for key in self.closing.keys() {
            self.outgoing.closing_message(key);
        }
        self.update_devices(devices);
        self.flush();
    }
}
