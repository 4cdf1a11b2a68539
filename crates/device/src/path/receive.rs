//! From the socket to queue pairs: demultiplexing.
//!
//! Consecutive packets of a datagram for the same queue pair are a *run* and handled under
//! one lock of it. Whatever has to be sent in answer is noted and sent after the whole batch.

use std::iter::{Enumerate, Peekable};
use std::sync::Arc;
use std::time::Duration;

use transport::Time;
use udp::{Datagram, RxBatch, Segments};
use wire::{Packet, Qpn};

use crate::clock;
use crate::engine::Engine;
use crate::engine::scratch::Scratch;
use crate::objects::counters::Counter;
use crate::path::pump::Acks;
use crate::qp::entry::QpEntry;
use crate::qp::host::Host;
use crate::qp::slots::Slot;
use crate::wire::packets;
use crate::wire::packets::{Inbound, dest_qpn};

/// Datagrams received at once at most, while they are small.
const MANY: usize = 16;
/// From this mean size on datagrams are taken one by one: the first is answered before the
/// next is copied, and the buffer stays in the cache.
const BULK_BYTES: u64 = 8 << 10;

/// Looks that find nothing, after which the socket is quiet; how long it is not looked at then.
const QUIET_LOOKS: u32 = 16;
const QUIET_TIME: Duration = Duration::from_micros(20);

/// What belongs to whoever receives.
pub(crate) struct RxSide {
    many: RxBatch,
    one: RxBatch,
    bulk: bool,
    discarded: u64,
    /// Steps since the timers were looked at.
    pub(crate) since_timers: u32,
    /// Looks at the socket in a row that found nothing.
    quiet: u32,
    /// When it was looked at last.
    last_look: Time,
    last: Last,
}

/// What came last: most of the time the same comes next.
#[derive(Default)]
struct Last {
    entry: LastEntry,
    inbound: Option<Inbound>,
}

/// The queue pair of the last run of packets, and the removals of queue pairs before.
type LastEntry = Option<(Arc<QpEntry>, u32)>;

impl RxSide {
    pub(crate) fn new() -> RxSide {
        RxSide {
            many: RxBatch::new(MANY),
            one: RxBatch::new(1),
            bulk: false,
            discarded: 0,
            since_timers: 0,
            quiet: 0,
            last_look: Time(0),
            last: Last::default(),
        }
    }

    fn batch(&mut self) -> (&mut RxBatch, &mut Last) {
        (if self.bulk { &mut self.one } else { &mut self.many }, &mut self.last)
    }

    /// Whether the socket need not be looked at in this step. With peers on this host, whose frames cost
    /// a hundredth of a system call, a socket that stays quiet is looked at more rarely.
    #[inline]
    pub(crate) fn may_wait(&self, framed: bool, now: Time) -> bool {
        (framed || self.quiet >= QUIET_LOOKS) && now.since(self.last_look) < QUIET_TIME
    }

    /// What comes next does not come in succession with what came last.
    pub(crate) fn pause(&mut self) {
        self.many.pause();
    }

    /// What a look at the socket has found.
    #[inline]
    pub(crate) fn note(&mut self, received: bool, now: Time) {
        self.last_look = now;
        self.quiet = if received { 0 } else { self.quiet.saturating_add(1) };
    }

    /// Datagrams that were left out since the last call.
    fn newly_discarded(&mut self) -> u64 {
        let all = self.many.discarded() + self.one.discarded();
        all - std::mem::replace(&mut self.discarded, all)
    }
}

/// Where packets arrive.
struct At<'a> {
    slot: &'a Slot,
    last: &'a mut LastEntry,
}

type Run<'a> = Peekable<Enumerate<Segments<'a>>>;

impl Engine {
    /// Receives once and handles what has come. Returns when that was, if anything has.
    pub(crate) fn receive(&self, slot: &Slot, rx: &mut RxSide, acks: Acks, scratch: &mut Scratch) -> Option<Time> {
        let (batch, last) = rx.batch();
        let count = match slot.socket.recv(batch) {
            Ok(0) => return None,
            Ok(count) => count as u64,
            Err(error) => {
                self.counters.add(Counter::RxErrors, 1);
                log::warn!("cannot receive: {error}");
                return None;
            }
        };
        let now = clock::now();
        self.counters.add_alone(Counter::RxCalls, 1);
        rx.bulk = self.handle_batch(batch, slot, last, (now, acks), scratch) / count >= BULK_BYTES;
        let discarded = rx.newly_discarded();
        if discarded > 0 {
            self.counters.add(Counter::DropDiscarded, discarded);
        }
        Some(now)
    }

    /// Returns the number of bytes.
    fn handle_batch(
        &self,
        batch: &RxBatch,
        slot: &Slot,
        last: &mut Last,
        (now, acks): (Time, Acks),
        scratch: &mut Scratch,
    ) -> u64 {
        let at = &mut At { slot, last: &mut last.entry };
        let (mut packets, mut bytes) = (0, 0);
        for datagram in batch.iter() {
            let inbound = Inbound::of(&datagram, now, acks, &mut last.inbound);
            packets += self.handle_datagram(&datagram, at, inbound, scratch);
            bytes += datagram.bytes.len() as u64;
        }
        self.counters.add_alone(Counter::RxPackets, packets);
        self.counters.add_alone(Counter::RxBytes, bytes);
        bytes
    }

