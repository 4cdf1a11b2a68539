//! The run: senders, links, switch and receiver on one clock.

use core::time::Duration;

use transport::{
    Access, AddressVector, AttrMask, LKey, MAX_PACKET_BYTES, Payload, PdId, Qp, QpAttr, QpCaps, QpInit, QpState,
    QpType, RecvMeta, RemoteAddr, SendFlags, SendOp, SendWr, Sge, Sgl, Time, Tuning,
};
use wire::{Gid, Packet, Qpn, RKey};

use super::host::IncastHost;
use super::plan::{IncastPlan, IncastResult, QueueSample};
use super::switch::{PauseSignal, Queued, Switch};
use crate::clock::Clock;
use crate::rng::{Stream, up_to};

/// Ethernet with preamble and gap, IP, UDP and ICRC.
const FRAME_BYTES: u64 = 38 + 20 + 8 + 4;
/// Bytes of a message.
const MESSAGE_BYTES: u32 = 32 << 10;
/// Work requests outstanding.
const DEPTH: u32 = 16;
/// Distance of samples.
const SAMPLE: Duration = Duration::from_micros(10);
/// Senders begin within this time.
const BEGIN: Duration = Duration::from_micros(20);
/// The ECN bits of a traffic class.
const ECN_MASK: u8 = 3;

#[derive(Debug)]
enum IncastEvent {
    /// A sender's link is free, or it may have something to send.
    Send(usize),
    /// A sender's timer.
    Timer(usize),
    /// A packet reaches the switch; whether it understands marks.
    AtSwitch(Queued, bool),
    /// The link to the receiver is free.
    Egress,
    /// A packet reaches the receiver.
    AtReceiver(Queued),
    /// An answer reaches a sender.
    AtSender(usize, Vec<u8>),
    /// A link is paused or resumed.
    Pause(usize, PauseSignal),
    /// A sample is taken.
    QueueSample,
    /// Half of the time is over.
    Half,
}

/// A queue pair and its surroundings.
struct IncastEnd {
    qp: Qp,
    host: IncastHost,
    gid: Gid,
}

struct IncastSender {
    end: IncastEnd,
    link_free_at: Time,
    paused_since: Option<Time>,
    timer: Option<Time>,
    posted: u64,
    done_at_half: u64,
}

pub(super) struct IncastWorld {
    plan: IncastPlan,
    clock: Clock<IncastEvent>,
    senders: Vec<IncastSender>,
    /// The receiver's queue pairs, one for each sender.
    receivers: Vec<IncastEnd>,
    switch: Switch,
    egress_busy: bool,
    samples: Vec<QueueSample>,
    pauses: u64,
    paused: Duration,
    paused_at_half: Duration,
    buffer: Vec<u8>,
}

impl IncastWorld {
    pub(super) fn new(plan: &IncastPlan) -> IncastWorld {
        let rng = Stream::Host.rng(plan.seed);
        let mut begin = Stream::Memory(0).rng(plan.seed);
        let mut world = IncastWorld {
            plan: *plan,
            clock: Clock::default(),
            senders: Vec::new(),
            receivers: Vec::new(),
            switch: Switch::new(plan.switch, plan.senders, plan.loss_control.pauses(), plan.loss_control.marks(), rng),
            egress_busy: false,
            samples: Vec::new(),
            pauses: 0,
            paused: Duration::ZERO,
            paused_at_half: Duration::ZERO,
            buffer: vec![0; MAX_PACKET_BYTES],
        };
        for number in 0..plan.senders {
            let (mut sender, mut receiver) = (IncastEnd::new(plan, number, 1), IncastEnd::new(plan, number, 2));
            let (to_receiver, to_sender) = (receiver.qp.qpn(), sender.qp.qpn());
            sender.connect(plan, receiver.gid, to_receiver);
            receiver.connect(plan, sender.gid, to_sender);
            world.senders.push(IncastSender {
                end: sender,
                link_free_at: Time(0),
                paused_since: None,
                timer: None,
                posted: 0,
                done_at_half: 0,
            });
            world.receivers.push(receiver);
            world.clock.schedule(Time(0) + up_to(&mut begin, BEGIN), IncastEvent::Send(number));
        }
        world.clock.schedule(Time(0), IncastEvent::QueueSample);
        world.clock.schedule(Time(0) + plan.duration / 2, IncastEvent::Half);
        world
    }

    pub(super) fn run(mut self) -> IncastResult {
        let end = Time(0) + self.plan.duration;
        while let Some(event) = self.clock.advance() {
            if self.clock.now() >= end {
                break;
            }
            self.handle(event);
        }
        self.finish(end)
    }

