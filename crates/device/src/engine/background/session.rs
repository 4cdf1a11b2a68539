//! The background thread and the hub: what engines ask for, and what they are told.

use std::time::Instant;

use hub::client::{IntroductionRefusal, SessionEvent};

use super::worker::Worker;
use crate::engine::Engine;

impl Worker {
    /// Asks the hub for what somebody waits for.
    pub(crate) fn ask_for_wishes(&mut self) {
        let shm = self.engine.shm.as_ref();
        if let Some(shm) = shm {
            shm.links.ask(self.session.as_mut());
        }
        if self.engine.slots.is_short() {
            self.engine.slots.grow(self.session.as_mut(), shm.map(|shm| &*shm.export));
            // The hub may have said something else before its answer.
            self.maintain();
        }
    }

    /// Sees to the session with the hub.
    pub(crate) fn maintain(&mut self) {
        let Some(session) = &mut self.session else { return };
        self.session_due = session.maintain(Instant::now());
        while let Some(event) = session.next_event() {
            self.engine.session_event(event);
        }
    }
}

impl Engine {
    fn session_event(&self, event: SessionEvent) {
        match event {
            SessionEvent::DevicesChanged(records) => self.devices.replace(records),
            SessionEvent::Introduced(introduction) => self.introduced(introduction),
            SessionEvent::NotIntroduced { slot, reason } => {
                log::debug!("no introduction to slot {slot}: {reason:?}");
                match (&self.shm, reason) {
                    (Some(shm), IntroductionRefusal::Already { slots }) => shm.links.already(slot, &slots),
                    (Some(shm), _) => shm.links.refused(slot),
                    (None, _) => {}
                }
            }
            SessionEvent::HubLost => log::info!("the hub is gone; looking for another"),
            SessionEvent::Reattached => log::info!("attached to a new hub"),
            // Without an offer of ours there are no introductions.
            SessionEvent::Detached { reason } => {
                log::error!("the hub has taken our slot away: {reason}");
                self.devices.fatal();
            }
        }
    }
}
