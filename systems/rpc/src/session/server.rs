//! The server's end of a session: requests in slots, each executed once at most, and their replies.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use longarm::RemoteKey;

use crate::carrier::{Carrier, SlotList, SlotSet};
use crate::code::{Code, Executed};
use crate::frame::{FrameHeader, LARGE, RpcKind, large_key, outcome_info};
use crate::link::{CARRIER_READ, LinkBusy, SessionLink};
use crate::session::{Body, CallId, SessionLimits, Withdrawn};

/// A request for a handler.
#[derive(Debug)]
pub(crate) struct Arrived<B> {
    pub(crate) id: CallId,
    pub(crate) method: u64,
    /// Flags of the body: with metadata or without.
    pub(crate) flags: u8,
    /// The moment at which the caller stops waiting.
    pub(crate) deadline: Option<Instant>,
    pub(crate) body: Body<B>,
}

/// Events of a session that an observer counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerSessionCounters {
    /// Requests that arrived again: they are not executed again.
    pub(crate) repeated: u64,
    /// Messages that no honest client sends.
    pub(crate) malformed: u64,
    /// Requests whose deadline had passed before a handler ran.
    pub(crate) late: u64,
    /// Requests that were withdrawn before a handler ran.
    pub(crate) cancelled: u64,
}

enum ServeState {
    /// No request, or its reply has been sent.
    Idle,
    /// The request is large: it is being READ, or waits until the device takes the READ.
    Reading { header: FrameHeader, descriptor: [u8; 20], deadline: Option<Instant> },
    /// A handler has it.
    Running,
}

struct ServerSlot<E> {
    number: u32,
    state: ServeState,
    withdrawn: Withdrawn,
    /// The last reply, until it is sent; or until the next request, if it may get lost.
    reply: Option<(FrameHeader, Vec<u8>)>,
    /// The memory of a large reply, until the client has read it.
    exposed: Option<E>,
}

impl<E> Default for ServerSlot<E> {
    fn default() -> ServerSlot<E> {
        ServerSlot { number: 0, state: ServeState::Idle, withdrawn: Withdrawn::default(), reply: None, exposed: None }
    }
}

/// The server's end of a session.
pub(crate) struct ServerSession<L: SessionLink> {
    link: L,
    carrier: Carrier,
    limits: SessionLimits,
    slots: SlotList<ServerSlot<L::Exposed>>,
    /// Slots whose reply the device has not taken yet.
    unsent: SlotSet,
    /// Slots whose request waits until the device takes the READ.
    unread: SlotSet,
    arrived: VecDeque<Arrived<L::Bytes>>,
    body: Vec<u8>,
    draining: bool,
    /// The peer has been told that the server drains.
    drain_told: bool,
    counters: ServerSessionCounters,
    down: Option<String>,
}

impl<L: SessionLink> ServerSession<L> {
    pub(crate) fn new(link: L, carrier: Carrier, limits: SessionLimits) -> ServerSession<L> {
        ServerSession {
            link,
            carrier,
            slots: SlotList::new(limits.slots),
            limits,
            unsent: SlotSet::default(),
            unread: SlotSet::default(),
            arrived: VecDeque::new(),
            body: Vec::new(),
            draining: false,
            drain_told: false,
            counters: ServerSessionCounters::default(),
            down: None,
        }
    }

    pub(crate) fn link(&mut self) -> &mut L {
        &mut self.link
    }

    /// Calls at a time.
    pub(crate) fn slots(&self) -> u16 {
        self.slots.most()
    }

    pub(crate) fn carrier(&self) -> &Carrier {
        &self.carrier
    }

    pub(crate) fn counters(&self) -> ServerSessionCounters {
        self.counters
    }

    /// The reason why the session has ended, if it has.
    pub(crate) fn ended(&self) -> Option<&str> {
        self.down.as_deref()
    }