    fn handle(&mut self, event: IncastEvent) {
        match event {
            IncastEvent::Send(sender) => self.send(sender),
            IncastEvent::Timer(sender) => self.fire(sender),
            IncastEvent::AtSwitch(packet, capable) => self.at_switch(packet, capable),
            IncastEvent::Egress => self.depart(),
            IncastEvent::AtReceiver(packet) => self.receive(&packet),
            IncastEvent::AtSender(sender, bytes) => self.answered(sender, &bytes),
            IncastEvent::Pause(sender, signal) => self.pause(sender, signal),
            IncastEvent::QueueSample => {
                self.samples.push(QueueSample { at: self.clock.now(), queue_bytes: self.switch.queue_bytes() });
                self.clock.schedule(self.clock.now() + SAMPLE, IncastEvent::QueueSample);
            }
            IncastEvent::Half => self.note_half(),
        }
    }

    fn note_half(&mut self) {
        let now = self.clock.now();
        for sender in &mut self.senders {
            sender.done_at_half = sender.end.acknowledged();
        }
        self.paused_at_half = self.paused + self.still_paused(now);
    }

    /// Pauses that have not ended.
    fn still_paused(&self, now: Time) -> Duration {
        self.senders.iter().filter_map(|sender| sender.paused_since).map(|since| now.since(since)).sum()
    }

    /// A sender puts its next packet on its link, if it has one and may.
    fn send(&mut self, number: usize) {
        let now = self.clock.now();
        let sender = &mut self.senders[number];
        sender.post();
        if sender.paused_since.is_some() || now < sender.link_free_at {
            return;
        }
        let transmit = sender.end.qp.poll_transmit(now, &mut self.buffer, &mut sender.end.host);
        self.set_timer(number);
        let Some(transmit) = transmit else { return };
        let wire_bytes = transmit.len_bytes as u64 + FRAME_BYTES;
        let free_at = now + self.time_of(wire_bytes);
        self.senders[number].link_free_at = free_at;
        let bytes = self.buffer[..transmit.len_bytes].to_vec();
        let capable = transmit.address.traffic_class & ECN_MASK != 0;
        let packet = Queued { sender: number, bytes, wire_bytes, marked: false };
        self.clock.schedule(free_at + self.plan.link_delay, IncastEvent::AtSwitch(packet, capable));
        self.clock.schedule(free_at, IncastEvent::Send(number));
    }

    fn time_of(&self, wire_bytes: u64) -> Duration {
        Duration::from_nanos(wire_bytes * 1000 / self.plan.link_bytes_per_us)
    }

    fn set_timer(&mut self, number: usize) {
        let sender = &mut self.senders[number];
        let Some(at) = sender.end.qp.next_timeout() else { return };
        if sender.timer.is_none_or(|armed| at < armed) {
            sender.timer = Some(at);
            self.clock.schedule(at, IncastEvent::Timer(number));
        }
    }

    fn fire(&mut self, number: usize) {
        let now = self.clock.now();
        let sender = &mut self.senders[number];
        if sender.timer.is_none_or(|armed| armed > now) {
            return;
        }
        sender.timer = None;
        sender.end.qp.handle_timeout(now, &mut sender.end.host);
        self.set_timer(number);
        self.send(number);
    }

    fn at_switch(&mut self, packet: Queued, capable: bool) {
        let sender = packet.sender;
        if let Some(signal) = self.switch.arrive(packet, capable) {
            self.tell(sender, signal);
        }
        if !self.egress_busy {
            self.depart();
        }
    }

    /// A PFC frame to a sender's link.
    fn tell(&mut self, sender: usize, signal: PauseSignal) {
        self.clock.schedule(self.clock.now() + self.plan.link_delay, IncastEvent::Pause(sender, signal));
    }

    fn depart(&mut self) {
        let Some((packet, signal)) = self.switch.depart() else {
            self.egress_busy = false;
            return;
        };
        self.egress_busy = true;
        if let Some(signal) = signal {
            self.tell(packet.sender, signal);
        }
        let free_at = self.clock.now() + self.time_of(packet.wire_bytes);
        self.clock.schedule(free_at, IncastEvent::Egress);
        self.clock.schedule(free_at + self.plan.link_delay, IncastEvent::AtReceiver(packet));
    }

    fn receive(&mut self, packet: &Queued) {
        let now = self.clock.now();
        let (from, end) = (self.senders[packet.sender].end.gid, &mut self.receivers[packet.sender]);
        end.take_in(from, &packet.bytes, packet.marked, now);
        // Answers cross an empty network.
        while let Some(transmit) = end.qp.poll_transmit(now, &mut self.buffer, &mut end.host) {
            let bytes = self.buffer[..transmit.len_bytes].to_vec();
            self.clock.schedule(now + self.plan.link_delay * 2, IncastEvent::AtSender(packet.sender, bytes));
        }
    }

    fn answered(&mut self, number: usize, bytes: &[u8]) {
        let now = self.clock.now();
        let from = self.receivers[number].gid;
        self.senders[number].end.take_in(from, bytes, false, now);
        self.set_timer(number);
        self.send(number);
    }

