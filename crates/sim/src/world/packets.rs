//! Packets in and out of nodes.

use core::time::Duration;

use faults::Verdict;
use smallvec::SmallVec;
use transport::{CqSide, DropReason, QpType, RecvMeta, Status, Time, Transmit};
use wire::icrc::{self, Check};
use wire::{Flow, Gid, ICRC_LEN, Packet, Qpn};

use super::{Next, World, WorldEvent};
use crate::app::connected::ticket_offset;
use crate::check::apart::apart;
use crate::check::wire::WireRules;
use crate::check::{Outcome, ensure};
use crate::fabric::Flight;
use crate::message::packet_number;
use crate::node::{Cause, Noted};

/// Packets that a node takes from its receive buffer at once.
const BATCH: usize = 32;
/// The backlog of a node's uplink before its queue pairs wait.
const EGRESS_BYTES: u64 = 64 << 10;
/// Packets of one queue pair before it is the next one's turn.
const BURST: usize = 16;
/// Ethernet, IP and UDP headers on the wire.
const FRAME_BYTES: u64 = 46;

impl World {
    /// A packet is at its node's door.
    pub(super) fn arrive(&mut self, flight: Flight) -> Outcome {
        self.fabric.arrived();
        let to = flight.to;
        let (now, opcode) = (self.clock.now(), flight.bytes[0]);
        if !self.nodes[to].arrive(flight) {
            self.trace.note(now, &[3, to as u64], || format!("n{to} <- {opcode:#04x} no room"));
        } else if !self.nodes[to].serving {
            self.nodes[to].serving = true;
            self.clock.schedule(now, WorldEvent::Serve(to));
        }
        Ok(())
    }

    /// A node takes what has arrived, as much as a system call would bring, and is busy with it for a while.
    pub(super) fn serve(&mut self, node: usize) -> Outcome {
        let fabric = self.scenario.fabric;
        let mut busy_ns = 0;
        for _ in 0..BATCH {
            let Some(flight) = self.nodes[node].take_arrived() else { break };
            busy_ns += fabric.rx_packet_ns + flight.bytes.len() as u64 * 1000 / fabric.rx_bytes_per_us;
            self.receive(node, &flight)?;
        }
        if busy_ns > 0 || self.nodes[node].has_arrived() {
            self.clock.schedule(self.clock.now() + Duration::from_nanos(busy_ns), WorldEvent::Serve(node));
        } else {
            self.nodes[node].serving = false;
        }
        self.transmit(node)
    }

    fn receive(&mut self, node: usize, flight: &Flight) -> Outcome {
        // All nodes send with identification 0, so another one is damage.
        if icrc::check(&flight.flow, &flight.bytes, 0) != Check::Good {
            self.nodes[node].counters.icrc += 1;
            return Ok(());
        }
        let ib = &flight.bytes[..flight.bytes.len() - ICRC_LEN];
        let Ok(packet) = Packet::parse(ib) else {
            self.nodes[node].counters.malformed += 1;
            return Ok(());
        };
        let receivers = self.receivers(node, packet.dest_qpn());
        match receivers.len() as u64 {
            0 => self.nodes[node].counters.no_qp += 1,
            count => self.nodes[node].counters.copies += count - 1,
        }
        for end in receivers {
            self.deliver(end, &packet, flight)?;
        }
        Ok(())
    }

    fn receivers(&self, node: usize, qpn: Qpn) -> SmallVec<[usize; 2]> {
        let all = self.nodes[node].ends.iter().copied();
        match qpn {
            Qpn::MULTICAST => all.filter(|e| self.ends[*e].spec.in_group).collect(),
            _ => all.filter(|e| self.ends[*e].qp.qpn() == qpn).collect(),
        }
    }

