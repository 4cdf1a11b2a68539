use std::collections::VecDeque;
use std::time::Instant;

use crate::carrier::checked::put_checked;
use crate::carrier::herd::HerdSession;
use crate::carrier::round_trip::RoundTripTime;
use crate::carrier::slots::SlotSet;
use crate::frame::{FrameHeader, RpcKind};
use crate::link::{LinkBusy, SessionLink};

/// A request until its reply has arrived, and the reply until the session takes it.
struct HerdCall {
    number: u32,
    /// The request as it was written.
    record: Vec<u8>,
    sent_at: Instant,
    repeated: u32,
    repeat_at: Instant,
    reply: Vec<u8>,
}

/// The client's end of a session.
pub(crate) struct HerdClient {
    session: HerdSession,
    /// Made when a slot is first used.
    calls: Vec<HerdCall>,
    waiting: SlotSet,
    replies: VecDeque<FrameHeader>,
    round_trip: RoundTripTime,
    /// No request is due to be written again before.
    earliest: Option<Instant>,
    strays: u64,
    /// The server told of immediate data, which this way does not have.
    pub(crate) broken: bool,
}

impl HerdClient {
    pub(crate) fn new(session: HerdSession) -> HerdClient {
        HerdClient {
            session,
            calls: Vec::new(),
            waiting: SlotSet::default(),
            replies: VecDeque::new(),
            round_trip: RoundTripTime::default(),
            earliest: None,
            strays: 0,
            broken: false,
        }
    }

    pub(crate) fn session(&self) -> &HerdSession {
        &self.session
    }

    /// Datagrams that answer no request: doubled, late, of another session, or forged.
    pub(crate) fn strays(&self) -> u64 {
        self.strays
    }

    pub(crate) fn send<L: SessionLink>(
        &mut self,
        link: &mut L,
        header: &FrameHeader,
        body: &[u8],
        now: Instant,
    ) -> Result<(), LinkBusy> {
        let repeat_at = now + self.round_trip.timeout();
        while self.calls.len() <= usize::from(header.slot) {
            let (record, reply) = (Vec::new(), Vec::new());
            self.calls.push(HerdCall { number: 0, record, sent_at: now, repeated: 0, repeat_at, reply });
        }
        let call = &mut self.calls[usize::from(header.slot)];
        put_checked(header, body, &mut call.record);
        link.write(u64::from(header.slot) * self.session.slot_bytes, &[&call.record])?;
        (call.number, call.sent_at, call.repeated, call.repeat_at) = (header.number, now, 0, repeat_at);
        self.waiting.insert(header.slot);
        self.earliest = [self.earliest, Some(repeat_at)].into_iter().flatten().min();
        Ok(())
    }

    pub(crate) fn on_datagram(&mut self, datagram: &[u8], now: Instant) {
        let Some((header, body)) = self.reply_in(datagram) else {
            self.strays += 1;
            return;
        };
        self.waiting.remove(header.slot);
        if self.waiting == SlotSet::default() {
            self.earliest = None;
        }
        let call = &mut self.calls[usize::from(header.slot)];
        // The reply to a request that was written twice may answer either (Karn's algorithm).
        if call.repeated == 0 {
            self.round_trip.measured(now.saturating_duration_since(call.sent_at));
        }
        call.reply.clear();
        call.reply.extend_from_slice(body);
        self.replies.push_back(header);
    }

    fn reply_in<'a>(&self, datagram: &'a [u8]) -> Option<(FrameHeader, &'a [u8])> {
        let (token, frame) = datagram.split_first_chunk()?;
        let (header, body) = FrameHeader::split(frame)?;
        let is_ours = u64::from_le_bytes(*token) == self.session.token && header.kind == RpcKind::Reply;
        let is_awaited = || {
            header.slot < self.session.slots
                && self.waiting.contains(header.slot)
                && self.calls[usize::from(header.slot)].number == header.number
        };
        (is_ours && is_awaited()).then_some((header, body))
    }

    pub(crate) fn receive(&mut self, body: &mut Vec<u8>) -> Option<FrameHeader> {
        let header = self.replies.pop_front()?;
        std::mem::swap(body, &mut self.calls[usize::from(header.slot)].reply);
        Some(header)
    }

    pub(crate) fn next_timer(&self) -> Option<Instant> {
        self.earliest
    }

    /// Writes requests again whose replies are overdue.
    pub(crate) fn tick<L: SessionLink>(&mut self, link: &mut L, now: Instant) {
        if self.earliest.is_none_or(|earliest| earliest > now) {
            return;
        }
        self.earliest = None;
        let mut left = self.waiting;
        while let Some(slot) = left.pop() {
            let call = &mut self.calls[usize::from(slot)];
            if call.repeat_at <= now {
                let at = u64::from(slot) * self.session.slot_bytes;
                if link.write(at, &[&call.record]).is_ok() {
                    call.repeated = call.repeated.saturating_add(1);
                }
                call.repeat_at = now + self.round_trip.timeout_after(call.repeated);
            }
            self.earliest = [self.earliest, Some(call.repeat_at)].into_iter().flatten().min();
        }
    }
}
