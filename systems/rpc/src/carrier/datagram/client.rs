//! The client's end: it sends all packets for which it has credits, and all timers are its own.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::carrier::SlotSet;
use crate::carrier::datagram::flow::CallFlow;
use crate::carrier::datagram::packet::{RpcPacketHeader, RpcPacketKind};
use crate::carrier::datagram::parts::KEPT_BYTES;
use crate::carrier::datagram::rtt::RoundTrip;
use crate::carrier::datagram::timely::TimelyWindow;
use crate::carrier::datagram::{DatagramCounters, DatagramSetup, Unfit};
use crate::frame::{FrameHeader, RpcKind};
use crate::link::{LinkBusy, SessionLink};

/// The client's end of a session in the way *datagram*.
pub(crate) struct DatagramClient {
    setup: DatagramSetup,
    flows: Vec<CallFlow>,
    /// Credits that no packet holds.
    free: u32,
    /// Slots with packets to send, and the slot that has its turn.
    ready: SlotSet,
    turn: u16,
    /// Those among them that have waited in vain: their next packet goes first.
    late: SlotSet,
    /// Slots whose reply is complete.
    complete: VecDeque<u16>,
    /// Slots whose long reply the server may forget.
    released: SlotSet,
    window: TimelyWindow,
    rtt: RoundTrip,
    /// No timer ends before.
    earliest: Option<Instant>,
    counters: DatagramCounters,
    /// The device did not take a packet: the next tick tries again.
    blocked: bool,
    /// The peer broke the rules of the connection beside the datagrams.
    pub(super) broken: bool,
}

impl DatagramClient {
    pub(crate) fn new(setup: DatagramSetup) -> DatagramClient {
        DatagramClient {
            flows: (0..setup.slots).map(|_| CallFlow::default()).collect(),
            free: setup.credits,
            ready: SlotSet::default(),
            turn: 0,
            late: SlotSet::default(),
            complete: VecDeque::with_capacity(usize::from(setup.slots)),
            released: SlotSet::default(),
            window: TimelyWindow::new(setup.credits, setup.thresholds),
            rtt: RoundTrip::new(setup.shortest_timeout),
            earliest: None,
            counters: DatagramCounters::default(),
            blocked: false,
            broken: false,
            setup,
        }
    }

    pub(crate) fn credits(&self) -> u32 {
        self.setup.credits
    }

    pub(crate) fn inline_bytes(&self) -> usize {
        self.setup.inline_bytes()
    }

    pub(crate) fn counters(&self) -> DatagramCounters {
        self.counters
    }