    fn deliver(&mut self, e: usize, packet: &Packet<'_>, flight: &Flight) -> Outcome {
        let arrival = RecvMeta {
            source: flight.flow.source.into(),
            destination: flight.flow.destination.into(),
            traffic_class: flight.traffic_class,
            hop_limit: flight.hop_limit,
            ecn_ce: false,
        };
        let src_qpn = match (packet.deth(), self.ends[e].spec.peer) {
            (Some(deth), _) => deth.src_qpn,
            (None, Some(peer)) => self.ends[peer].qp.qpn(),
            (None, None) => Qpn::default(),
        };
        let cause = Cause { src_qpn, psn: packet.psn() };
        let taken = self.with_qp(e, Some(cause), |qp, now, host| qp.handle_packet(packet, &arrival, now, host));
        self.check_ticket(e, packet)?;
        self.count(e, taken);
        self.saw(taken.map_or_else(DropReason::name, |()| packet.info().name));
        match taken {
            Ok(()) => self.observe_taken(e, packet),
            Err(DropReason::OutOfSequence) if packet.info().is_response() => {
                let number = self.number(e, packet);
                self.ends[e].observer.response_ahead(number);
            }
            Err(DropReason::NotAgreed | DropReason::QpState | DropReason::WrongSource | DropReason::PKey) => {}
            Err(_) => self.observe_acknowledge(e, packet),
        }
        self.touched(e);
        let (psn, name) = (packet.psn().get(), packet.info().name);
        let code = taken.map_or_else(|reason| reason.index() as u64 + 1, |()| 0);
        self.trace.note(self.clock.now(), &[4, e as u64, u64::from(psn), code], || {
            let verdict = taken.map_or_else(|reason| format!("dropped: {}", reason.name()), |()| "taken".into());
            format!("q{e} <- {name} psn {psn:#08x} {}{verdict}", about(packet))
        });
        Ok(())
    }

    /// An application that gets a message finds the bytes that were written before it.
    fn check_ticket(&self, e: usize, packet: &Packet<'_>) -> Outcome {
        let (end, is_rc) = (&self.ends[e], self.scenario.service == QpType::Rc);
        let Some(peer) = end.spec.peer.filter(|_| is_rc && packet.info().is_request()) else { return Ok(()) };
        let told = |noted: &&Noted| noted.side == CqSide::Recv && noted.completion.status == Status::Success;
        let index = end.heard + end.mailbox.completions.iter().filter(told).count();
        let Some(message) = index.checked_sub(1).and_then(|last| self.ends[peer].log.get(last)) else { return Ok(()) };
        let offset = ticket_offset(&end.exposed);
        let bytes = end.exposed.actual(offset..offset + 8);
        let ticket = u64::from_ne_bytes(*bytes.first_chunk().expect("eight bytes"));
        ensure!(
            "a message is told after what was written before it",
            ticket >= message.ticket,
            "message {} came after ticket {}, but {ticket} is there",
            index - 1,
            message.ticket
        );
        Ok(())
    }

    fn count(&mut self, e: usize, taken: Result<(), DropReason>) {
        let counters = &mut self.nodes[self.ends[e].spec.node].counters;
        match taken {
            Ok(()) => counters.accepted += 1,
            Err(reason) => counters.dropped(reason),
        }
    }

    /// Lets the queue pairs of a node send, each in turn, while the backlog of its uplink is small.
    pub(super) fn transmit(&mut self, node: usize) -> Outcome {
        loop {
            let mut sent = false;
            for i in 0..self.nodes[node].ends.len() {
                let e = self.nodes[node].ends[i];
                for _ in 0..BURST {
                    if !self.ends[e].qp.wants_transmit() {
                        break;
                    }
                    if let Some(at) = self.congested(node) {
                        self.transmit_at(node, at);
                        return Ok(());
                    }
                    self.poll(e)?;
                    sent = true;
                }
            }
            if !sent {
                return Ok(());
            }
        }
    }

    /// The time at which the uplink has room again, if it has none.
    fn congested(&self, node: usize) -> Option<Time> {
        let allowed_ns = EGRESS_BYTES * 1000 / self.scenario.fabric.link_bytes_per_us;
        let free_at = self.nodes[node].tx_free_at - Duration::from_nanos(allowed_ns);
        (free_at > self.clock.now()).then_some(free_at)
    }

    fn transmit_at(&mut self, node: usize, at: Time) {
        if !self.nodes[node].tx_scheduled {
            self.nodes[node].tx_scheduled = true;
            self.clock.schedule(at, WorldEvent::Transmit(node));
        }
    }

