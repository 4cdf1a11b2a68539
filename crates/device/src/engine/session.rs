//! The background thread and the hub: requests of the engine, and the hub's news.

use std::time::Instant;

use hub::client::SessionEvent;

use crate::engine::Engine;
use crate::engine::worker::Worker;

impl Worker {
    /// Asks the hub for the links and slots that other threads wait for.
    pub(crate) fn ask_hub(&mut self) {
        let (slots, shm) = (&self.engine.services.slots, self.engine.shm.as_ref());
        if let Some(shm) = shm {
            shm.links.ask(self.session.as_mut());
        }
        if slots.is_short() {
            slots.grow(self.session.as_mut(), shm.map(|shm| &*shm.export));
            // The hub may have sent other news before its answer.
            self.maintain();
        }
    }

    /// Keeps the session with the hub alive, and handles the hub's news.
    pub(crate) fn maintain(&mut self) {
        let Some(session) = &mut self.session else { return };
        self.session_due = session.maintain(Instant::now());
        while let Some(event) = session.next_event() {
            self.engine.handle_session_event(event);
        }
    }
}

impl Engine {
    fn handle_session_event(&self, event: SessionEvent) {
        let devices = &self.services.devices;
        match event {
            SessionEvent::DevicesChanged(records) => devices.replace(records),
            SessionEvent::Introduced(introduction) => self.introduced(introduction),
            SessionEvent::NotIntroduced { slot, reason } => self.not_introduced(slot, &reason),
            SessionEvent::HubLost => log::info!("the hub is gone; looking for another"),
            SessionEvent::Reattached => log::info!("attached to a new hub"),
            SessionEvent::Detached { reason } => {
                log::error!("the hub has taken away this process's slot: {reason}");
                devices.fatal();
            }
        }
    }
}
