//! The wire path: from a socket to queue pairs.
//!
//! Consecutive packets of a datagram for the same queue pair are a *run* and handled under one lock of it. Responses are
//! sent after the whole batch.

use std::iter::{Enumerate, Peekable};
use std::sync::Arc;

use transport::Time;
use udp::{Datagram, Segments};
use wire::{Packet, Qpn};

use crate::clock;
use crate::objects::counters::EngineCounter;
use crate::path::PathSink;
use crate::path::wire::WirePath;
use crate::qp::entry::{QpCell, QpEntry};
use crate::qp::services::QpServices;
use crate::qp::slots::{LastQp, PortSlot, SlotReceiver};
use crate::wire::packets::{self, InboundFlow, dest_qpn};

type SegmentRun<'a> = Peekable<Enumerate<Segments<'a>>>;

/// One call to receive.
struct WireReceive<'a, S> {
    services: &'a QpServices,
    slot: &'a PortSlot,
    last: &'a mut LastQp,
    now: Time,
    sink: &'a mut S,
}

impl WirePath {
    /// Receives once and handles the packets. Returns the time of that if there were any.
    pub(crate) fn receive<S: PathSink>(
        &self,
        services: &QpServices,
        slot: &PortSlot,
        receiver: &mut SlotReceiver,
        sink: &mut S,
    ) -> Option<Time> {
        let counters = &services.counters;
        let SlotReceiver { side, last } = receiver;
        let (batch, last_flow) = side.batch();
        let count = match slot.socket.recv(batch) {
            Ok(0) => return None,
            Ok(count) => count as u64,
            Err(error) => {
                counters.add(EngineCounter::RxErrors, 1);
                log::warn!("cannot receive: {error}");
                return None;
            }
        };
        let now = clock::now();
        counters.add_alone(EngineCounter::RxCalls, 1);
        let mut receive = WireReceive { services, slot, last, now, sink };
        let (mut packets, mut bytes) = (0, 0);
        for datagram in batch.iter() {
            packets += receive.handle_datagram(&datagram, InboundFlow::of(&datagram, last_flow));
            bytes += datagram.bytes.len() as u64;
        }
        counters.add_alone(EngineCounter::RxPackets, packets);
        counters.add_alone(EngineCounter::RxBytes, bytes);
        side.note_batch(bytes, count);
        let discarded = side.newly_discarded();
        if discarded > 0 {
            counters.add(EngineCounter::DropDiscarded, discarded);
        }
        Some(now)
    }
}

impl<S: PathSink> WireReceive<'_, S> {
    /// Returns the number of good packets.
    fn handle_datagram(&mut self, datagram: &Datagram<'_>, flow: &InboundFlow) -> u64 {
        if self.services.capture.is_active() {
            self.capture(datagram, flow);
        }
        if flow.arrival.ecn_ce {
            self.services.counters.add(EngineCounter::RxEcnMarked, datagram.segments().len() as u64);
        }
        let mut good = 0;
        let mut segments = datagram.segments().enumerate().peekable();
        while let Some((_, segment)) = segments.peek() {
            good += match dest_qpn(segment) {
                None => self.drop_short(&mut segments),
                Some(qpn) if qpn.slot() == self.slot.number && qpn != Qpn::MULTICAST => {
                    self.handle_run(qpn, &mut segments, flow)
                }
                Some(Qpn::MULTICAST) => self.handle_multicast(&mut segments, flow),
                Some(_) => self.drop_next(&mut segments, flow, EngineCounter::DropWrongSlot),
            };
        }
        good
    }

    /// Handles the next packets, which are for the same queue pair.
    fn handle_run(&mut self, qpn: Qpn, segments: &mut SegmentRun<'_>, flow: &InboundFlow) -> u64 {
        let services = self.services;
        let Some(entry) = self.last.find(&services.slots, qpn) else {
            return self.drop_next(segments, flow, EngineCounter::DropUnknownQp);
        };
        let mut good = 0;
        let mut cell = entry.lock();
        while let Some((index, segment)) = segments.next_if(|(_, segment)| dest_qpn(segment) == Some(qpn)) {
            let Some(packet) = packets::admit(flow, index as u16, segment, &services.counters) else { continue };
            good += 1;
            if !handle_packet(services, entry, &mut cell, &packet, flow, self.now, self.sink) {
                services.counters.add(EngineCounter::DropUnknownQp, 1);
            }
        }
        self.sink.look_after(entry, &mut cell);
        good
    }

    /// Hands one multicast packet to every queue pair of this process that is attached to its group.
    fn handle_multicast(&mut self, segments: &mut SegmentRun<'_>, flow: &InboundFlow) -> u64 {
        let services = self.services;
        let Some((index, segment)) = segments.next() else { return 0 };
        let members = services.groups.members(flow.arrival.destination, flow.interface);
        if members.is_empty() {
            return self.refuse(index, segment, flow, EngineCounter::DropNoMember);
        }
        let Some(packet) = packets::admit(flow, index as u16, segment, &services.counters) else { return 0 };
        let own = self.own_source(&packet, flow);
        for entry in members.iter() {
            if own.is_some_and(|source| !entry.wants_multicast_of(source)) {
                continue;
            }
            services.counters.add(EngineCounter::RxMulticastCopies, 1);
            let mut cell = entry.lock();
            if handle_packet(services, entry, &mut cell, &packet, flow, self.now, self.sink) {
                self.sink.look_after(entry, &mut cell);
            }
        }
        1
    }

    /// The queue pair that sent a datagram, if its address is one of this host's.
    fn own_source(&self, packet: &Packet<'_>, flow: &InboundFlow) -> Option<Qpn> {
        let source = packet.deth()?.src_qpn;
        self.services.devices.has_address(flow.arrival.source).then_some(source)
    }

    #[cold]
    fn drop_short(&mut self, segments: &mut SegmentRun<'_>) -> u64 {
        segments.next();
        self.services.counters.add(EngineCounter::DropShort, 1);
        0
    }

    /// Drops the next packet, which is for no queue pair here. A damaged one counts as such.
    #[cold]
    fn drop_next(&self, segments: &mut SegmentRun<'_>, flow: &InboundFlow, counter: EngineCounter) -> u64 {
        let Some((index, segment)) = segments.next() else { return 0 };
        self.refuse(index, segment, flow, counter)
    }

    fn refuse(&self, index: usize, segment: &[u8], flow: &InboundFlow, counter: EngineCounter) -> u64 {
        if packets::admit(flow, index as u16, segment, &self.services.counters).is_none() {
            return 0;
        }
        self.services.counters.add(counter, 1);
        1
    }

    #[cold]
    fn capture(&self, datagram: &Datagram<'_>, flow: &InboundFlow) {
        let identified = datagram
            .segments()
            .enumerate()
            .map(|(index, segment)| (packets::identification(flow, index as u16, segment), segment));
        self.services.capture.received(datagram, identified, &self.services.counters);
    }
}

/// Hands a packet to a locked queue pair. False if the queue pair was destroyed.
#[inline]
fn handle_packet(
    services: &QpServices,
    entry: &Arc<QpEntry>,
    cell: &mut QpCell,
    packet: &Packet<'_>,
    flow: &InboundFlow,
    now: Time,
    sink: &mut impl PathSink,
) -> bool {
    let Some(live) = cell.live.as_mut() else { return false };
    let notices = sink.notices();
    notices.changed_memory |= packet.info().changes_memory();
    let (qp, mut host) = live.hosted(services, entry, notices);
    if let Err(reason) = qp.handle_packet(packet, &flow.arrival, now, &mut host) {
        services.counters.dropped(reason);
    }
    true
}