    /// The application calls: deferred ACKs leave too.
    pub(super) fn send_acknowledges(&mut self, e: usize) -> Outcome {
        while self.ends[e].qp.ack_due() && !self.ends[e].qp.wants_transmit() {
            if !self.poll(e)? {
                break;
            }
        }
        Ok(())
    }

    /// Asks a queue pair for a packet and sends it.
    fn poll(&mut self, e: usize) -> Outcome<bool> {
        let mut buffer = core::mem::take(&mut self.buffer);
        let was_idle = self.ends[e].qp.is_idle();
        let transmit = self.with_qp(e, None, |qp, now, host| qp.poll_transmit(now, &mut buffer, host));
        ensure!("an idle queue pair sends nothing", !was_idle || transmit.is_none(), "end {e}");
        if let Some(transmit) = &transmit {
            let ib = &buffer[..transmit.len_bytes];
            self.observe_sent(e, ib).map_err(|violation| violation.at(format!("end {e} sends")))?;
            self.send(e, transmit, ib);
        }
        self.buffer = buffer;
        let end = &mut self.ends[e];
        // A failure found meanwhile may change this, but not for long.
        end.refusals = if transmit.is_some() { 0 } else { end.refusals + 1 };
        let idle = !end.qp.wants_transmit() || end.refusals < 3;
        ensure!("a queue pair that wants to send does", idle, "end {e} in {:?}", end.qp.state());
        self.touched(e);
        Ok(transmit.is_some())
    }

    fn send(&mut self, e: usize, transmit: &Transmit, ib: &[u8]) {
        self.transmitted += 1;
        let from = self.ends[e].spec.node;
        let address = transmit.address;
        let flow = Flow {
            source: address.source.ip(),
            destination: address.destination.ip(),
            source_port: transmit.source_port,
        };
        let mut bytes = Vec::with_capacity(ib.len() + ICRC_LEN);
        bytes.extend_from_slice(ib);
        bytes.extend_from_slice(&icrc::compute(&flow, 0, ib).to_le_bytes());
        let departs = self.departure(from, bytes.len() as u64);
        let (traffic_class, hop_limit) = (address.traffic_class, address.hop_limit);
        let mut bytes = Some(bytes);
        let targets = self.targets(address.destination);
        for (i, to) in targets.iter().copied().enumerate() {
            let last = i + 1 == targets.len();
            let bytes = if last { bytes.take() } else { bytes.clone() };
            let Some(bytes) = bytes else { break };
            let verdict = self.launch(departs, Flight { from, to, flow, traffic_class, hop_limit, bytes });
            self.note_sent(e, to, ib, &verdict);
        }
    }

    /// The nodes that a packet to this address goes to.
    fn targets(&self, destination: Gid) -> SmallVec<[usize; 2]> {
        let is_group = destination == self.group();
        let member = |node: &usize| self.nodes[*node].ends.iter().any(|e| self.ends[*e].spec.in_group);
        let addressed = |node: &usize| self.nodes[*node].gid == destination;
        (0..self.nodes.len()).filter(|node| if is_group { member(node) } else { addressed(node) }).collect()
    }

    fn launch(&mut self, departs: Time, flight: Flight) -> Verdict {
        let (verdict, next) = self.fabric.send(departs, flight);
        for (at, next) in next {
            let event = match next {
                Next::Arrive(flight) => WorldEvent::Arrive(flight),
                Next::Release { link, ticket } => WorldEvent::Release { link, ticket },
            };
            self.clock.schedule(at, event);
        }
        verdict
    }

    fn note_sent(&mut self, e: usize, to: usize, ib: &[u8], verdict: &Verdict) {
        let packet = Packet::parse(ib);
        let psn = packet.as_ref().map_or(0, |packet| packet.psn().get());
        let facts =
            [5, e as u64, to as u64, u64::from(ib[0]), u64::from(psn), ib.len() as u64, u64::from(verdict.drop)];
        self.trace.note(self.clock.now(), &facts, || match packet {
            Ok(packet) => {
                let name = packet.info().name;
                format!("q{e} -> n{to} {name} psn {psn:#08x} {}{}", about(&packet), show(verdict))
            }
            Err(malformed) => format!("q{e} -> n{to} malformed: {malformed}"),
        });
    }

