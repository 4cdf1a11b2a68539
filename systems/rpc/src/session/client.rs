//! The client's end of a session: calls in slots, from their start to the last trace of them.
//!
//! A slot is a credit: the server holds one request per slot at most. It is free again when the server's reply has arrived,
//! not when the caller gives up: until then the server may read the request's memory.

use std::collections::VecDeque;
use std::time::Instant;

use longarm::RemoteKey;

use crate::carrier::{Carrier, SlotSet};
use crate::code::{Code, Executed};
use crate::frame::{FrameHeader, HEADER_BYTES, LARGE, RpcKind, large_key, outcome_of, take_metadata};
use crate::link::{CARRIER_READ, LinkBusy, SessionLink};
use crate::session::{Body, SessionLimits};
use crate::status::Status;

/// One call of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallId {
    pub(crate) slot: u16,
    pub(crate) number: u32,
}

#[cfg(any(test, feature = "sim"))]
impl CallId {
    /// The name of a call in a simulation of a program above sessions.
    #[doc(hidden)]
    pub fn simulated(number: u32) -> CallId {
        CallId { slot: 0, number }
    }
}

/// A request as the session takes it.
#[derive(Clone, Copy)]
pub(crate) struct NewCall<'a> {
    pub(crate) method: u64,
    /// Flags of the body: with metadata or without.
    pub(crate) flags: u8,
    pub(crate) deadline: Option<Instant>,
    pub(crate) body: &'a [u8],
}

/// A call that is over, for its caller.
pub(crate) struct Finished<B> {
    pub(crate) id: CallId,
    pub(crate) result: Result<ReplyBody<B>, Status>,
}

/// The body of a reply and its flags.
pub(crate) struct ReplyBody<B> {
    pub(crate) flags: u8,
    pub(crate) body: Body<B>,
}

/// The reason why a call was not started.
#[derive(Debug)]
pub enum NotStarted {
    /// All slots are taken, or the device is busy: try again after a poll.
    Full,
    /// It never will be.
    Refused(Status),
}

#[derive(Default)]
enum CallState {
    #[default]
    Free,
    Sent,
    /// The reply is large: it is being READ, or waits until the device takes the READ.
    Reading {
        header: FrameHeader,
        descriptor: [u8; 20],
    },
}

struct ClientSlot<E> {
    number: u32,
    state: CallState,
    deadline: Option<Instant>,
    /// The caller still waits.
    wanted: bool,
    exposed: Option<E>,
}

/// The client's end of a session.
pub(crate) struct ClientSession<L: SessionLink> {
    link: L,
    carrier: Carrier,
    limits: SessionLimits,
    slots: Vec<ClientSlot<L::Exposed>>,
    free: VecDeque<u16>,
    /// Slots whose large reply waits until the device takes the READ.
    unread: SlotSet,
    /// Messages that the device has not taken yet.
    unsent: VecDeque<[u8; HEADER_BYTES]>,
    finished: VecDeque<Finished<L::Bytes>>,
    /// The body of the reply that `next` has returned last.
    body: Vec<u8>,
    /// No call ends by its deadline before.
    earliest: Option<Instant>,
    draining: bool,
    down: Option<String>,
}

impl<L: SessionLink> ClientSession<L> {
    pub(crate) fn new(link: L, carrier: Carrier, limits: SessionLimits) -> ClientSession<L> {
        let empty = |_| ClientSlot { number: 0, state: CallState::Free, deadline: None, wanted: false, exposed: None };
        ClientSession {
            link,
            carrier,
            slots: (0..limits.slots).map(empty).collect(),
            free: (0..limits.slots).collect(),
            limits,
            unread: SlotSet::default(),
            unsent: VecDeque::new(),
            finished: VecDeque::new(),
            body: Vec::new(),
            earliest: None,
            draining: false,
            down: None,
        }
    }

    pub(crate) fn link(&mut self) -> &mut L {
        &mut self.link
    }

    pub(crate) fn carrier(&self) -> &Carrier {
        &self.carrier
    }

    /// Calls that the server has not answered.
    pub(crate) fn outstanding(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Calls at a time.
    pub(crate) fn slots(&self) -> u16 {
        self.limits.slots
    }

    /// True if the connection stands.
    pub(crate) fn is_up(&self) -> bool {
        self.down.is_none()
    }

    /// The reason why no further call can be started, if there is one.
    pub(crate) fn closed(&self) -> Option<&str> {
        let draining = self.draining.then_some("the server takes no more requests");
        self.down.as_deref().or(draining)
    }

    /// True if the session has ended.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn is_down(&self) -> bool {
        self.down.is_some()
    }