    /// Credits that no packet holds. When no call is under way, these are all.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn credits_free(&self) -> u32 {
        self.free
    }

    /// Credits that packets hold.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn credits_taken(&self) -> u32 {
        self.setup.credits - self.free
    }

    /// Packets that may be under way now.
    #[cfg(test)]
    pub(crate) fn window(&self) -> u32 {
        self.window.packets()
    }

    /// Begins a call. Its packets go out as credits allow.
    pub(crate) fn send<L: SessionLink>(
        &mut self,
        link: &mut L,
        header: &FrameHeader,
        body: &[u8],
        now: Instant,
    ) -> Result<(), LinkBusy> {
        let flow = self.flows.get_mut(usize::from(header.slot)).filter(|flow| !flow.active).ok_or(LinkBusy)?;
        flow.request.fill(&self.setup.cut, header, body);
        flow.begin(header.number);
        self.ready.insert(header.slot);
        self.pump(link, now);
        Ok(())
    }

    /// Sends what credits, window and device allow, one packet of each call in turn.
    pub(crate) fn pump<L: SessionLink>(&mut self, link: &mut L, now: Instant) {
        self.blocked = false;
        while self.setup.credits - self.free < self.window.packets() {
            let Some(slot) = self.late.next_from(0).or(self.ready.next_from(self.turn)) else {
                break;
            };
            if self.transmit(link, slot, now).is_err() {
                self.blocked = true;
                return;
            }
            self.turn = slot + 1;
        }
        self.release(link);
        self.check();
    }

    fn transmit<L: SessionLink>(&mut self, link: &mut L, slot: u16, now: Instant) -> Result<(), LinkBusy> {
        let flow = &mut self.flows[usize::from(slot)];
        let (kind, index) = flow.next_packet();
        let header = self.setup.header(flow.number, slot, kind, index);
        let payload = match kind {
            RpcPacketKind::Request => flow.request.part(&self.setup.cut, u32::from(index)),
            _ => &[],
        };
        link.datagram(&[&header.encode(), payload])?;
        self.late.remove(slot);
        self.counters.sent += 1;
        self.free -= 1;
        if !flow.on_sent(now) {
            self.counters.repeated += 1;
        }
        if !flow.has_more() {
            self.ready.remove(slot);
        }
        if flow.timer.is_none() {
            self.set_timer(slot, now);
        }
        Ok(())
    }

    /// True if the device did not take a packet.
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Lets the server forget long replies. The hint may get lost: then the slot's next request does it.
    fn release<L: SessionLink>(&mut self, link: &mut L) {
        while let Some(slot) = self.released.next_from(0) {
            let flow = &self.flows[usize::from(slot)];
            let header = self.setup.header(flow.number, slot, RpcPacketKind::Release, 0);
            if !flow.active && link.datagram(&[&header.encode()]).is_err() {
                return;
            }
            self.released.remove(slot);
        }
    }

    fn set_timer(&mut self, slot: u16, now: Instant) {
        let flow = &mut self.flows[usize::from(slot)];
        let ends = now + self.rtt.timeout(flow.timeouts);
        flow.timer = Some(ends);
        self.earliest = Some(self.earliest.map_or(ends, |earliest| earliest.min(ends)));
    }

    /// A datagram has arrived.
    pub(crate) fn on_datagram(&mut self, datagram: &[u8], now: Instant) {
        if let Err(unfit) = self.take(datagram, now) {
            self.counters.drop(unfit);
        }
        self.check();
    }

    fn take(&mut self, datagram: &[u8], now: Instant) -> Result<(), Unfit> {
        let (header, payload) = self.setup.admit(datagram)?;
        let slot = u16::from(header.slot);
        let flow = self.flows.get(usize::from(slot)).ok_or(Unfit::Malformed)?;
        if !flow.active || flow.number != header.number {
            return Err(Unfit::Stale);
        }
        let place = flow.place_of(header.kind, header.index).ok_or(Unfit::Malformed)?;
        if !flow.has_sent(place) {
            return Err(Unfit::Malformed); // It answers nothing.
        }
        if place < flow.answered() {
            return Err(Unfit::Stale);
        }
        match header.kind {
            RpcPacketKind::Reply => self.on_reply(&header, place, payload, now),
            _ if !payload.is_empty() => Err(Unfit::Malformed),
            RpcPacketKind::Running => {
                self.on_running(slot, now);
                Ok(())
            }
            _ => {
                self.on_answer(slot, place, 0, now);
                Ok(())
            }
        }
    }

    fn on_reply(&mut self, header: &RpcPacketHeader, place: u32, payload: &[u8], now: Instant) -> Result<(), Unfit> {
        let slot = u16::from(header.slot);
        let flow = &mut self.flows[usize::from(slot)];
        let mut handler_ns = 0;
        if header.index == 0 {
            let expected = FrameHeader::bare(RpcKind::Reply, slot, header.number);
            if !flow.reply.begin(&self.setup.cut, payload, &expected) {
                return Err(Unfit::Malformed);
            }
            handler_ns = std::mem::take(&mut flow.reply.header_mut().method);
        } else if u32::from(header.index) != flow.reply.arrived() {
            return Err(Unfit::Ahead);
        } else if !flow.reply.push(&self.setup.cut, payload) {
            return Err(Unfit::Malformed);
        }
        self.on_answer(slot, place, handler_ns, now);
        let flow = &mut self.flows[usize::from(slot)];
        if flow.reply.is_complete() {
            flow.end();
            self.complete.push_back(slot);
        }
        Ok(())
    }

    /// Takes credits back and measures the round trip, less the time that the handler took.
    fn on_answer(&mut self, slot: u16, place: u32, handler_ns: u64, now: Instant) {
        let flow = &mut self.flows[usize::from(slot)];
        let (credits, rtt) = flow.on_answer(place, now);
        self.free += credits;
        if let Some(rtt) = rtt {
            let rtt = rtt.saturating_sub(Duration::from_nanos(handler_ns));
            self.rtt.add(rtt);
            self.window.on_rtt(rtt, now);
        }
        flow.timer = None;
        let (has_more, is_waiting) = (flow.has_more(), flow.held() > 0);
        self.late.remove(slot);
        if has_more {
            self.ready.insert(slot);
        } else {
            self.ready.remove(slot);
        }
        if is_waiting {
            self.set_timer(slot, now);
        }
    }

    /// The handler runs: its call gives its credit to others, and asks more and more seldom.
    fn on_running(&mut self, slot: u16, now: Instant) {
        let flow = &mut self.flows[usize::from(slot)];
        if flow.parked {
            return;
        }
        self.free += flow.park();
        self.rtt.is_sure();
        self.ready.remove(slot);
        self.late.remove(slot);
        self.set_timer(slot, now);
    }

    /// Rolls back the calls whose answers are late.
    pub(crate) fn tick(&mut self, now: Instant) {
        if self.earliest.is_none_or(|earliest| earliest > now) {
            return;
        }
        self.earliest = None;
        for slot in 0..self.setup.slots {
            match self.flows[usize::from(slot)].timer {
                Some(ends) if ends <= now => self.on_timer(slot, now),
                timer => self.earliest = [self.earliest, timer].into_iter().flatten().min(),
            }
        }
        self.check();
    }

    fn on_timer(&mut self, slot: u16, now: Instant) {
        let flow = &mut self.flows[usize::from(slot)];
        flow.timer = None;
        // A handler that has not answered the first time is slow rather than a packet lost.
        let is_loss = !(flow.parked || flow.awaits_handler() && flow.timeouts == 0);
        if !flow.parked {
            self.counters.timeouts += 1;
            self.rtt.on_timeout(now);
        }
        flow.timeouts += 1;
        flow.parked = false;
        self.free += flow.roll_back();
        if is_loss {
            self.window.on_timeout(self.rtt.timeout(0), now);
        }
        self.ready.insert(slot);
        self.late.insert(slot);
    }

    /// The first moment at which [`tick`](DatagramClient::tick) may have something to do.
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        self.earliest
    }

    /// Takes the next reply.
    pub(crate) fn receive(&mut self, body: &mut Vec<u8>) -> Option<FrameHeader> {
        let slot = self.complete.pop_front()?;
        let flow = &mut self.flows[usize::from(slot)];
        let header = flow.reply.take(body);
        if header.body_bytes as usize > KEPT_BYTES {
            self.released.insert(slot);
        }
        Some(header)
    }

    /// Each credit is free or held, by one packet.
    fn check(&self) {
        debug_assert_eq!(
            self.free + self.flows.iter().map(CallFlow::held).sum::<u32>(),
            self.setup.credits,
            "credits are lost or doubled"
        );
    }
}
