//! The end of a connection: DREQ and DREP.

use core::time::Duration;

use wire::mad::{CmMessage, Drep, Dreq};

use super::Manager;
use super::receive::IncomingMad;
use crate::call::ConnId;
use crate::error::Error;
use crate::event::CmEvent;
use crate::messages;
use crate::table::CmState;

impl Manager {
    /// Sends a DREQ; [`CmEvent::Disconnected`] follows. After a [`CmEvent::DisconnectRequest`] it sends the DREP, with the
    /// private data, and only `TimewaitExit` follows. Does nothing if a DREQ was sent.
    ///
    /// # Errors
    /// There is no connection to release, or the private data is too long: 220 bytes fit a DREQ, 224 a DREP.
    pub fn disconnect(&mut self, now: Duration, id: ConnId, private_data: &[u8]) -> Result<(), Error> {
        let connection = self.owned_in(id, &[CmState::Established, CmState::DreqSent, CmState::DreqReceived])?;
        match connection.state() {
            CmState::Established => {
                let private_data = messages::private(private_data)?;
                self.send_dreq(now, id.0, private_data);
            }
            CmState::DreqReceived => {
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
        connection.message =
            messages::encode(transaction, CmMessage::Dreq(messages::dreq(id, connection, private_data)));
        self.send_kept(id);
        self.enter_repeating(now, id, CmState::DreqSent);
    }

    /// Agrees to the release that the peer asked for.
    pub(super) fn send_drep(&mut self, now: Duration, id: u32, private_data: [u8; Drep::PRIVATE_LEN]) {
        let Some(connection) = self.table.get(id) else {
            return;
        };
        let drep = messages::drep(id, connection, private_data);
        let mad = messages::encode(connection.transaction, CmMessage::Drep(drep));
        self.keep_and_send(id, mad);
        self.enter_time_wait(now, id);
    }

    /// The peer wants to disconnect.
    pub(super) fn on_dreq(&mut self, incoming: &IncomingMad<'_>, dreq: &Dreq) {
        let id = dreq.remote_id;
        let Some(connection) = self.find(incoming, id, dreq.local_id) else {
            return;
        };
        let state = connection.state();
        // A DREQ before we know the peer's id or after a rejection: the peer may forget the connection.
        if connection.remote_id.is_none()
            || matches!(state, CmState::Refused | CmState::ReqReceived | CmState::Withdrawn)
        {
            self.unexpected();
            return self.refuse(incoming);
        }
        if connection.local_qpn != dreq.remote_qpn {
            self.counters.foreign += 1;
            return;
        }
        match state {
            CmState::RepSent | CmState::RepReceived | CmState::Established => {
                self.take_transaction(id, incoming);
                self.table.enter(id, CmState::DreqReceived, None);
                self.event(id, CmEvent::DisconnectRequest { private_data: dreq.private_data });
            }
            // Both sides disconnect: each DREQ answers the other (IB specification 12.9.7).
            CmState::DreqSent => {
                self.take_transaction(id, incoming);
                self.send_drep(incoming.now, id, [0; Drep::PRIVATE_LEN]);
                self.event(id, CmEvent::Disconnected { private_data: None });
            }
            CmState::TimeWait => {
                self.counters.duplicate += 1;
                self.refuse(incoming);
            }
            _ => self.counters.duplicate += 1,
        }
    }

    /// The answer to a DREQ has its transaction id.
    fn take_transaction(&mut self, id: u32, incoming: &IncomingMad<'_>) {
        if let Some(connection) = self.table.get_mut(id) {
            connection.transaction = incoming.header.transaction_id;
        }
    }

    /// The peer agrees to disconnect.
    pub(super) fn on_drep(&mut self, incoming: &IncomingMad<'_>, drep: &Drep) {
        let id = drep.remote_id;
        let Some(connection) = self.find(incoming, id, drep.local_id) else {
            return;
        };
        if connection.state() != CmState::DreqSent {
            return self.unexpected();
        }
        self.event(id, CmEvent::Disconnected { private_data: Some(drep.private_data) });
        self.enter_time_wait(incoming.now, id);
    }
}