    /// The body of the request that [`next`](ServerSession::next) has returned last, if it was short; to be put back.
    pub(crate) fn take_body(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.body)
    }

    /// Gives the buffer of [`take_body`](ServerSession::take_body) back, so that no other is allocated.
    pub(crate) fn put_body(&mut self, body: Vec<u8>) {
        self.body = body;
    }

    /// Requests that have no reply yet.
    pub(crate) fn running(&self) -> usize {
        self.slots.iter().filter(|slot| !matches!(slot.state, ServeState::Idle)).count()
    }

    /// True if nothing that the client has sent is without an answer, as far as we know, and all answers are sent.
    pub(crate) fn is_quiet(&self) -> bool {
        self.running() == 0 && self.unsent == SlotSet::default() && self.slots.iter().all(|slot| slot.exposed.is_none())
    }

    /// Takes no more requests: those that still come are refused.
    pub(crate) fn drain(&mut self) {
        self.draining = true;
    }

    /// The next request for a handler. A short one's body is in the buffer of [`take_body`](ServerSession::take_body).
    pub(crate) fn next(&mut self, now: Instant) -> Option<Arrived<L::Bytes>> {
        if let Some(arrived) = self.arrived.pop_front() {
            return Some(arrived);
        }
        if self.down.is_some() {
            return None;
        }
        let mut body = std::mem::take(&mut self.body);
        let mut found = None;
        while let Some(header) = self.carrier.receive(&mut self.link, &mut body, now) {
            found = self.on_request(header, &body, now);
            if found.is_some() || self.down.is_some() {
                break;
            }
        }
        self.body = body;
        if found.is_none() {
            self.carrier.tick(&mut self.link, now);
        }
        if self.carrier.is_broken() {
            self.break_off("the client broke the rules of the way");
        }
        if found.is_none() {
            self.flush(now);
            found = self.arrived.pop_front();
        }
        found
    }

    fn on_request(&mut self, header: FrameHeader, body: &[u8], now: Instant) -> Option<Arrived<L::Bytes>> {
        let Some(slot) = self.slots.reach(header.slot).filter(|_| header.kind == RpcKind::Request) else {
            self.break_off("the client sent a message that is no request");
            return None;
        };
        if header.number == slot.number {
            self.counters.repeated += 1;
            self.repeat(header.slot, now);
            return None;
        }
        if header.number != slot.number.wrapping_add(1) || !matches!(slot.state, ServeState::Idle) {
            if self.carrier.may_lose() {
                self.counters.repeated += 1; // An old one, which the network has kept.
            } else {
                self.break_off("the client used a slot that is taken");
            }
            return None;
        }
        (slot.number, slot.state) = (header.number, ServeState::Running);
        (slot.reply, slot.exposed) = (None, None);
        self.unsent.remove(header.slot);
        let id = CallId { slot: header.slot, number: header.number };
        let deadline = (header.info != 0).then(|| now + Duration::from_micros(u64::from(header.info)));
        if self.draining {
            self.refuse(id, Code::Unavailable, "the server is shutting down", now);
            return None;
        }
        if header.is_large() {
            self.begin_read(header, body, deadline, now);
            return None;
        }
        Some(Arrived { id, method: header.method, flags: header.flags, deadline, body: Body::Short })
    }

    /// The client asks again: it has not had the reply.
    fn repeat(&mut self, slot: u16, now: Instant) {
        let Some((header, body)) = self.slots[slot].reply.take() else {
            return; // The handler still runs.
        };
        if self.carrier.send(&mut self.link, &header, &body, now).is_err() {
            self.unsent.insert(slot);
        }
        self.slots[slot].reply = Some((header, body));
    }

    fn begin_read(&mut self, header: FrameHeader, body: &[u8], deadline: Option<Instant>, now: Instant) {
        let id = CallId { slot: header.slot, number: header.number };
        let Ok(descriptor) = <[u8; 20]>::try_from(body) else {
            self.break_off("the client sent a malformed key");
            return;
        };
        if large_key(&descriptor, self.limits.max_message_bytes).is_none() {
            self.counters.malformed += 1;
            self.refuse(id, Code::ResourceExhausted, "the request is too long", now);
            return;
        }
        self.slots[header.slot].state = ServeState::Reading { header, descriptor, deadline };
        self.read(id);
    }

    fn read(&mut self, id: CallId) {
        self.unread.remove(id.slot);
        let ServeState::Reading { descriptor, .. } = &self.slots[id.slot].state else {
            return;
        };
        let Some(key) = large_key(descriptor, self.limits.max_message_bytes) else {
            return;
        };
        let tag = u64::from(id.slot) << 32 | u64::from(id.number);
        if self.link.read(&key, tag).is_err() {
            self.unread.insert(id.slot);
        }
    }

    /// A READ is over.
    pub(crate) fn on_read(&mut self, tag: u64, bytes: Option<L::Bytes>) {
        if tag & CARRIER_READ != 0 {
            return self.carrier.on_read(tag, bytes.as_ref().map(AsRef::as_ref));
        }
        let id = CallId { slot: (tag >> 32) as u16, number: tag as u32 };
        let Some(slot) = self.slots.get_mut(id.slot).filter(|slot| slot.number == id.number) else {
            return;
        };
        let (ServeState::Reading { header, deadline, .. }, Some(bytes)) = (&slot.state, bytes) else {
            return; // The connection has ended, which is told separately.
        };
        let (method, flags, deadline) = (header.method, header.flags & !LARGE, *deadline);
        slot.state = ServeState::Running;
        self.arrived.push_back(Arrived { id, method, flags, deadline, body: Body::Long(bytes) });
    }

    /// True if nobody waits for the call any more. Otherwise its handler may run. If the answer is true, the caller
    /// is told that it did not.
    pub(crate) fn is_pointless(&mut self, id: CallId, deadline: Option<Instant>, now: Instant) -> bool {
        let is_late = deadline.is_some_and(|deadline| deadline <= now);
        let is_pointless = is_late || self.slots[id.slot].withdrawn.has(id.number);
        if is_pointless {
            self.refuse_pointless(id, now);
        }
        is_pointless
    }

    /// Refuses a call for which nobody waits any more. Another thread may have found that out by a later look at the clock
    /// than `now`.
    pub(crate) fn refuse_pointless(&mut self, id: CallId, now: Instant) {
        if self.slots[id.slot].withdrawn.has(id.number) {
            self.counters.cancelled += 1;
            self.refuse(id, Code::Cancelled, "withdrawn before it was executed", now);
        } else {
            self.counters.late += 1;
            self.refuse(id, Code::DeadlineExceeded, "the deadline passed before the handler ran", now);
        }
    }

    /// The withdrawals of a slot, for a handler that waits for a thread.
    pub(crate) fn withdrawn(&self, slot: u16) -> Withdrawn {
        self.slots[slot].withdrawn.clone()
    }

    /// Replies that no handler ran.
    pub(crate) fn refuse(&mut self, id: CallId, code: Code, words: &str, now: Instant) {
        self.reply(id, (code, Executed::No), 0, words.as_bytes(), now);
    }

    /// Replies to a request. The reply is sent now, or as soon as the device takes it.
    pub(crate) fn reply(&mut self, id: CallId, outcome: (Code, Executed), flags: u8, body: &[u8], now: Instant) {
        if !self.end_call(id) {
            return;
        }
        let limit = self.carrier.reply_inline_bytes();
        let is_error = outcome.0 != Code::Ok;
        // The words of an error are cut where they are longer than a message may be without a READ.
        let body = if is_error && flags == 0 { &body[..body.len().min(limit)] } else { body };
        let header = FrameHeader {
            kind: RpcKind::Reply,
            flags,
            slot: id.slot,
            number: id.number,
            body_bytes: body.len() as u32,
            info: outcome_info(outcome.0, outcome.1),
            method: 0,
        };
        if body.len() > self.limits.max_message_bytes {
            let words = format!("a reply of {} bytes is too long", body.len());
            self.reply_without_room(header, &words, outcome.1, now);
        } else if body.len() <= limit {
            self.send_reply(header, body, now);
        } else {
            self.reply_large(header, body, now);
        }
    }

    /// Replies with memory that the client READs.
    pub(crate) fn reply_exposed(&mut self, id: CallId, exposed: (L::Exposed, RemoteKey), now: Instant) {
        if !self.end_call(id) {
            return;
        }
        let info = outcome_info(Code::Ok, Executed::Yes);
        let header = FrameHeader { info, ..FrameHeader::bare(RpcKind::Reply, id.slot, id.number) };
        let len_bytes = exposed.1.len_bytes();
        if len_bytes > self.limits.max_message_bytes as u64 {
            let words = format!("a reply of {len_bytes} bytes is too long");
            return self.reply_without_room(header, &words, Executed::Yes, now);
        }
        self.send_exposed(header, exposed, now);
    }

    /// True if the call waits for its reply, which is made now.
    fn end_call(&mut self, id: CallId) -> bool {
        let Some(slot) = self.slots.get_mut(id.slot).filter(|slot| slot.number == id.number) else {
            return false; // The session has gone on without it.
        };
        if self.down.is_some() || matches!(slot.state, ServeState::Idle) {
            return false;
        }
        slot.state = ServeState::Idle;
        true
    }

    fn send_exposed(&mut self, mut header: FrameHeader, (exposed, key): (L::Exposed, RemoteKey), now: Instant) {
        self.slots[header.slot].exposed = Some(exposed);
        header.flags |= LARGE;
        let descriptor = key.to_bytes();
        header.body_bytes = descriptor.len() as u32;
        self.send_reply(header, &descriptor, now);
    }

    fn reply_large(&mut self, header: FrameHeader, body: &[u8], now: Instant) {
        match self.link.expose(&[body]) {
            Ok(exposed) => self.send_exposed(header, exposed, now),
            Err(LinkBusy) => {
                self.reply_without_room(header, "the server has no memory for the reply", Executed::Yes, now);
            }
        }
    }

    /// Words take the place of a reply that cannot be sent. They are cut, too.
    fn reply_without_room(&mut self, mut header: FrameHeader, words: &str, executed: Executed, now: Instant) {
        let words = &words.as_bytes()[..words.len().min(self.carrier.reply_inline_bytes())];
        header.info = outcome_info(Code::ResourceExhausted, executed);
        (header.flags, header.body_bytes) = (0, words.len() as u32);
        self.send_reply(header, words, now);
    }

    fn send_reply(&mut self, header: FrameHeader, body: &[u8], now: Instant) {
        let is_sent = self.carrier.send(&mut self.link, &header, body, now).is_ok();
        if !is_sent {
            self.unsent.insert(header.slot);
        }
        if !is_sent || self.carrier.may_lose() {
            self.slots[header.slot].reply = Some((header, body.to_vec()));
        }
    }

    /// Sends what the device had no place for.
    fn flush(&mut self, now: Instant) {
        let mut unsent = self.unsent;
        while let Some(slot) = unsent.pop() {
            self.unsent.remove(slot);
            self.repeat(slot, now);
            if !self.unsent.contains(slot) && !self.carrier.may_lose() {
                self.slots[slot].reply = None;
            }
        }
        let mut unread = self.unread;
        while let Some(slot) = unread.pop() {
            self.read(CallId { slot, number: self.slots[slot].number });
        }
        if self.draining && !self.drain_told {
            let told = self.link.send(&FrameHeader::bare(RpcKind::Drain, 0, 0).encode());
            self.drain_told = told.is_ok();
        }
    }

    /// A message has come over the connection itself.
    pub(crate) fn on_message(&mut self, message: &[u8]) {
        let header = FrameHeader::split(message).filter(|(_, body)| body.is_empty()).map(|(header, _)| header);
        let Some((header, slot)) = header.and_then(|header| Some((header, self.slots.reach(header.slot)?))) else {
            return self.break_off("the client sent a malformed message");
        };
        match header.kind {
            // The message may overtake its request, which lies in memory or is on its way; or come after the reply.
            RpcKind::Cancel => slot.withdrawn.set(header.number),
            RpcKind::Done if slot.number == header.number => slot.exposed = None,
            RpcKind::Done => {}
            _ => self.break_off("the client sent a message of another kind"),
        }
    }

    /// Immediate data has arrived.
    pub(crate) fn on_imm(&mut self, imm: u32) {
        self.carrier.on_imm(imm);
    }

    /// A datagram has arrived, from the client or from anybody else.
    pub(crate) fn on_datagram(&mut self, datagram: &[u8], now: Instant) {
        self.carrier.on_datagram(datagram, now);
    }

    /// The first moment at which [`next`](ServerSession::next) has something to do by itself.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        self.carrier.next_timer().filter(|_| self.down.is_none())
    }

    /// The connection has ended. Handlers go on, and their replies go nowhere.
    pub(crate) fn on_down(&mut self, why: &str) {
        self.down.get_or_insert_with(|| why.to_string());
    }

    /// The client broke the rules: nothing that it says is believed any more.
    fn break_off(&mut self, why: &str) {
        self.counters.malformed += 1;
        self.on_down(why);
    }
}
