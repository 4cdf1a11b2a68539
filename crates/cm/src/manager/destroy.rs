//! The caller leaves: by itself, or because it dies.

use core::time::Duration;

use wire::mad::{Drep, Dreq, Message, Rejected, reason, sidr_status};

use super::Manager;
use crate::call::ConnId;
use crate::event::{ClosingMad, Output};
use crate::messages;
use crate::refuse::rej;
use crate::table::{Connection, State};

impl Manager {
    /// The caller forgets the id. The peer is told what ends its wait: REJ (timeout) after a REQ, REJ
    /// (consumer) while the connection is being made, DREQ, DREP or a refusing SIDR_REP. A DREQ is repeated until it
    /// is answered, and TIME-WAIT goes on, inside. No event of this id comes any more.
    pub fn destroy(&mut self, now: Duration, id: ConnId) {
        let Ok(connection) = self.owned(id) else {
            return;
        };
        let state = connection.state();
        self.outputs.retain(|output| !matches!(output, Output::Event { id: of, .. } if *of == id));
        if let Some(connection) = self.table.get_mut(id.0) {
            connection.owned = false;
        }
        let id = id.0;
        match state {
            State::ReqSent => {
                self.send_timeout(id);
                self.settle(id);
            }
            State::ReqReceived | State::RepReceived => {
                self.send_last(id);
                self.remember(now, id, State::Refused);
            }
            State::RepSent => {
                self.send_last(id);
                self.enter_withdrawn(now, id);
            }
            State::Established => self.send_dreq(now, id, [0; Dreq::PRIVATE_LEN]),
            State::DreqReceived => self.send_drep(now, id, [0; Drep::PRIVATE_LEN]),
            State::SidrReqReceived => {
                self.send_last(id);
                self.remember(now, id, State::SidrAnswered);
            }
            State::SidrReqSent | State::Idle => self.settle(id),
            State::DreqSent | State::TimeWait | State::Refused | State::Withdrawn | State::SidrAnswered => {}
        }
    }

    /// What somebody else shall send if this process dies now. `None`: nothing; the peer knows already, or
    /// learns it from the answer to its next message.
    pub fn closing_mad(&self, id: ConnId) -> Option<ClosingMad> {
        let connection = self.table.get(id.0)?;
        let message = self.last_message(id.0, connection)?;
        let until_answered = matches!(message, Message::Dreq(_));
        let transaction = match message {
            Message::Dreq(_) => self.ids.transactions() | u64::from(id.0),
            _ => connection.transaction,
        };
        Some(ClosingMad { route: connection.route, mad: messages::encode(transaction, message), until_answered })
    }

    /// Sends the last message of a state and keeps it.
    fn send_last(&mut self, id: u32) {
        let Some(connection) = self.table.get(id) else {
            return;
        };
        if let Some(message) = self.last_message(id, connection) {
            let mad = messages::encode(connection.transaction, message);
            self.keep_and_send(id, mad);
        }
    }

    fn last_message(&self, id: u32, connection: &Connection) -> Option<Message> {
        let reject = |rejected| Message::Rej(rej(id, connection.remote_or_zero(), rejected, reason::CONSUMER));
        Some(match connection.state() {
            State::ReqSent => Message::Rej(messages::timeout(id, self.guid, connection)),
            State::ReqReceived => reject(Rejected::REQ),
            State::RepReceived => reject(Rejected::REP),
            State::RepSent => reject(Rejected::OTHER),
            State::Established | State::DreqSent => {
                Message::Dreq(messages::dreq(id, connection, [0; Dreq::PRIVATE_LEN]))
            }
            State::DreqReceived => Message::Drep(messages::drep(id, connection, [0; Drep::PRIVATE_LEN])),
            State::SidrReqReceived => Message::SidrRep(messages::sidr_refusal(connection, sidr_status::REJECTED)),
            State::TimeWait
            | State::Refused
            | State::Withdrawn
            | State::SidrReqSent
            | State::SidrAnswered
            | State::Idle => return None,
        })
    }
}
