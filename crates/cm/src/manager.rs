//! All connections of one process: what the steps in the modules below have in common.

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

use wire::mad::{MAD_LEN, Message};

use crate::call::{ConnId, Route};
use crate::config::Config;
use crate::counters::Counters;
use crate::error::Error;
use crate::event::{Event, Output};
use crate::ids::{COUNT, Ids};
use crate::messages;
use crate::table::{Connection, State, Table};
use crate::time;

/// How often the REJ that takes a REP back is repeated.
const WITHDRAWALS: u8 = 8;
/// How many of a peer's repetitions an answer outlives.
const MEMORY: u32 = 3;

/// All connections of one process.
///
/// Times are since any fixed start, the same for all calls. After each call, send and deliver what
/// [`poll`](Manager::poll) gives, and call [`expire`](Manager::expire) at [`next_timeout`](Manager::next_timeout).
#[derive(Debug)]
pub struct Manager {
    table: Table,
    ids: Ids,
    guid: u64,
    half_open_limit: usize,
    outputs: VecDeque<Output>,
    counters: Counters,
}

impl Manager {
    /// One without connections.
    pub fn new(config: Config) -> Manager {
        Manager {
            table: Table::default(),
            ids: Ids::new(config.number, config.seed),
            guid: config.guid,
            half_open_limit: config.half_open_limit,
            outputs: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// The number of ids that are made from now on; those that exist keep theirs.
    pub fn set_number(&mut self, number: u16) {
        self.ids.set_number(number);
    }

    /// What to do or to know next, oldest first.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`expire`](Manager::expire) has something to do.
    pub fn next_timeout(&self) -> Option<Duration> {
        self.table.first_deadline()
    }

    /// What became of messages.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Communication ids that are taken: connections that the caller has not destroyed, and others whose end
    /// is not over.
    pub fn ids_in_use(&self) -> usize {
        self.table.len()
    }

    /// Takes a free communication id for a connection.
    fn insert(&mut self, connection: impl FnOnce(u32) -> Result<Connection, Error>) -> Result<u32, Error> {
        if self.table.len() >= COUNT {
            return Err(Error::NoIds);
        }
        let mut id = self.ids.next();
        // Zero stands for "not known" in messages.
        while id == 0 || self.table.contains(id) {
            id = self.ids.next();
        }
        self.table.insert(id, connection(id)?);
        Ok(id)
    }

    /// A connection that the caller has not destroyed.
    fn owned(&self, id: ConnId) -> Result<&Connection, Error> {
        self.table.get(id.0).filter(|connection| connection.owned).ok_or(Error::UnknownId)
    }

    /// One that is also in one of these states.
    fn owned_in(&self, id: ConnId, states: &[State]) -> Result<&Connection, Error> {
        self.owned(id).and_then(|c| if states.contains(&c.state()) { Ok(c) } else { Err(Error::InvalidState) })
    }

    fn transmit(&mut self, route: Route, mad: [u8; MAD_LEN]) {
        self.counters.sent += 1;
        self.outputs.push_back(Output::Send { route, mad });
    }

    /// Sends a message that is not kept.
    fn send(&mut self, id: u32, transaction: u64, message: Message) {
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

    /// Enters a state in which the kept message is repeated until it is answered.
    fn enter_repeating(&mut self, now: Duration, id: u32, state: State) {
        if let Some(connection) = self.table.get_mut(id) {
            connection.retry.left = connection.retry.limit;
            let deadline = now + connection.retry.interval;
            self.table.enter(id, state, Some(deadline));
        }
    }

    /// Enters TIME-WAIT: from now on the peer's queue pair may be another connection's.
    fn enter_time_wait(&mut self, now: Duration, id: u32) {
        if let Some(connection) = self.table.get(id) {
            let length = time::time_wait(connection.ack_timeout);
            self.table.unlink_qpn(id);
            self.table.enter(id, State::TimeWait, Some(now + length));
        }
    }

    /// Takes back a REP: nothing acknowledges a REJ, so it is repeated a few times.
    fn enter_withdrawn(&mut self, now: Duration, id: u32) {
        if let Some(connection) = self.table.get_mut(id) {
            connection.retry.limit = WITHDRAWALS;
            self.table.unlink_qpn(id);
            self.enter_repeating(now, id, State::Withdrawn);
        }
    }

    /// Keeps a refused or answered request for as long as its sender may repeat it, even if two of its
    /// repetitions are lost.
    fn remember(&mut self, now: Duration, id: u32, state: State) {
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

    /// Nothing more will come: the id waits to be destroyed, or goes.
    fn settle(&mut self, id: u32) {
        match self.table.get(id).map(|connection| connection.owned) {
            Some(true) => {
                self.table.unlink(id);
                self.table.enter(id, State::Idle, None);
            }
            Some(false) => self.table.remove(id),
            None => {}
        }
    }

    fn event(&mut self, id: u32, event: Event) {
        if self.table.get(id).is_some_and(|connection| connection.owned) {
            self.outputs.push_back(Output::Event { id: ConnId(id), event });
        }
    }
}
