//! All connections of one process: the state changes that the modules below share.

mod active;
mod calls;
mod destroy;
mod expire;
mod passive;
mod receive;
mod release;
mod sidr;

use core::time::Duration;
use std::collections::VecDeque;

use wire::mad::{CmMessage, MAD_LEN};

use crate::call::{ConnId, MadRoute};
use crate::config::Config;
use crate::counters::Counters;
use crate::error::Error;
use crate::event::{CmEvent, ManagerOutput};
use crate::ids::{COUNT, IdGenerator};
use crate::messages;
use crate::table::{CmState, ConnectionRecord, ConnectionTable};
use crate::time;

/// The number of repetitions of the REJ that withdraws a REP.
const WITHDRAWALS: u8 = 8;
/// The number of the peer's repetitions that a kept answer outlives.
const MEMORY: u32 = 3;

/// All connections of one process.
///
/// Times are since any fixed start, the same for all calls. After each call, carry out the outputs of
/// [`poll`](Manager::poll), and call [`expire`](Manager::expire) at [`next_timeout`](Manager::next_timeout).
#[derive(Debug)]
pub struct Manager {
    table: ConnectionTable,
    ids: IdGenerator,
    guid: u64,
    half_open_limit: usize,
    outputs: VecDeque<ManagerOutput>,
    counters: Counters,
}

impl Manager {
    /// A manager without connections.
    pub fn new(config: Config) -> Manager {
        Manager {
            table: ConnectionTable::default(),
            ids: IdGenerator::new(config.number, config.seed),
            guid: config.guid,
            half_open_limit: config.half_open_limit,
            outputs: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// Sets the number of future communication ids; existing ones keep theirs.
    pub fn set_number(&mut self, number: u16) {
        self.ids.set_number(number);
    }

    /// Takes the oldest output.
    pub fn poll(&mut self) -> Option<ManagerOutput> {
        self.outputs.pop_front()
    }

    /// The time of the next [`expire`](Manager::expire).
    pub fn next_timeout(&self) -> Option<Duration> {
        self.table.first_deadline()
    }

    /// Counters of messages.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The number of communication ids in use: of connections that the caller has not destroyed, and of those that
    /// have not ended yet.
    pub fn ids_in_use(&self) -> usize {
        self.table.len()
    }

    /// Takes a free communication id for a connection.
    fn insert(&mut self, connection: impl FnOnce(u32) -> Result<ConnectionRecord, Error>) -> Result<u32, Error> {
        if self.table.len() >= COUNT {
            return Err(Error::NoIds);
        }
        let mut id = self.ids.next();
        // Zero means "unknown" in messages.
        while id == 0 || self.table.contains(id) {
            id = self.ids.next();
        }
        self.table.insert(id, connection(id)?);
        Ok(id)
    }

    /// A connection that the caller has not destroyed.
    fn owned(&self, id: ConnId) -> Result<&ConnectionRecord, Error> {
        self.table.get(id.0).filter(|connection| connection.owned).ok_or(Error::UnknownId)
    }

    /// Likewise, if it is in one of these states.
    fn owned_in(&self, id: ConnId, states: &[CmState]) -> Result<&ConnectionRecord, Error> {
        self.owned(id).and_then(|c| if states.contains(&c.state()) { Ok(c) } else { Err(Error::InvalidState) })
    }

    fn transmit(&mut self, route: MadRoute, mad: [u8; MAD_LEN]) {
        self.counters.sent += 1;
        self.outputs.push_back(ManagerOutput::Send { route, mad });
    }

    /// Sends a message that is never repeated.
    fn send(&mut self, id: u32, transaction: u64, message: CmMessage) {
        if let Some(connection) = self.table.get(id) {
            self.transmit(connection.route, messages::encode(transaction, message));
        }
    }

    /// Sends the connection's message, for the first time or again.
    fn send_kept(&mut self, id: u32) {
        if let Some(connection) = self.table.get(id) {
            self.transmit(connection.route, connection.message);
        }
    }

    /// Keeps a message for repetition, and sends it.
    fn keep_and_send(&mut self, id: u32, mad: [u8; MAD_LEN]) {
        if let Some(connection) = self.table.get_mut(id) {
            connection.message = mad;
        }
        self.send_kept(id);
    }

    /// Enters a state that repeats the kept message until the peer answers.
    fn enter_repeating(&mut self, now: Duration, id: u32, state: CmState) {
        if let Some(connection) = self.table.get_mut(id) {
            connection.retry.left = connection.retry.limit;
            let deadline = now + connection.retry.interval;
            self.table.enter(id, state, Some(deadline));
        }
    }

    /// Enters TIME-WAIT: from now on the peer's queue pair may have another connection.
    fn enter_time_wait(&mut self, now: Duration, id: u32) {
        if let Some(connection) = self.table.get(id) {
            let length = time::time_wait(connection.ack_timeout);
            self.table.unlink_qpn(id);
            self.table.enter(id, CmState::TimeWait, Some(now + length));
        }
    }

    /// Withdraws a REP. Nothing acknowledges a REJ, so it is repeated a few times.
    fn enter_withdrawn(&mut self, now: Duration, id: u32) {
        if let Some(connection) = self.table.get_mut(id) {
            connection.retry.limit = WITHDRAWALS;
            self.table.unlink_qpn(id);
            self.enter_repeating(now, id, CmState::Withdrawn);
        }
    }

    /// Keeps the answer to a request for as long as its sender may repeat it, even if two
    /// repetitions are lost.
    fn remember(&mut self, now: Duration, id: u32, state: CmState) {
        if self.table.memories() >= self.half_open_limit {
            return self.settle(id);
        }
        if let Some(connection) = self.table.get(id) {
            let length = connection.patience * MEMORY;
            self.table.unlink_qpn(id);
            self.table.enter(id, state, Some(now + length));
        }
    }

    /// Sends the answer to a kept request again.
    fn repeat_memory(&mut self, now: Duration, id: u32) {
        self.send_kept(id);
        if let Some(connection) = self.table.get(id) {
            let length = connection.patience * MEMORY;
            self.table.set_deadline(id, Some(now + length));
        }
    }

    /// The connection is over: the id waits for its owner to destroy it, or is removed if there is no owner.
    fn settle(&mut self, id: u32) {
        match self.table.get(id).map(|connection| connection.owned) {
            Some(true) => {
                self.table.unlink(id);
                self.table.enter(id, CmState::Idle, None);
            }
            Some(false) => self.table.remove(id),
            None => {}
        }
    }

    fn event(&mut self, id: u32, event: CmEvent) {
        if self.table.get(id).is_some_and(|connection| connection.owned) {
            self.outputs.push_back(ManagerOutput::Event { id: ConnId(id), event });
        }
    }
}