    fn pause(&mut self, number: usize, signal: PauseSignal) {
        let now = self.clock.now();
        let sender = &mut self.senders[number];
        match signal {
            PauseSignal::Pause if sender.paused_since.is_none() => {
                self.pauses += 1;
                sender.paused_since = Some(now);
            }
            PauseSignal::Pause => {}
            PauseSignal::Resume => {
                self.paused += sender.paused_since.take().map_or(Duration::ZERO, |since| now.since(since));
                let at = now.max(sender.link_free_at);
                self.clock.schedule(at, IncastEvent::Send(number));
            }
        }
    }

    fn finish(mut self, end: Time) -> IncastResult {
        self.paused += self.still_paused(end);
        let seconds = (self.plan.duration / 2).as_secs_f64();
        let goodput = |sender: &IncastSender| (sender.end.acknowledged() - sender.done_at_half) as f64 / seconds;
        let counters = |pick: fn(&transport::QpCounters) -> u64| {
            self.senders.iter().map(|sender| pick(sender.end.qp.counters())).sum()
        };
        IncastResult {
            goodput: self.senders.iter().map(goodput).collect(),
            drops: self.switch.drops,
            sent_again: counters(|counters| counters.retransmitted_packets),
            pauses: self.pauses,
            paused: self.paused,
            paused_later: self.paused.saturating_sub(self.paused_at_half),
            marks: self.switch.marked,
            notifications: counters(|counters| counters.rx_cnps),
            failures: self.senders.iter().filter(|sender| sender.end.host.failed).count(),
            samples: self.samples,
            plan: self.plan,
        }
    }
}

impl IncastSender {
    /// Keeps its queue filled.
    fn post(&mut self) {
        while self.posted - self.end.host.done < u64::from(DEPTH) && !self.end.host.failed {
            self.posted += 1;
            let sgl = Sgl::from_slice(&[Sge { addr: 0, len_bytes: MESSAGE_BYTES, lkey: LKey(1) }]);
            let wr = SendWr {
                wr_id: self.posted,
                op: SendOp::Write(RemoteAddr { addr: 0, rkey: RKey(1) }),
                flags: SendFlags::SIGNALED,
                payload: Payload::Sgl(sgl),
                datagram: None,
                xrc_srq: None,
            };
            self.end.qp.post_send(wr, &mut self.end.host).expect("the queue has room for its depth");
        }
    }
}

impl IncastEnd {
    fn new(plan: &IncastPlan, number: usize, side: u8) -> IncastEnd {
        let tuning = Tuning {
            dcqcn: transport::Dcqcn { enabled: plan.loss_control.marks(), ..plan.dcqcn },
            ..Tuning::default()
        };
        let caps = QpCaps { max_send_wr: DEPTH, max_recv_wr: 1, max_send_sge: 1, max_recv_sge: 1, max_inline_bytes: 0 };
        let init = QpInit {
            qpn: Qpn::from_parts(side, number as u16 + 1),
            qp_type: QpType::Rc,
            pd: PdId(1),
            caps,
            signal_all: true,
            shared_recv: None,
            tuning,
            secret: u64::from(side) << 32 | number as u64,
        };
        let gid = Gid::from(core::net::IpAddr::from([10, side, (number >> 8) as u8, number as u8]));
        IncastEnd { qp: Qp::new(&init), host: IncastHost::default(), gid }
    }

    fn connect(&mut self, plan: &IncastPlan, peer_gid: Gid, peer: Qpn) {
        use AttrMask as M;
        let attr = QpAttr {
            access: Access::REMOTE_WRITE,
            address: AddressVector::new(self.gid, peer_gid),
            path_mtu: plan.mtu,
            dest_qpn: peer,
            timeout: 14,
            retry_count: 7,
            rnr_retry: 7,
            ..QpAttr::default()
        };
        let to_rtr = M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN | M::MAX_DEST_RD_ATOMIC | M::MIN_RNR_TIMER;
        let to_rts = M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY | M::MAX_QP_RD_ATOMIC | M::SQ_PSN;
        for (state, mask) in
            [(QpState::Init, M::ACCESS_FLAGS | M::PKEY_INDEX | M::PORT), (QpState::Rtr, to_rtr), (QpState::Rts, to_rts)]
        {
            let attr = QpAttr { state, ..attr };
            self.qp.modify(&attr, mask | M::STATE, &mut self.host).expect("a step of the table");
        }
    }

    fn take_in(&mut self, source: Gid, bytes: &[u8], ecn_ce: bool, now: Time) {
        let Ok(packet) = Packet::parse(bytes) else { return };
        let arrival = RecvMeta { source, destination: self.gid, traffic_class: 0, hop_limit: 64, ecn_ce };
        // A drop is counted by the queue pair itself.
        let _ = self.qp.handle_packet(&packet, &arrival, now, &mut self.host);
    }

    /// Bytes of this sender that have arrived, as far as it knows.
    fn acknowledged(&self) -> u64 {
        self.host.done * u64::from(MESSAGE_BYTES)
    }
}
