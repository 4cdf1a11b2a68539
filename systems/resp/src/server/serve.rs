//! One connection: requests in, replies out.

use std::io;

use longarm_kv::{LocalTable, LockedTable};
use rustix::event::epoll::EventFlags;

use super::reactor::DoorLoop;
use super::wire::{RespWire, is_later};
use crate::client::{RespClient, WantedReplies};
use crate::commands::dispatch;
use crate::commands::table::RespCommand;
use crate::decode::{RequestDecoder, RequestLimits};
use crate::door::{Door, RespCall};

/// A client with so many bytes of replies has to take them, before it may ask again.
const PAUSE_AT: usize = 1 << 20;
/// A client that listens, with so many bytes of messages, is too slow (`client-output-buffer-limit pubsub` of Redis).
const LISTENER_LIMIT: usize = 32 << 20;
/// Bytes of one request (`client-query-buffer-limit` of Redis).
const REQUEST_LIMIT: usize = 1 << 30;
/// Bytes of requests of all clients that are not yet whole.
const ALL_REQUESTS_LIMIT: usize = 4 << 30;
/// Reads of one connection in one round.
const MOST_READS: usize = 16;
/// Commands between which no other thread changes the table.
const TURN: usize = 32;
/// A buffer that is longer than this is given back when it is empty.
const KEPT_BYTES: usize = 1 << 18;
/// Requests of a pipeline whose keys are fetched together.
const AHEAD: usize = 16;
/// Arguments of a request that need no allocation.
const FEW: usize = 8;

/// One connection.
pub(super) struct RespConnection {
    pub(super) wire: RespWire,
    /// Bytes that are not yet executed.
    pub(super) pending: Vec<u8>,
    decoder: RequestDecoder,
    /// Looks at requests that are not yet executed.
    ahead: RequestDecoder,
    /// Bytes of the client's replies that are sent.
    sent: usize,
    /// TLS has bytes that are not sent.
    keeps: bool,
    /// The client has more requests than it takes replies.
    is_paused: bool,
    pub(super) interest: EventFlags,
}

impl RespConnection {
    pub(super) fn new(wire: RespWire) -> RespConnection {
        RespConnection {
            wire,
            pending: Vec::new(),
            decoder: RequestDecoder::default(),
            ahead: RequestDecoder::default(),
            sent: 0,
            keeps: false,
            is_paused: false,
            interest: EventFlags::IN,
        }
    }

    /// Sends as much as the connection takes.
    pub(super) fn send(&mut self, client: &mut RespClient) -> io::Result<()> {
        let bytes = &mut client.reply.bytes;
        while self.sent < bytes.len() {
            match self.wire.write(&bytes[self.sent..])? {
                0 => break,
                written => self.sent += written,
            }
        }
        self.keeps = !self.wire.flush()?;
        if self.sent == bytes.len() {
            (self.sent, *bytes) = (0, std::mem::take(bytes));
            bytes.clear();
            bytes.shrink_to(KEPT_BYTES);
        } else if self.sent > PAUSE_AT {
            bytes.drain(..self.sent);
            self.sent = 0;
        }
        Ok(())
    }

    fn unsent(&self, client: &RespClient) -> usize {
        client.reply.bytes.len() - self.sent
    }

    pub(super) fn has_sent_all(&self, client: &RespClient) -> bool {
        self.unsent(client) == 0 && !self.keeps
    }

    pub(super) fn is_too_slow(&self, client: &RespClient) -> bool {
        client.subscriptions() + client.shard_channels.len() > 0 && self.unsent(client) > LISTENER_LIMIT
    }

    /// True if it was paused, and may go on.
    pub(super) fn resumes(&mut self, client: &RespClient) -> bool {
        let resumes = self.is_paused && self.unsent(client) < PAUSE_AT;
        self.is_paused &= !resumes;
        resumes
    }

    /// The events that it waits for.
    pub(super) fn wants(&self, client: &RespClient) -> EventFlags {
        if self.wire.only_becomes_readable() {
            return EventFlags::IN;
        }
        let mut wanted = EventFlags::empty();
        wanted.set(EventFlags::IN, !self.is_paused && !client.is_leaving);
        wanted.set(EventFlags::OUT, !self.has_sent_all(client));
        wanted
    }