    /// Returns the number of good packets.
    fn handle_datagram(
        &self,
        datagram: &Datagram<'_>,
        at: &mut At<'_>,
        inbound: &Inbound,
        scratch: &mut Scratch,
    ) -> u64 {
        if self.capture.is_active() {
            self.capture_datagram(datagram, inbound);
        }
        if inbound.arrival.ecn_ce {
            self.counters.add(Counter::RxEcnMarked, datagram.segments().len() as u64);
        }
        let mut good = 0;
        let mut segments = datagram.segments().enumerate().peekable();
        while let Some((_, segment)) = segments.peek() {
            good += match dest_qpn(segment) {
                None => self.handle_short(&mut segments),
                Some(qpn) if qpn.slot() == at.slot.number && qpn != Qpn::MULTICAST => match self.entry(qpn, at) {
                    Some(entry) => self.handle_run(entry, &mut segments, inbound, scratch),
                    None => self.handle_other(&mut segments, inbound, Counter::DropUnknownQp),
                },
                Some(Qpn::MULTICAST) => self.handle_multicast(&mut segments, inbound, scratch),
                Some(_) => self.handle_other(&mut segments, inbound, Counter::DropWrongSlot),
            };
        }
        good
    }

    /// The queue pair with a number of this slot. The table's lock is spared while it stays the same.
    #[inline]
    fn entry<'a>(&self, qpn: Qpn, at: &'a mut At<'_>) -> Option<&'a Arc<QpEntry>> {
        let removals = self.slots.removals();
        let last = &mut *at.last;
        if !last.as_ref().is_some_and(|(entry, before)| entry.qpn() == qpn && *before == removals) {
            *last = at.slot.qp(qpn).map(|entry| (entry, removals));
        }
        last.as_ref().map(|(entry, _)| entry)
    }

    /// Handles the packets for one queue pair that come next.
    fn handle_run(
        &self,
        entry: &Arc<QpEntry>,
        segments: &mut Run<'_>,
        inbound: &Inbound,
        scratch: &mut Scratch,
    ) -> u64 {
        let mut good = 0;
        let mut cell = entry.lock();
        while let Some((index, segment)) = segments.next_if(|(_, s)| dest_qpn(s) == Some(entry.qpn())) {
            let Some(packet) = packets::admit(inbound, index as u16, segment, &self.counters) else { continue };
            good += 1;
            let Some(live) = cell.live.as_mut() else {
                self.counters.add(Counter::DropUnknownQp, 1);
                continue;
            };
            let host = &mut Host {
                engine: self,
                entry,
                parents: &live.parents,
                shm: live.shm.as_ref(),
                outcome: &mut scratch.outcome,
            };
            if let Err(reason) = live.qp.handle_packet(&packet, &inbound.arrival, inbound.now, host) {
                self.counters.dropped(reason);
            }
        }
        self.note_work(entry, &mut cell, scratch, inbound.acks);
        good
    }

    /// Hands one multicast packet to every queue pair that is attached to its group here.
    fn handle_multicast(&self, segments: &mut Run<'_>, inbound: &Inbound, scratch: &mut Scratch) -> u64 {
        let Some((index, segment)) = segments.next() else { return 0 };
        let members = self.groups.members(inbound.arrival.destination, inbound.interface);
        if members.is_empty() {
            return self.refuse(index, segment, inbound, Counter::DropNoMember);
        }
        let Some(packet) = packets::admit(inbound, index as u16, segment, &self.counters) else { return 0 };
        let own = self.own_source(&packet, inbound);
        for entry in members.iter() {
            if own.is_some_and(|source| !entry.wants_multicast_of(source)) {
                continue;
            }
            self.counters.add(Counter::RxMulticastCopies, 1);
            let mut cell = entry.lock();
            let Some(live) = cell.live.as_mut() else { continue };
            let host = &mut Host {
                engine: self,
                entry,
                parents: &live.parents,
                shm: live.shm.as_ref(),
                outcome: &mut scratch.outcome,
            };
            if let Err(reason) = live.qp.handle_packet(&packet, &inbound.arrival, inbound.now, host) {
                self.counters.dropped(reason);
            }
            self.note_work(entry, &mut cell, scratch, inbound.acks);
        }
        1
    }

    /// The queue pair that sent a datagram, if it is one of this host's.
    fn own_source(&self, packet: &Packet<'_>, inbound: &Inbound) -> Option<Qpn> {
        let source = packet.deth()?.src_qpn;
        self.devices.has_address(inbound.arrival.source).then_some(source)
    }

    #[cold]
    fn handle_short(&self, segments: &mut Run<'_>) -> u64 {
        segments.next();
        self.counters.add(Counter::DropShort, 1);
        0
    }

    /// A packet for nobody here; a damaged one counts as such.
    #[cold]
    fn handle_other(&self, segments: &mut Run<'_>, inbound: &Inbound, counter: Counter) -> u64 {
        let Some((index, segment)) = segments.next() else { return 0 };
        self.refuse(index, segment, inbound, counter)
    }

    fn refuse(&self, index: usize, segment: &[u8], inbound: &Inbound, counter: Counter) -> u64 {
        if packets::admit(inbound, index as u16, segment, &self.counters).is_none() {
            return 0;
        }
        self.counters.add(counter, 1);
        1
    }

    #[cold]
    fn capture_datagram(&self, datagram: &Datagram<'_>, inbound: &Inbound) {
        let identified = datagram
            .segments()
            .enumerate()
            .map(|(index, segment)| (packets::identification(inbound, index as u16, segment), segment));
        self.capture.received(datagram, identified, &self.counters);
    }
}