    /// True if something waits until the device takes it: [`next`](ClientSession::next) tries again.
    pub(crate) fn has_unsent(&self) -> bool {
        let waits = !self.unsent.is_empty() || self.unread != SlotSet::default() || self.carrier.is_blocked();
        self.down.is_none() && waits
    }

    /// True if no call is without an answer, and nothing waits for the device.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn is_quiet(&self) -> bool {
        self.outstanding() == 0 && self.unsent.is_empty() && self.finished.is_empty()
    }

    /// The body of the reply that [`next`](ClientSession::next) has returned last, if it was short.
    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    /// As [`start`](ClientSession::start), with a body that the server READs; that of `call` does not count.
    pub(crate) fn start_exposed(
        &mut self,
        call: &NewCall<'_>,
        (exposed, key): (L::Exposed, RemoteKey),
        now: Instant,
    ) -> Result<CallId, NotStarted> {
        if key.len_bytes() > self.limits.max_message_bytes as u64 {
            return Err(too_long(key.len_bytes(), self.limits.max_message_bytes));
        }
        let id = self.start(&NewCall { flags: call.flags | LARGE, body: &key.to_bytes(), ..*call }, now)?;
        self.slots[usize::from(id.slot)].exposed = Some(exposed);
        Ok(id)
    }

    /// Sends a request.
    pub(crate) fn start(&mut self, call: &NewCall<'_>, now: Instant) -> Result<CallId, NotStarted> {
        if let Some(why) = self.closed() {
            return Err(NotStarted::Refused(Status::unavailable(why).with_executed(Executed::No)));
        }
        if call.body.len() > self.limits.max_message_bytes {
            return Err(too_long(call.body.len() as u64, self.limits.max_message_bytes));
        }
        let Some(info) = time_left(call.deadline, now) else {
            let late = Status::deadline_exceeded("the deadline passed before the request was sent");
            return Err(NotStarted::Refused(late.with_executed(Executed::No)));
        };
        let Some(slot) = self.free.front().copied() else {
            return Err(NotStarted::Full);
        };
        let number = self.slots[usize::from(slot)].number.wrapping_add(1);
        let header = FrameHeader {
            kind: RpcKind::Request,
            flags: call.flags,
            slot,
            number,
            body_bytes: call.body.len() as u32,
            info,
            method: call.method,
        };
        let exposed = self.send_request(header, call.body, now).map_err(|LinkBusy| NotStarted::Full)?;
        self.free.pop_front();
        self.slots[usize::from(slot)] =
            ClientSlot { number, state: CallState::Sent, deadline: call.deadline, wanted: true, exposed };
        self.earliest = [self.earliest, call.deadline].into_iter().flatten().min();
        Ok(CallId { slot, number })
    }

    /// A long body stays here, and the server READs it.
    fn send_request(
        &mut self,
        mut header: FrameHeader,
        body: &[u8],
        now: Instant,
    ) -> Result<Option<L::Exposed>, LinkBusy> {
        if body.len() <= self.carrier.request_inline_bytes() {
            self.carrier.send(&mut self.link, &header, body, now)?;
            return Ok(None);
        }
        let (exposed, key) = self.link.expose(&[body])?;
        let descriptor = key.to_bytes();
        header.flags |= LARGE;
        header.body_bytes = descriptor.len() as u32;
        self.carrier.send(&mut self.link, &header, &descriptor, now)?;
        Ok(Some(exposed))
    }

    /// The caller waits no longer. Its slot and its memory stay taken until the server has answered.
    pub(crate) fn cancel(&mut self, id: CallId) {
        if let Some(slot) = self.slots.get_mut(usize::from(id.slot))
            && slot.number == id.number
            && slot.wanted
            && !matches!(slot.state, CallState::Free)
        {
            slot.wanted = false;
            self.tell(FrameHeader::bare(RpcKind::Cancel, id.slot, id.number));
        }
    }

    /// The next call that is over. A short reply's body is in [`body`](ClientSession::body).
    pub(crate) fn next(&mut self, now: Instant) -> Option<Finished<L::Bytes>> {
        if let Some(finished) = self.finished.pop_front() {
            return Some(finished);
        }
        if self.down.is_some() {
            return None;
        }
        while let Some(header) = self.carrier.receive(&mut self.link, &mut self.body, now) {
            if let Some(finished) = self.on_reply(header) {
                return Some(finished);
            }
        }
        self.carrier.tick(&mut self.link, now);
        if self.carrier.is_broken() {
            self.on_down("the server broke the rules of the way");
        }
        if self.earliest.is_some_and(|earliest| earliest <= now) {
            self.expire(now);
        }
        self.flush();
        self.finished.pop_front()
    }

    /// The first moment at which [`next`](ClientSession::next) has something to do by itself.
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        let timers = [self.earliest, self.carrier.next_timer()].into_iter().flatten();
        timers.min().filter(|_| self.down.is_none())
    }

    fn on_reply(&mut self, header: FrameHeader) -> Option<Finished<L::Bytes>> {
        let slot = self.slots.get_mut(usize::from(header.slot))?;
        let is_awaited = header.kind == RpcKind::Reply && slot.number == header.number;
        if !is_awaited || !matches!(slot.state, CallState::Sent) {
            return None;
        }
        // The server has done with the request.
        slot.exposed = None;
        let id = CallId { slot: header.slot, number: header.number };
        if !header.is_large() {
            return self.finish_short(id, &header);
        }
        let Ok(descriptor) = <[u8; 20]>::try_from(&self.body[..]) else {
            self.on_down("the server sent a malformed reply");
            return None;
        };
        slot.state = CallState::Reading { header, descriptor };
        self.read(id);
        None
    }

    fn finish_short(&mut self, id: CallId, header: &FrameHeader) -> Option<Finished<L::Bytes>> {
        let (code, executed) = outcome_of(header.info);
        let was_wanted = self.release(id);
        let result = match code {
            Code::Ok => Ok(ReplyBody { flags: header.flags, body: Body::Short }),
            code => Err(status_of(code, executed, header.flags, &self.body)),
        };
        was_wanted.then_some(Finished { id, result })
    }

    /// READs a large reply; the device may have to be asked again.
    fn read(&mut self, id: CallId) {
        self.unread.remove(id.slot);
        let slot = &self.slots[usize::from(id.slot)];
        let CallState::Reading { descriptor, .. } = &slot.state else {
            return;
        };
        if !slot.wanted {
            self.done_with(id);
            return;
        }
        match large_key(descriptor, self.limits.max_message_bytes) {
            None => self.on_down("the server sent a reply that is too long"),
            Some(key) if self.link.read(&key, tag_of(id)).is_err() => self.unread.insert(id.slot),
            Some(_) => {}
        }
    }

    /// A READ is over.
    pub(crate) fn on_read(&mut self, tag: u64, bytes: Option<L::Bytes>) {
        if tag & CARRIER_READ != 0 {
            return self.carrier.on_read(tag, bytes.as_ref().map(AsRef::as_ref));
        }
        let id = id_of(tag);
        let Some(slot) = self.slots.get_mut(usize::from(id.slot)).filter(|slot| slot.number == id.number) else {
            return;
        };
        let CallState::Reading { header, .. } = slot.state else {
            return;
        };
        let Some(bytes) = bytes else {
            return; // The connection has ended, which is told separately.
        };
        let result = match outcome_of(header.info) {
            (Code::Ok, _) => Ok(ReplyBody { flags: header.flags & !LARGE, body: Body::Long(bytes) }),
            (code, executed) => Err(status_of(code, executed, header.flags, bytes.as_ref())),
        };
        if self.done_with(id) {
            self.finished.push_back(Finished { id, result });
        }
    }

    /// Lets the server free a large reply, and frees the slot. Returns whether the caller still waits.
    fn done_with(&mut self, id: CallId) -> bool {
        self.tell(FrameHeader::bare(RpcKind::Done, id.slot, id.number));
        self.release(id)
    }

    fn release(&mut self, id: CallId) -> bool {
        let slot = &mut self.slots[usize::from(id.slot)];
        slot.state = CallState::Free;
        slot.deadline = None;
        self.free.push_back(id.slot);
        std::mem::take(&mut slot.wanted)
    }

    /// Sends a message without a body over the connection itself.
    fn tell(&mut self, header: FrameHeader) {
        self.unsent.push_back(header.encode());
        self.flush();
    }

    fn flush(&mut self) {
        while let Some(message) = self.unsent.front() {
            if self.link.send(message).is_err() {
                return;
            }
            self.unsent.pop_front();
        }
        let mut unread = self.unread;
        while let Some(slot) = unread.pop() {
            self.read(CallId { slot, number: self.slots[usize::from(slot)].number });
        }
    }

    /// A message has come over the connection itself.
    pub(crate) fn on_message(&mut self, message: &[u8]) {
        match FrameHeader::split(message) {
            Some((FrameHeader { kind: RpcKind::Drain, .. }, _)) => self.draining = true,
            _ => self.on_down("the server sent a malformed message"),
        }
    }

    /// Immediate data has arrived.
    pub(crate) fn on_imm(&mut self, imm: u32) {
        self.carrier.on_imm(imm);
    }

    /// A datagram has arrived, from the server or from anybody else.
    pub(crate) fn on_datagram(&mut self, datagram: &[u8], now: Instant) {
        self.carrier.on_datagram(datagram, now);
    }

    /// The connection has ended: nobody will ever know more about the calls that are under way.
    pub(crate) fn on_down(&mut self, why: &str) {
        if self.down.is_some() {
            return;
        }
        self.down = Some(why.to_string());
        for (at, slot) in self.slots.iter_mut().enumerate() {
            let id = CallId { slot: at as u16, number: slot.number };
            let executed = match slot.state {
                CallState::Free => continue,
                CallState::Sent => Executed::Unknown,
                CallState::Reading { .. } => Executed::Yes,
            };
            slot.exposed = None;
            if std::mem::take(&mut slot.wanted) {
                let status = Status::unavailable(why).with_executed(executed);
                self.finished.push_back(Finished { id, result: Err(status) });
            }
        }
    }

    /// Ends the calls whose deadline has passed.
    fn expire(&mut self, now: Instant) {
        self.earliest = None;
        for at in 0..self.limits.slots {
            let slot = &self.slots[usize::from(at)];
            let (id, executed) = (CallId { slot: at, number: slot.number }, executed_so_far(&slot.state));
            match slot.deadline.filter(|_| slot.wanted) {
                Some(deadline) if deadline <= now => {
                    self.cancel(id);
                    let late = Status::deadline_exceeded("no reply before the deadline").with_executed(executed);
                    self.finished.push_back(Finished { id, result: Err(late) });
                }
                deadline => self.earliest = [self.earliest, deadline].into_iter().flatten().min(),
            }
        }
    }
}

