//! Timeouts.

use core::time::Duration;

use wire::mad::{CmMessage, MAD_LEN, decode};

use super::Manager;
use crate::event::CmEvent;
use crate::messages;
use crate::table::{CmState, ConnectionRecord};

impl Manager {
    /// Does everything that is due at `now`: repeats messages, gives up, ends TIME-WAIT.
    pub fn expire(&mut self, now: Duration) {
        while let Some(id) = self.table.pop_due(now) {
            let Some(state) = self.table.get(id).map(|connection| connection.state()) else {
                continue;
            };
            match state {
                CmState::ReqSent | CmState::RepSent | CmState::DreqSent | CmState::SidrReqSent | CmState::Withdrawn => {
                    self.repeat(now, id, state);
                }
                CmState::TimeWait => {
                    self.event(id, CmEvent::TimewaitExit);
                    self.settle(id);
                }
                CmState::Refused | CmState::SidrAnswered => self.settle(id),
                // These wait for the caller, not for time.
                CmState::ReqReceived
                | CmState::RepReceived
                | CmState::Established
                | CmState::DreqReceived
                | CmState::SidrReqReceived
                | CmState::Idle => {}
            }
        }
    }

    /// The network reports that it could not deliver a message. After a first message (REQ, SIDR_REQ) the caller hears
    /// without delay that the peer is unreachable. All others are repeated as usual, since the report
    /// may be wrong or forged.
    pub fn undelivered(&mut self, now: Duration, mad: &[u8; MAD_LEN]) {
        let Ok((header, message)) = decode(mad) else { return };
        let (id, waiting) = match message {
            CmMessage::Req(req) => (req.local_id, CmState::ReqSent),
            CmMessage::SidrReq(req) => (req.request_id, CmState::SidrReqSent),
            _ => return,
        };
        let waits = |connection: &ConnectionRecord| {
            connection.state() == waiting && connection.transaction == header.transaction_id
        };
        if self.table.get(id).is_some_and(waits) {
            self.give_up(now, id, waiting);
        }
    }

    fn repeat(&mut self, now: Duration, id: u32, state: CmState) {
        let Some(connection) = self.table.get_mut(id) else {
            return;
        };
        let Some(left) = connection.retry.left.checked_sub(1) else {
            return self.give_up(now, id, state);
        };
        connection.retry.left = left;
        let deadline = now + connection.retry.interval;
        self.table.set_deadline(id, Some(deadline));
        self.counters.repeated += u64::from(state != CmState::Withdrawn);
        self.send_kept(id);
    }

    /// The peer does not answer.
    fn give_up(&mut self, now: Duration, id: u32, state: CmState) {
        match state {
            CmState::DreqSent => {
                self.event(id, CmEvent::Disconnected { private_data: None });
                self.enter_time_wait(now, id);
            }
            CmState::Withdrawn => self.enter_time_wait(now, id),
            CmState::SidrReqSent => {
                self.event(id, CmEvent::SidrUnreachable);
                self.settle(id);
            }
            _ => {
                self.send_timeout(id);
                self.event(id, CmEvent::Unreachable);
                self.settle(id);
            }
        }
    }

    /// Tells the peer that we do not wait any longer.
    pub(super) fn send_timeout(&mut self, id: u32) {
        if let Some(connection) = self.table.get(id) {
            let rej = messages::timeout(id, self.guid, connection);
            self.send(id, connection.transaction, CmMessage::Rej(rej));
        }
    }
}