    /// Executes the requests among bytes that begin with one. Returns the length of those that are done.
    fn execute(&mut self, bytes: &[u8], client: &mut RespClient, door: &mut Door, table: &LocalTable) -> usize {
        let (mut at, mut turn, mut locked): (usize, usize, Option<LockedTable<'_>>) = (0, 0, None);
        while !client.is_leaving && !client.is_killed {
            if self.unsent(client) >= PAUSE_AT {
                self.is_paused = true;
                break;
            }
            let limits = if client.user.is_some() { RequestLimits::FULL } else { RequestLimits::STRANGER };
            match self.decoder.decode(&bytes[at..], limits) {
                Ok(None) => break,
                Ok(Some(len)) => {
                    let request = &bytes[at..at + len];
                    let table = locked.get_or_insert_with(|| {
                        let table = table.lock();
                        door.clock.look(table.now_ns());
                        table
                    });
                    client.last_ns = table.now_ns();
                    self.call(request, client, door, table);
                    self.decoder.clear();
                    at += len;
                    turn += 1;
                    // A request that came alone has nothing behind it.
                    if turn % AHEAD == 1 && at < bytes.len() {
                        self.look_ahead(&bytes[at..], table);
                    }
                    if turn.is_multiple_of(TURN) {
                        table.yield_now();
                    }
                }
                Err(error) => {
                    door.counts.broken += 1;
                    client.reply.error(format!("ERR {error}").as_bytes());
                    client.is_leaving = true;
                }
            }
        }
        at
    }

    /// Fetches the places of the keys of requests that come next, for all of them at a time. A request's second word is its key,
    /// nearly always.
    fn look_ahead(&mut self, bytes: &[u8], table: &LockedTable<'_>) {
        let (mut keys, mut count, mut at): ([&[u8]; AHEAD], usize, usize) = ([b""; AHEAD], 0, 0);
        for _ in 0..AHEAD {
            self.ahead.clear();
            // Long requests gain nothing.
            let Ok(Some(len)) = self.ahead.decode(&bytes[at..], RequestLimits::STRANGER) else { break };
            if let Some(place) = self.ahead.place_of(1) {
                keys[count] = &bytes[at..][place];
                count += 1;
            }
            at += len;
        }
        self.ahead.clear();
        table.look_ahead(keys[..count].iter().copied());
    }

    fn call<'table>(&self, request: &[u8], client: &mut RespClient, door: &mut Door, table: &mut LockedTable<'table>) {
        let all = self.decoder.arguments(request);
        let (mut few, many): ([&[u8]; FEW], Vec<&[u8]>);
        let arguments = if all.len() <= FEW {
            let len = all.len();
            few = [b""; FEW];
            few.iter_mut().zip(all).for_each(|(place, argument)| *place = argument);
            &few[..len]
        } else {
            many = all.collect();
            &many[..]
        };
        if client.wanted_replies == WantedReplies::AllButNext {
            client.wanted_replies = WantedReplies::AllButThis;
        }
        let (start, before) = (client.reply.bytes.len(), client.wanted_replies);
        dispatch::execute(&mut RespCall { arguments, client, door, table, is_in_transaction: false });
        if before != WantedReplies::All {
            leave_out(client, start, arguments);
        }
    }
}

/// Leaves out the reply to a request of a client that did not want it.
fn leave_out(client: &mut RespClient, start: usize, arguments: &[&[u8]]) {
    let command = arguments.first().and_then(|name| RespCommand::find(name));
    // Replies to subscriptions are messages.
    let is_message = command.is_some_and(|command| command.name.ends_with("subscribe"));
    // The command that turned replies on has one.
    if !is_message && client.wanted_replies != WantedReplies::All {
        client.reply.bytes.truncate(start);
    }
    if client.wanted_replies == WantedReplies::AllButThis {
        client.wanted_replies = WantedReplies::All;
    }
}

impl DoorLoop {
    /// Takes what has arrived of one connection, and executes it.
    pub(super) fn serve(&mut self, id: u64, flags: EventFlags) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Some(mut client) = self.door.clients.remove(&id) else { return };
        self.active.push(id);
        let before = connection.pending.len();
        let is_readable = flags.intersects(EventFlags::IN | EventFlags::ERR | EventFlags::HUP);
        if connection.wire.look().is_err() {
            self.door.counts.broken += 1;
            client.is_killed = true;
        } else if is_readable && !connection.is_paused && !client.is_leaving {
            let is_done = read_and_execute(connection, &mut client, &mut self.door, &self.table, &mut self.scratch);
            if !is_done {
                self.again.push(id);
            }
        } else if flags.intersects(EventFlags::ERR | EventFlags::HUP) {
            client.is_killed = true;
        }
        self.pending_bytes = self.pending_bytes + connection.pending.len() - before;
        if connection.pending.len() > REQUEST_LIMIT || self.pending_bytes > ALL_REQUESTS_LIMIT {
            self.door.counts.broken += 1;
            client.is_killed = true;
        }
        self.door.clients.insert(id, client);
    }
}

/// Returns false if more bytes may be there.
fn read_and_execute(
    connection: &mut RespConnection,
    client: &mut RespClient,
    door: &mut Door,
    table: &LocalTable,
    scratch: &mut [u8],
) -> bool {
    // Requests that waited for a pause to end.
    if !connection.pending.is_empty() {
        execute_pending(connection, client, door, table);
    }
    for _ in 0..MOST_READS {
        if connection.is_paused || client.is_leaving || client.is_killed {
            return true;
        }
        let len = match connection.wire.read(scratch) {
            Ok(0) => {
                client.is_leaving = true;
                return true;
            }
            Ok(len) => len,
            Err(error) if is_later(&error) => return true,
            Err(_) => {
                client.is_killed = true;
                return true;
            }
        };
        let bytes = &scratch[..len];
        if connection.pending.is_empty() {
            let done = connection.execute(bytes, client, door, table);
            connection.pending.extend_from_slice(&bytes[done..]);
        } else {
            connection.pending.extend_from_slice(bytes);
            execute_pending(connection, client, door, table);
        }
        if connection.pending.len() > REQUEST_LIMIT {
            return true;
        }
        if len < scratch.len() && !connection.wire.keeps_bytes() {
            return true;
        }
    }
    false
}

fn execute_pending(connection: &mut RespConnection, client: &mut RespClient, door: &mut Door, table: &LocalTable) {
    let mut pending = std::mem::take(&mut connection.pending);
    let done = connection.execute(&pending, client, door, table);
    if done == pending.len() {
        pending.clear();
        pending.shrink_to(KEPT_BYTES);
    } else {
        pending.drain(..done);
    }
    connection.pending = pending;
}