    fn rules(&self, e: usize) -> WireRules {
        let spec = &self.ends[e].spec;
        WireRules {
            service: self.scenario.service,
            mtu: self.scenario.mtu,
            rd_atomic: usize::from(spec.rd_atomic),
            window_bytes: u64::from(spec.tuning.window_max_bytes.max(spec.tuning.window_initial_bytes)),
        }
    }

    /// The number of a packet that an end has sent or that answers one of its own.
    fn number(&self, e: usize, packet: &Packet<'_>) -> u64 {
        packet_number(packet.psn(), self.ends[e].spec.first_psn)
    }

    fn observe_sent(&mut self, e: usize, ib: &[u8]) -> Outcome {
        let packet = Packet::parse(ib);
        ensure!("packets are well-formed", packet.is_ok(), "{packet:?}");
        let Ok(packet) = packet else { unreachable!("checked") };
        if let Some((acknowledge, request)) = apart(&packet) {
            self.check_agreed(e)?;
            self.observe_sent(e, &acknowledge)?;
            return self.observe_sent(e, &request);
        }
        let (rules, state) = (self.rules(e), self.ends[e].qp.state());
        if packet.info().is_response() {
            let number = self.number(self.ends[e].spec.peer.unwrap_or(e), &packet);
            return self.ends[e].observer.response_sent(number, &packet);
        }
        let number = self.number(e, &packet);
        self.ends[e].observer.request_sent(&rules, state, number, &packet)
    }

    /// Requests that carry an ACK go only to a peer that takes them.
    fn check_agreed(&self, e: usize) -> Outcome {
        let understands = |e: usize| self.ends[e].spec.tuning.piggyback && self.ends[e].spec.tuning.selective;
        let agreed = self.ends[e].spec.peer.is_some_and(|peer| understands(e) && understands(peer));
        ensure!("requests bring ACKs along only where that is agreed", agreed, "end {e}");
        Ok(())
    }

    /// The ACK that a request carries counts, whatever happens to the request.
    fn observe_acknowledge(&mut self, e: usize, packet: &Packet<'_>) {
        if let Some((acknowledge, _)) = apart(packet) {
            Packet::parse(&acknowledge).into_iter().for_each(|acknowledge| self.observe_taken(e, &acknowledge));
        }
    }

    fn observe_taken(&mut self, e: usize, packet: &Packet<'_>) {
        if let Some((_, request)) = apart(packet) {
            self.observe_acknowledge(e, packet);
            return Packet::parse(&request).into_iter().for_each(|request| self.observe_taken(e, &request));
        }
        let Some(peer) = self.ends[e].spec.peer else { return };
        let rules = self.rules(e);
        if packet.info().is_response() {
            let number = self.number(e, packet);
            self.ends[e].observer.response_taken(number, packet);
        } else {
            let number = self.number(peer, packet);
            self.ends[e].observer.request_taken(&rules, number, packet);
        }
    }

    /// When a packet of a node has left.
    fn departure(&mut self, node: usize, len_bytes: u64) -> Time {
        let ns = (len_bytes + FRAME_BYTES) * 1000 / self.scenario.fabric.link_bytes_per_us;
        let node = &mut self.nodes[node];
        node.tx_free_at = node.tx_free_at.max(self.clock.now()) + Duration::from_nanos(ns);
        node.tx_free_at
    }
}

/// The fields of a packet that matter beside its name and number.
fn about(packet: &Packet<'_>) -> String {
    let mut text = String::new();
    if let Some(reth) = packet.reth() {
        text += &format!("{} bytes at {:#x} ", reth.len_bytes, reth.addr);
    }
    if let Some(aeth) = packet.aeth() {
        text += &format!("{:?} msn {} ", aeth.syndrome.kind(), aeth.msn);
    }
    if packet.bth().ack_req {
        text += "ack_req ";
    }
    text + &format!("[{}] ", packet.payload().len())
}

fn show(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict { drop: true, .. } => "LOST",
        Verdict { corrupt: Some(_), .. } => "DAMAGED",
        Verdict { duplicate: true, .. } => "DOUBLED",
        Verdict { hold: Some(_), .. } => "HELD",
        Verdict { delay: Some(_), .. } => "DELAYED",
        _ => "",
    }
}
