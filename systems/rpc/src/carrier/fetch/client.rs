use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::carrier::checked::check_record;
use crate::carrier::fetch::{ASKED_BYTES, FetchSession, asked_word};
use crate::carrier::record::{Look, RecordEnds, record_bytes, take_record};
use crate::carrier::slots::SlotSet;
use crate::frame::{FrameHeader, HEADER_BYTES, RpcKind};
use crate::link::{CARRIER_READ, LinkBusy, SessionLink};

/// The bit of a READ's tag for the second part of a reply.
const REST: u64 = 1 << 62;
/// The first READ of a reply has this length (RFP: one READ suffices for most replies).
pub(crate) const FIRST_READ_BYTES: u64 = 256;
/// After this many READs without the reply the client asks for it.
pub(crate) const MISSES: u32 = 5;
/// The client asks for so many further replies in advance.
pub(crate) const ASKED_IN_ADVANCE: u32 = 32;
/// The pause before a READ after the client has asked; it doubles each time.
const FIRST_PAUSE: Duration = Duration::from_micros(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(10);

/// A request until its reply has been found, and the reply until the session takes it.
#[derive(Clone, Default)]
struct FetchCall {
    number: u32,
    /// READs that did not find the reply.
    misses: u32,
    pause: Duration,
    /// No READ before; `None`: at the next tick.
    read_at: Option<Instant>,
    /// Bytes of the reply that have been read.
    fetched: Vec<u8>,
    /// The first part has been read, and the reply has so many bytes more.
    rest_bytes: u64,
}

/// The client's end of a session.
pub(crate) struct FetchClient {
    session: FetchSession,
    calls: Vec<FetchCall>,
    /// Calls whose reply is to be fetched.
    fetching: SlotSet,
    /// Calls with a READ under way.
    in_flight: SlotSet,
    /// Calls whose reply the server may send.
    asked: SlotSet,
    /// Calls whose question the device has not taken yet.
    unasked: SlotSet,
    /// Slots whose reply has been fetched.
    found: VecDeque<u16>,
    /// Requests that ask for their reply in advance.
    in_advance: u32,
    pub(crate) broken: bool,
}

impl FetchClient {
    pub(crate) fn new(session: FetchSession) -> FetchClient {
        FetchClient {
            session,
            calls: vec![FetchCall::default(); usize::from(session.slots)],
            fetching: SlotSet::default(),
            in_flight: SlotSet::default(),
            asked: SlotSet::default(),
            unasked: SlotSet::default(),
            found: VecDeque::new(),
            in_advance: 0,
            broken: false,
        }
    }

    pub(crate) fn session(&self) -> &FetchSession {
        &self.session
    }

    pub(crate) fn send<L: SessionLink>(
        &mut self,
        link: &mut L,
        header: &FrameHeader,
        body: &[u8],
        now: Instant,
    ) -> Result<(), LinkBusy> {
        let (at, ends) = (self.session.request_at(header.slot), RecordEnds::of(header));
        let [head, body, tail] = ends.around(body);
        if self.in_advance > 0 {
            link.write(at, &[&asked_word(header.number).to_le_bytes(), head, body, tail])?;
            self.in_advance -= 1;
            self.asked.insert(header.slot);
        } else {
            link.write(at + ASKED_BYTES, &[head, body, tail])?;
            self.fetching.insert(header.slot);
        }
        self.in_flight.remove(header.slot);
        let call = &mut self.calls[usize::from(header.slot)];
        (call.number, call.misses, call.pause, call.read_at) = (header.number, 0, FIRST_PAUSE, Some(now));
        call.rest_bytes = 0;
        Ok(())
    }

    /// A READ is over.
    pub(crate) fn on_read(&mut self, tag: u64, bytes: &[u8]) {
        let (slot, number) = ((tag >> 32) as u16, tag as u32);
        let Some(call) = self.calls.get_mut(usize::from(slot)).filter(|call| call.number == number) else {
            return;
        };
        if !self.in_flight.contains(slot) {
            return; // The server has sent the reply meanwhile.
        }
        self.in_flight.remove(slot);
        let is_rest = tag & REST != 0;
        if !is_rest {
            call.fetched.clear();
        }
        call.fetched.extend_from_slice(bytes);
        call.rest_bytes = 0;
        call.read_at = None;
        match look_at(&call.fetched, slot, number, self.session.reply_slot_bytes) {
            Fetched::Whole => {
                self.forget(slot);
                self.found.push_back(slot);
            }
            Fetched::Beginning { rest_bytes } if !is_rest => call.rest_bytes = rest_bytes,
            Fetched::Beginning { .. } | Fetched::Nothing => call.misses = call.misses.saturating_add(1),
            Fetched::Broken => self.broken = true,
        }
    }

    fn forget(&mut self, slot: u16) {
        for set in [&mut self.fetching, &mut self.in_flight, &mut self.asked, &mut self.unasked] {
            set.remove(slot);
        }
    }

    pub(crate) fn receive<L: SessionLink>(&mut self, link: &mut L, body: &mut Vec<u8>) -> Option<FrameHeader> {
        while let Some(slot) = self.found.pop_front() {
            if let Some((header, found)) = check_record(&self.calls[usize::from(slot)].fetched) {
                body.clear();
                body.extend_from_slice(found);
                return Some(header);
            }
        }
        let mut left = self.asked;
        while let Some(slot) = left.pop() {
            let (at, room_bytes) = (self.session.reply_at(slot), self.session.reply_slot_bytes);
            match take_record(link.area(), at, room_bytes, body) {
                Look::Message(header)
                    if header.slot == slot && header.number == self.calls[usize::from(slot)].number =>
                {
                    self.forget(slot);
                    return Some(header);
                }
                Look::Nothing => {}
                Look::Message(_) | Look::Broken => {
                    self.broken = true;
                    return None;
                }
            }
        }
        None
    }

    pub(crate) fn next_timer(&self) -> Option<Instant> {
        let (mut left, mut earliest) = (self.fetching, None);
        while let Some(slot) = left.pop() {
            if !self.in_flight.contains(slot) {
                let read_at = self.calls[usize::from(slot)].read_at;
                earliest = [earliest, read_at].into_iter().flatten().min();
            }
        }
        earliest
    }

    /// Fetches replies, and asks for those that it does not find.
    pub(crate) fn tick<L: SessionLink>(&mut self, link: &mut L, now: Instant) {
        let mut left = self.fetching;
        while let Some(slot) = left.pop() {
            if self.in_flight.contains(slot) {
                continue;
            }
            let call = &mut self.calls[usize::from(slot)];
            if call.misses >= MISSES && !self.asked.contains(slot) {
                self.asked.insert(slot);
                self.unasked.insert(slot);
                self.in_advance = ASKED_IN_ADVANCE;
            }
            let is_pausing = call.misses >= MISSES && call.rest_bytes == 0;
            let read_at = *call.read_at.get_or_insert_with(|| {
                let pause = if is_pausing { call.pause } else { Duration::ZERO };
                call.pause = if is_pausing { (call.pause * 2).min(LONGEST_PAUSE) } else { call.pause };
                now + pause
            });
            if read_at <= now {
                self.read(link, slot, now);
            }
        }
        self.ask(link);
    }

    fn ask<L: SessionLink>(&mut self, link: &mut L) {
        let mut left = self.unasked;
        while let Some(slot) = left.pop() {
            let word = asked_word(self.calls[usize::from(slot)].number);
            if link.write(self.session.request_at(slot), &[&word.to_le_bytes()]).is_ok() {
                self.unasked.remove(slot);
            }
        }
    }

    fn read<L: SessionLink>(&mut self, link: &mut L, slot: u16, now: Instant) {
        let call = &mut self.calls[usize::from(slot)];
        let tag = CARRIER_READ | u64::from(slot) << 32 | u64::from(call.number);
        let first_bytes = FIRST_READ_BYTES.min(self.session.reply_slot_bytes);
        let (skip, len_bytes, tag) = match call.rest_bytes {
            0 => (0, first_bytes, tag),
            rest_bytes => (first_bytes, rest_bytes, tag | REST),
        };
        let Some(key) = link.peer_read_key(self.session.reply_at(slot) + skip, len_bytes) else {
            self.broken = true;
            return;
        };
        if link.read(&key, tag).is_ok() {
            self.in_flight.insert(slot);
        } else {
            call.read_at = Some(now + FIRST_PAUSE);
        }
    }
}

/// The contents of what has been read.
enum Fetched {
    /// The reply, which passes.
    Whole,
    /// The beginning of the reply.
    Beginning { rest_bytes: u64 },
    /// Another reply, or one half stored.
    Nothing,
    /// The server broke the rules: the reply goes beyond the end of its place.
    Broken,
}

fn look_at(fetched: &[u8], slot: u16, number: u32, room_bytes: u64) -> Fetched {
    let Some(header) = fetched.first_chunk::<HEADER_BYTES>().and_then(FrameHeader::decode) else {
        return Fetched::Nothing;
    };
    if (header.slot, header.number, header.kind) != (slot, number, RpcKind::Reply) {
        return Fetched::Nothing;
    }
    let len_bytes = record_bytes(u64::from(header.body_bytes));
    if len_bytes > room_bytes {
        return Fetched::Broken;
    }
    match len_bytes.checked_sub(fetched.len() as u64) {
        Some(rest_bytes) if rest_bytes > 0 => Fetched::Beginning { rest_bytes },
        _ if check_record(fetched).is_some() => Fetched::Whole,
        _ => Fetched::Nothing,
    }
}