/// Whether the server has executed a call of that state.
fn executed_so_far(state: &CallState) -> Executed {
    match state {
        CallState::Reading { .. } => Executed::Yes,
        CallState::Free | CallState::Sent => Executed::Unknown,
    }
}

fn too_long(len_bytes: u64, most: usize) -> NotStarted {
    let words = format!("{len_bytes} bytes are more than {most}");
    NotStarted::Refused(Status::resource_exhausted(words).with_executed(Executed::No))
}

/// The microseconds until a deadline as a request carries them; `None` if it has passed. Zero means no deadline: so a
/// server does not give up a call whose deadline is too far away for the field.
fn time_left(deadline: Option<Instant>, now: Instant) -> Option<u32> {
    let Some(deadline) = deadline else {
        return Some(0);
    };
    match deadline.saturating_duration_since(now).as_micros() {
        0 => None,
        left => Some(u32::try_from(left).unwrap_or(0)),
    }
}

fn tag_of(id: CallId) -> u64 {
    u64::from(id.slot) << 32 | u64::from(id.number)
}

fn id_of(tag: u64) -> CallId {
    CallId { slot: (tag >> 32) as u16, number: tag as u32 }
}

/// The status of a reply that is none: perhaps metadata, and words.
fn status_of(code: Code, executed: Executed, flags: u8, body: &[u8]) -> Status {
    let Some((metadata, start)) = take_metadata(flags, body) else {
        return Status::internal("the server sent malformed metadata").with_executed(executed);
    };
    Status::new(code, String::from_utf8_lossy(&body[start..])).with_executed(executed).with_metadata(metadata)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_deadline_that_is_too_far_away_does_not_come_early() {
        let now = Instant::now();
        let left = |after| time_left(Some(now + after), now);
        assert_eq!(time_left(None, now), Some(0));
        assert_eq!(left(Duration::from_nanos(999)), None);
        assert_eq!(left(Duration::from_micros(1)), Some(1));
        assert_eq!(left(Duration::from_micros(u64::from(u32::MAX))), Some(u32::MAX));
        assert_eq!(left(Duration::from_micros(u64::from(u32::MAX) + 1)), Some(0), "no deadline, for the server");
    }
}
