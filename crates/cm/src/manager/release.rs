//! The end of a connection: DREQ and DREP.

use core::time::Duration;

use wire::mad::{Drep, Dreq, Message};

use super::Manager;
use super::receive::Incoming;
use crate::call::ConnId;
use crate::error::Error;
use crate::event::Event;
use crate::messages;
use crate::table::State;

impl Manager {
    /// Sends a DREQ: [`Event::Disconnected`] will follow. After a [`Event::DisconnectRequest`] it sends the DREP (of
    /// which the private data is), and only `TimewaitExit` follows. Nothing happens if a DREQ is under way.
    ///
    /// # Errors
    /// There is no connection to release, or the private data is too long: 220 bytes fit a DREQ, 224 a DREP.
    pub fn disconnect(&mut self, now: Duration, id: ConnId, private_data: &[u8]) -> Result<(), Error> {
        let connection = self.owned_in(id, &[State::Established, State::DreqSent, State::DreqReceived])?;
        match connection.state() {
            State::Established => {
                let private_data = messages::private(private_data)?;
                self.send_dreq(now, id.0, private_data);
            }
            State::DreqReceived => {
                let private_data = messages::private(private_data)?;
                self.send_drep(now, id.0, private_data);
            }
            _ => {}
        }
        Ok(())
    }

    /// Asks for the release of an established connection.
    pub(super) fn send_dreq(&mut self, now: Duration, id: u32, private_data: [u8; Dreq::PRIVATE_LEN]) {
        let transaction = self.ids.transactions() | u64::from(id);
        let Some(connection) = self.table.get_mut(id) else {
            return;
        };
        connection.transaction = transaction;
        connection.message = messages::encode(transaction, Message::Dreq(messages::dreq(id, connection, private_data)));
        self.send_kept(id);
        self.enter_repeating(now, id, State::DreqSent);
    }

    /// Agrees to the release that the peer asked for.
    pub(super) fn send_drep(&mut self, now: Duration, id: u32, private_data: [u8; Drep::PRIVATE_LEN]) {
        let Some(connection) = self.table.get(id) else {
            return;
        };
        let drep = messages::drep(id, connection, private_data);
        let mad = messages::encode(connection.transaction, Message::Drep(drep));
        self.keep_and_send(id, mad);
        self.enter_time_wait(now, id);
    }

    /// The peer wants to disconnect.
    pub(super) fn on_dreq(&mut self, incoming: &Incoming<'_>, dreq: &Dreq) {
        let id = dreq.remote_id;
        let Some(connection) = self.find(incoming, id, dreq.local_id) else {
            return;
        };
        let state = connection.state();
        // A DREQ before we know the peer's id or after a rejection: nothing to keep, the peer may forget it.
        if connection.remote_id.is_none() || matches!(state, State::Refused | State::ReqReceived | State::Withdrawn) {
            self.unexpected();
            return self.refuse(incoming);
        }
        if connection.local_qpn != dreq.remote_qpn {
            self.counters.foreign += 1;
            return;
        }
        match state {
            State::RepSent | State::RepReceived | State::Established => {
                self.take_transaction(id, incoming);
                self.table.enter(id, State::DreqReceived, None);
                self.event(id, Event::DisconnectRequest { private_data: dreq.private_data });
            }
            // Both want it: each DREQ answers the other (IB specification 12.9.7).
            State::DreqSent => {
                self.take_transaction(id, incoming);
                self.send_drep(incoming.now, id, [0; Drep::PRIVATE_LEN]);
                self.event(id, Event::Disconnected { private_data: None });
            }
            State::TimeWait => {
                self.counters.duplicate += 1;
                self.refuse(incoming);
            }
            _ => self.counters.duplicate += 1,
        }
    }

    /// The answer to a DREQ has its transaction id.
    fn take_transaction(&mut self, id: u32, incoming: &Incoming<'_>) {
        if let Some(connection) = self.table.get_mut(id) {
            connection.transaction = incoming.header.transaction_id;
        }
    }

    /// The peer agrees to disconnect.
    pub(super) fn on_drep(&mut self, incoming: &Incoming<'_>, drep: &Drep) {
        let id = drep.remote_id;
        let Some(connection) = self.find(incoming, id, drep.local_id) else {
            return;
        };
        if connection.state() != State::DreqSent {
            return self.unexpected();
        }
        self.event(id, Event::Disconnected { private_data: Some(drep.private_data) });
        self.enter_time_wait(incoming.now, id);
    }
}
