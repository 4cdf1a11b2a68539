//! The end of an id: destroyed by the caller, or by the death of the process.

use core::time::Duration;

use wire::mad::{CmMessage, Drep, Dreq, Rejected, reason, sidr_status};

use super::Manager;
use crate::call::ConnId;
use crate::event::{ClosingMad, ManagerOutput};
use crate::messages;
use crate::refuse::rej;
use crate::table::{CmState, ConnectionRecord};

impl Manager {
    /// Forgets the id. The peer gets the message that ends its wait: REJ (timeout) after a REQ, REJ
    /// (consumer) while the connection is being made, DREQ, DREP or a refusing SIDR_REP. The manager still repeats a DREQ
    /// until it is answered, and completes TIME-WAIT. No further event of this id comes.
    pub fn destroy(&mut self, now: Duration, id: ConnId) {
        let Ok(connection) = self.owned(id) else {
            return;
        };
        let state = connection.state();
        self.outputs.retain(|output| !matches!(output, ManagerOutput::Event { id: of, .. } if *of == id));
        if let Some(connection) = self.table.get_mut(id.0) {
            connection.owned = false;
        }
        let id = id.0;
        match state {
            CmState::ReqSent => {
                self.send_timeout(id);
                self.settle(id);
            }
            CmState::ReqReceived | CmState::RepReceived => {
                self.send_last(id);
                self.remember(now, id, CmState::Refused);
            }
            CmState::RepSent => {
                self.send_last(id);
                self.enter_withdrawn(now, id);
            }
            CmState::Established => self.send_dreq(now, id, [0; Dreq::PRIVATE_LEN]),
            CmState::DreqReceived => self.send_drep(now, id, [0; Drep::PRIVATE_LEN]),
            CmState::SidrReqReceived => {
                self.send_last(id);
                self.remember(now, id, CmState::SidrAnswered);
            }
            CmState::SidrReqSent | CmState::Idle => self.settle(id),
            CmState::DreqSent | CmState::TimeWait | CmState::Refused | CmState::Withdrawn | CmState::SidrAnswered => {}
        }
    }

    /// The message for the peer if this process dies now. `None` if the peer knows already, or
    /// learns it from the answer to its next message.
    pub fn closing_mad(&self, id: ConnId) -> Option<ClosingMad> {
        let connection = self.table.get(id.0)?;
        let message = self.last_message(id.0, connection)?;
        let until_answered = matches!(message, CmMessage::Dreq(_));
        let transaction = match message {
            CmMessage::Dreq(_) => self.ids.transactions() | u64::from(id.0),
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

    fn last_message(&self, id: u32, connection: &ConnectionRecord) -> Option<CmMessage> {
        let reject = |rejected| CmMessage::Rej(rej(id, connection.remote_or_zero(), rejected, reason::CONSUMER));
        Some(match connection.state() {
            CmState::ReqSent => CmMessage::Rej(messages::timeout(id, self.guid, connection)),
            CmState::ReqReceived => reject(Rejected::REQ),
            CmState::RepReceived => reject(Rejected::REP),
            CmState::RepSent => reject(Rejected::OTHER),
            CmState::Established | CmState::DreqSent => {
                CmMessage::Dreq(messages::dreq(id, connection, [0; Dreq::PRIVATE_LEN]))
            }
            CmState::DreqReceived => CmMessage::Drep(messages::drep(id, connection, [0; Drep::PRIVATE_LEN])),
            CmState::SidrReqReceived => CmMessage::SidrRep(messages::sidr_refusal(connection, sidr_status::REJECTED)),
            CmState::TimeWait
            | CmState::Refused
            | CmState::Withdrawn
            | CmState::SidrReqSent
            | CmState::SidrAnswered
            | CmState::Idle => return None,
        })
    }
}
