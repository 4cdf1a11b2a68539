//! Time passes.

use core::time::Duration;

use wire::mad::{MAD_LEN, Message, decode};

use super::Manager;
use crate::event::Event;
use crate::messages;
use crate::table::{Connection, State};

impl Manager {
    /// Does what is due at `now`: repeats messages, gives up, ends TIME-WAIT.
    pub fn expire(&mut self, now: Duration) {
        while let Some(id) = self.table.pop_due(now) {
            let Some(state) = self.table.get(id).map(|connection| connection.state()) else {
                continue;
            };
            match state {
                State::ReqSent | State::RepSent | State::DreqSent | State::SidrReqSent | State::Withdrawn => {
                    self.repeat(now, id, state);
                }
                State::TimeWait => {
                    self.event(id, Event::TimewaitExit);
                    self.settle(id);
                }
                State::Refused | State::SidrAnswered => self.settle(id),
                // These wait for the caller, not for time.
                State::ReqReceived
                | State::RepReceived
                | State::Established
                | State::DreqReceived
                | State::SidrReqReceived
                | State::Idle => {}
            }
        }
    }

    /// The network says that a message could not be delivered: whoever waits for the answer to a first one
    /// (REQ, SIDR_REQ) is told at once that the peer is unreachable. Anything else is repeated as usual, since the
    /// network may be wrong, or somebody on it may lie.
    pub fn undelivered(&mut self, now: Duration, mad: &[u8; MAD_LEN]) {
        let Ok((header, message)) = decode(mad) else { return };
        let (id, waiting) = match message {
            Message::Req(req) => (req.local_id, State::ReqSent),
            Message::SidrReq(req) => (req.request_id, State::SidrReqSent),
            _ => return,
        };
        let waits =
            |connection: &Connection| connection.state() == waiting && connection.transaction == header.transaction_id;
        if self.table.get(id).is_some_and(waits) {
            self.give_up(now, id, waiting);
        }
    }

    fn repeat(&mut self, now: Duration, id: u32, state: State) {
        let Some(connection) = self.table.get_mut(id) else {
            return;
        };
        let Some(left) = connection.retry.left.checked_sub(1) else {
            return self.give_up(now, id, state);
        };
        connection.retry.left = left;
        let deadline = now + connection.retry.interval;
        self.table.set_deadline(id, Some(deadline));
        self.counters.repeated += u64::from(state != State::Withdrawn);
        self.send_kept(id);
    }

    /// Nobody answers.
    fn give_up(&mut self, now: Duration, id: u32, state: State) {
        match state {
            State::DreqSent => {
                self.event(id, Event::Disconnected { private_data: None });
                self.enter_time_wait(now, id);
            }
            State::Withdrawn => self.enter_time_wait(now, id),
            State::SidrReqSent => {
                self.event(id, Event::SidrUnreachable);
                self.settle(id);
            }
            _ => {
                self.send_timeout(id);
                self.event(id, Event::Unreachable);
                self.settle(id);
            }
        }
    }

    /// Tells the peer that we do not wait any longer.
    pub(super) fn send_timeout(&mut self, id: u32) {
        if let Some(connection) = self.table.get(id) {
            let rej = messages::timeout(id, self.guid, connection);
            self.send(id, connection.transaction, Message::Rej(rej));
        }
    }
}
