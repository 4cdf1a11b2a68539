//! The queue pair: a value that takes work requests, packets and the passing of
//! time, and gives packets, completions and events.

use wire::{Gid, Packet, Qpn};

use crate::attr::{AttrMask, QpAttr, QpInit, QpState, QpType};
use crate::completion::{Completion, CompletionOp, Status};
use crate::core::Core;
use crate::counters::QpCounters;
use crate::drop::DropReason;
use crate::error::{ModifyError, PostError};
use crate::host::{CqSide, Host};
use crate::rc::Rc;
use crate::reason::Reason;
use crate::shm::Shm;
use crate::shm::frame::FrameHead;
use crate::shm::path::ReceivedBody;
use crate::state;
use crate::time::Time;
use crate::uc::Uc;
use crate::ud::Ud;
use crate::wr::{AddressVector, RecvWr, SendWr, UdDestination};

/// Room that [`Qp::poll_transmit`] needs: BTH, the longest extension and 4096 bytes of payload.
pub const MAX_PACKET_BYTES: usize = 4096 + 64;

/// The longest message in bytes (IB specification 9.7.7, C9-85).
pub const MAX_MESSAGE_BYTES: u64 = 1 << 31;

/// What the network says about a packet that has arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecvMeta {
    /// The sender's address.
    pub source: Gid,
    /// The address it was sent to: ours, or a multicast group's.
    pub destination: Gid,
    /// IPv4 TOS or IPv6 traffic class, without its ECN bits where they are unknown.
    pub traffic_class: u8,
    /// Time to live.
    pub hop_limit: u8,
    /// A switch marked the packet: congestion experienced.
    pub ecn_ce: bool,
}

/// A packet that wants to leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// Its length from BTH to pad; the ICRC is yet to come.
    pub len_bytes: usize,
    /// Where to.
    pub address: AddressVector,
    /// The UDP source port of its flow.
    pub source_port: u16,
}

#[derive(Debug)]
enum Service {
    Rc(Box<Rc>),
    Uc(Box<Uc>),
    Ud(Box<Ud>),
    /// RC or UC, with the peer on this host.
    Shm(Box<Shm>),
}

impl Service {
    fn new(core: &Core) -> Service {
        match core.qp_type {
            QpType::Rc | QpType::XrcSend | QpType::XrcRecv => Service::Rc(Box::new(Rc::new(&core.tuning))),
            QpType::Uc => Service::Uc(Box::default()),
            QpType::Ud => Service::Ud(Box::default()),
        }
    }
}

/// Calls the same method of whichever service this is.
macro_rules! service {
    ($qp:expr, $service:ident, $core:ident => $call:expr) => {{
        let $core = &mut $qp.core;
        match &mut $qp.service {
            Service::Rc($service) => $call,
            Service::Uc($service) => $call,
            Service::Ud($service) => $call,
            Service::Shm($service) => $call,
        }
    }};
}

/// A queue pair.
#[derive(Debug)]
pub struct Qp {
    core: Core,
    service: Service,
}

impl Qp {
    /// A new one, in state Reset.
    pub fn new(init: &QpInit) -> Qp {
        let core = Core::new(init);
        Qp { service: Service::new(&core), core }
    }

    /// Its number.
    pub fn qpn(&self) -> Qpn {
        self.core.qpn
    }

    /// Its service.
    pub fn qp_type(&self) -> QpType {
        self.core.qp_type
    }

    /// Its state.
    pub fn state(&self) -> QpState {
        self.core.state()
    }

    /// Its protection domain.
    pub fn pd(&self) -> crate::memory::PdId {
        self.core.pd
    }

    /// What the peer may do through it.
    pub fn access(&self) -> crate::memory::Access {
        self.core.attr.access
    }

    /// What it was made with, as far as it can be asked.
    pub fn caps(&self) -> crate::attr::QpCaps {
        self.core.caps
    }

    /// What it has counted.
    pub fn counters(&self) -> &QpCounters {
        &self.core.counters
    }

    /// Why it left its working states, if it did.
    pub fn failure(&self) -> Option<Reason> {
        self.core.failure
    }

    /// Bytes per second to which congestion notifications have limited it; `None`: no limit.
    pub fn rate_limit(&self) -> Option<u64> {
        match &self.service {
            Service::Rc(rc) => rc.rate_limit(),
            _ => None,
        }
    }

    /// How many send work requests fit now.
    pub fn send_room(&self) -> u32 {
        self.core.caps.max_send_wr.saturating_sub(self.core.sq.len() as u32)
    }

    /// Whether a receive WQE is posted, as far as it is its own queue that tells.
    pub fn has_receives(&self) -> bool {
        self.core.shared_recv || !self.core.rq.is_empty()
    }

    /// Its attributes as they are now.
    pub fn query(&self) -> QpAttr {
        let mut attr = self.core.attr;
        attr.current_state = attr.state;
        match &self.service {
            Service::Rc(rc) => rc.query(&self.core, &mut attr),
            Service::Uc(uc) => uc.query(&self.core, &mut attr),
            Service::Ud(ud) => ud.query(&self.core, &mut attr),
            Service::Shm(shm) => shm.query(&self.core, &mut attr),
        }
        attr
    }

    /// Changes attributes and state by the table of state transitions (`state/table.rs`).
    pub fn modify(
        &mut self,
        attr: &QpAttr,
        mask: AttrMask,
        now: Time,
        host: &mut impl Host,
    ) -> Result<(), ModifyError> {
        let target = state::check(&self.core, attr, mask)?;
        let from = self.core.state();
        state::apply(&mut self.core, attr, mask);
        self.enter(from, target, now, host);
        Ok(())
    }

    fn enter(&mut self, from: QpState, to: QpState, now: Time, host: &mut impl Host) {
        match to {
            QpState::Error if from != QpState::Error => self.fail(Reason::Requested, host),
            QpState::Reset => self.reset(host),
            _ => {
                self.core.attr.state = to;
                if from == QpState::Sqe {
                    self.core.failure = None;
                }
                service!(self, service, core => service.entered(core, from, now, host));
            }
        }
    }

    /// Everything posted is forgotten. What was taken from a shared receive queue is not this
    /// queue pair's own to forget: it is given back, flushed.
    fn reset(&mut self, host: &mut impl Host) {
        if let Service::Shm(shm) = &mut self.service {
            shm.part(&mut self.core, host);
        }
        if self.core.shared_recv {
            service!(self, service, core => service.failed(core, host));
        }
        self.core.attr = QpAttr::default();
        self.core.rq.clear();
        self.core.failure = None;
        self.core.established = false;
        self.core.sq.restart(wire::Psn::default());
        self.service = Service::new(&self.core);
    }

    /// Moves to the error state and flushes both queues. The first reason counts.
    pub fn fail(&mut self, reason: Reason, host: &mut impl Host) {
        if self.core.state() == QpState::Error {
            return;
        }
        self.core.attr.state = QpState::Error;
        self.core.failure.get_or_insert(reason);
        service!(self, service, core => service.failed(core, host));
        self.core.flush_send(host);
        self.core.flush_recv(host);
    }

    /// Posts a send work request. In the error state (and SQE) it is flushed.
    #[inline]
    pub fn post_send(&mut self, wr: SendWr, host: &mut impl Host) -> Result<(), PostError> {
        let has_a_chance = state::check_send(&self.core, &wr)?;
        if matches!(self.core.state(), QpState::Error | QpState::Sqe) {
            self.flush_posted(&wr, host);
            return Ok(());
        }
        if let Service::Shm(shm) = &mut self.service
            && has_a_chance
            && shm.execute_inline(&mut self.core, &wr, host)
        {
            return Ok(());
        }
        let mtu = match self.core.qp_type {
            QpType::Ud => u32::MAX,
            _ => self.core.mtu(),
        };
        self.core.sq.push(wr, mtu);
        Ok(())
    }

    fn flush_posted(&mut self, wr: &SendWr, host: &mut impl Host) {
        let op = crate::queue::send::completion_op(&wr.op);
        host.complete(CqSide::Send, Completion::failure(wr.wr_id, self.core.qpn, op, Status::WorkRequestFlushed));
    }

    /// Posts a receive work request. In the error state it is flushed.
    pub fn post_recv(&mut self, wr: RecvWr, host: &mut impl Host) -> Result<(), PostError> {
        state::check_recv(&self.core, &wr)?;
        if self.core.state() == QpState::Error {
            let c = Completion::failure(wr.wr_id, self.core.qpn, CompletionOp::Recv, Status::WorkRequestFlushed);
            host.complete(CqSide::Recv, c);
            return Ok(());
        }
        self.core.rq.post(wr)?;
        if let Service::Rc(rc) = &mut self.service {
            rc.recv_posted(&self.core);
        }
        Ok(())
    }

    /// Takes in a packet for this queue pair. A drop is not a failure of ours: count it.
    pub fn handle_packet(
        &mut self,
        packet: &Packet<'_>,
        arrival: &RecvMeta,
        now: Time,
        host: &mut impl Host,
    ) -> Result<(), DropReason> {
        if !state::receives(self.core.state()) {
            return Err(DropReason::QpState);
        }
        if !self.core.attr.pkey.admits(packet.bth().pkey) {
            return Err(DropReason::PKey);
        }
        self.core.counters.ecn_marked += u64::from(arrival.ecn_ce);
        let outcome = service!(self, service, core => service.handle_packet(core, packet, arrival, now, host));
        self.settle(host);
        outcome?;
        self.core.counters.rx_packets += 1;
        self.core.counters.rx_bytes += packet.payload().len() as u64;
        Ok(())
    }

    /// Writes the next packet that may leave now into `out`, which has at least
    /// [`MAX_PACKET_BYTES`]. `None`: nothing to send until something happens.
    pub fn poll_transmit(&mut self, now: Time, out: &mut [u8], host: &mut impl Host) -> Option<Transmit> {
        let transmit = service!(self, service, core => service.poll_transmit(core, now, out, host));
        if transmit.is_some() {
            self.core.counters.tx_packets += 1;
        }
        self.settle(host);
        transmit
    }

    /// Whether [`poll_transmit`](Qp::poll_transmit) has something worth a system call
    /// of its own; an acknowledge alone is not ([`ack_due`](Qp::ack_due)).
    pub fn wants_transmit(&self) -> bool {
        match &self.service {
            Service::Rc(rc) => rc.wants_transmit(&self.core),
            Service::Uc(uc) => uc.wants_transmit(&self.core),
            Service::Ud(ud) => ud.wants_transmit(&self.core),
            Service::Shm(shm) => shm.has_work(&self.core),
        }
    }

    /// Whether no send work request is outstanding.
    #[inline]
    pub fn is_send_queue_empty(&self) -> bool {
        self.core.sq.is_empty()
    }

    /// RC: whether there is certainly nothing to send, which is quicker to find out than by
    /// [`poll_transmit`](Qp::poll_transmit).
    #[inline]
    pub fn is_idle(&self) -> bool {
        matches!(&self.service, Service::Rc(rc) if rc.is_idle(&self.core))
    }

    /// Whether an acknowledge waits to leave. It may be put off until the
    /// application's next call, so that it travels with other packets.
    pub fn ack_due(&self) -> bool {
        match &self.service {
            Service::Rc(rc) => rc.ack_due(),
            Service::Shm(shm) => shm.ack_due(),
            Service::Uc(_) | Service::Ud(_) => false,
        }
    }

    /// Whether requests were sent that have asked for an answer, and it has not come.
    pub fn awaits_answer(&self) -> bool {
        match &self.service {
            Service::Rc(rc) => rc.awaits_answer(),
            _ => self.next_timeout().is_some(),
        }
    }

    /// RC: makes an acknowledge [due](Qp::ack_due) that nobody has asked for and that would come in a while, for
    /// a queue pair that is about to go.
    pub fn ack_now(&mut self) {
        if let Service::Rc(rc) = &mut self.service {
            rc.ack_now();
        }
    }

    /// RC: holds requests back that were never sent, or lets them go. Everything else leaves as ever: answers,
    /// and what is sent again. This is for a caller that bounds what many queue pairs have in flight together.
    pub fn hold_requests(&mut self, hold: bool) {
        if let Service::Rc(rc) = &mut self.service {
            rc.hold_requests(hold);
        }
    }

    /// RC: whether a request would leave if it were not [held back](Qp::hold_requests).
    pub fn is_held_back(&self) -> bool {
        matches!(&self.service, Service::Rc(rc) if rc.is_held_back(&self.core))
    }

    /// RC: what was sent, or asked for by READs, and is not answered: payload and 128 bytes for each packet.
    pub fn in_flight_bytes(&self) -> u64 {
        match &self.service {
            Service::Rc(rc) => rc.in_flight_bytes(&self.core),
            _ => 0,
        }
    }

    /// RC: how often it has sent again for want of an answer since the peer's last one.
    #[inline]
    pub fn unanswered_probes(&self) -> u32 {
        match &self.service {
            Service::Rc(rc) => rc.unanswered_probes(),
            _ => 0,
        }
    }

    /// Whom requests go to, if it is a queue pair for packets to one peer only, and connected.
    pub fn peer(&self) -> Option<(AddressVector, Qpn)> {
        let attr = &self.core.attr;
        let connected = state::completes(attr.state) && matches!(self.service, Service::Rc(_));
        connected.then_some((attr.address, attr.dest_qpn))
    }

    /// Where its peer is, if it is connected (RC or UC), by whatever way.
    pub fn remote(&self) -> Option<(AddressVector, Qpn)> {
        let attr = &self.core.attr;
        let connects = matches!(self.core.qp_type, QpType::Rc | QpType::Uc);
        (connects && !matches!(attr.state, QpState::Reset | QpState::Init)).then_some((attr.address, attr.dest_qpn))
    }

    /// When [`handle_timeout`](Qp::handle_timeout) wants to be called.
    #[inline]
    pub fn next_timeout(&self) -> Option<Time> {
        match &self.service {
            Service::Rc(rc) => rc.next_timeout(),
            Service::Shm(shm) => shm.next_timeout(),
            Service::Ud(ud) => ud.next_timeout(),
            Service::Uc(_) => None,
        }
    }

    /// Tells that time has passed. Calling it early does no harm.
    pub fn handle_timeout(&mut self, now: Time, host: &mut impl Host) {
        match &mut self.service {
            Service::Rc(rc) => rc.handle_timeout(&mut self.core, now),
            Service::Shm(shm) => shm.handle_timeout(now),
            Service::Ud(ud) => ud.handle_timeout(now),
            Service::Uc(_) => {}
        }
        self.settle(host);
    }

    /// Chooses the way to the peer, before the queue pair is connected (in state Reset or Init):
    /// `near` if it is on this host and both ends know it. RC and UC only. Returns whether it is so now.
    pub fn set_shm(&mut self, shm: bool) -> bool {
        let can_be = matches!(self.core.qp_type, QpType::Rc | QpType::Uc);
        if can_be && matches!(self.core.state(), QpState::Reset | QpState::Init) {
            self.service = if shm { Service::Shm(Box::default()) } else { Service::new(&self.core) };
        }
        self.is_shm()
    }

    /// Whether its peer is on this host and it sends no packets.
    #[inline]
    pub fn is_shm(&self) -> bool {
        matches!(self.service, Service::Shm(_))
    }

    /// Takes in a frame of the peer on this host. [`DropReason::QpState`] wants to be told to the
    /// peer if the frame is a request ([`FrameHead::not_ready`]); any other drop is to be counted only.
    #[inline]
    pub fn handle_frame<H: Host>(
        &mut self,
        head: &FrameHead,
        body: &impl ReceivedBody<Memory = H::Memory>,
        host: &mut H,
    ) -> Result<(), DropReason> {
        let Service::Shm(shm) = &mut self.service else { return Err(DropReason::QpState) };
        if head.src != self.core.attr.dest_qpn {
            return Err(DropReason::WrongSource);
        }
        if !state::receives(self.core.state()) {
            // Not before the peer has heard why.
            return Err(if shm.has_refused() { DropReason::OutOfSequence } else { DropReason::QpState });
        }
        let outcome = shm.handle_frame(&mut self.core, head, body, host);
        self.settle(host);
        outcome
    }

    /// Shm: carries out what can be carried out now; acknowledges that wait leave too, if `with_acks`.
    #[inline]
    pub fn progress(&mut self, with_acks: bool, host: &mut impl Host) {
        if let Service::Shm(shm) = &mut self.service {
            shm.progress(&mut self.core, with_acks, host);
            self.settle(host);
            self.tell_failure(host);
        }
    }

    /// What came of a failure may have to be told to the peer.
    #[inline]
    fn tell_failure(&mut self, host: &mut impl Host) {
        if let Service::Shm(shm) = &mut self.service
            && shm.has_news()
        {
            shm.progress(&mut self.core, false, host);
        }
    }

    /// Shm: acts as if a frame had been lost on the way. The peer is to be told that nobody
    /// took it.
    #[cold]
    pub fn lose_frame(&mut self, head: &FrameHead) {
        if let Service::Shm(shm) = &mut self.service {
            shm.lose_frame(head);
        }
    }

    /// Shm: whether it waits for room in the lane to the peer.
    #[inline]
    pub fn waits_for_lane(&self) -> bool {
        matches!(&self.service, Service::Shm(shm) if shm.waits_for_lane())
    }

    /// Shm, and UD that was held: there may be room again.
    pub fn resume_sending(&mut self) {
        match &mut self.service {
            Service::Shm(shm) => shm.resume_sending(),
            Service::Ud(ud) => ud.progress(),
            Service::Rc(_) | Service::Uc(_) => {}
        }
    }

    /// UD: what [`poll_transmit`](Qp::poll_transmit) sends next, and the length of its payload in bytes.
    #[inline]
    pub fn next_datagram(&self) -> Option<(UdDestination, u32)> {
        match &self.service {
            Service::Ud(ud) => ud.next_datagram(&self.core),
            _ => None,
        }
    }

    /// UD: nothing is sent until then, or until [`resume_sending`](Qp::resume_sending): the way to a process
    /// on this host is full.
    pub fn hold_datagrams(&mut self, until: Time) {
        if let Service::Ud(ud) = &mut self.service {
            ud.hold(until);
        }
    }

    /// Shm: the peer's process is gone. What waits for it fails.
    pub fn peer_died(&mut self, host: &mut impl Host) {
        if let Service::Shm(shm) = &mut self.service {
            shm.peer_died(&mut self.core, host);
            self.settle(host);
        }
    }

    #[cfg(test)]
    pub(crate) fn own_cookie(&self) -> Option<wire::Cookie> {
        match &self.service {
            Service::Rc(rc) => Some(rc.own_cookie()),
            _ => None,
        }
    }

    /// Carries out a failure that a service has found. Asked after every packet, so
    /// the usual answer has to be cheap.
    #[inline]
    fn settle(&mut self, host: &mut impl Host) {
        let found = match &mut self.service {
            Service::Rc(rc) => rc.take_failure(),
            Service::Uc(uc) => uc.take_failure(),
            Service::Ud(ud) => ud.take_failure(),
            Service::Shm(shm) => shm.take_failure(),
        };
        if let Some(failure) = found {
            self.carry_out(failure, host);
        }
    }

    #[cold]
    fn carry_out(&mut self, failure: Failure, host: &mut impl Host) {
        match failure {
            Failure::SendQueue(reason) if !self.core.qp_type.is_reliable() => self.enter_sqe(reason, host),
            Failure::SendQueue(reason) => {
                self.core.fail_head(reason, host);
                self.fail(reason, host);
            }
            Failure::QueuePair(reason, event) => {
                self.fail(reason, host);
                if let Some(event) = event {
                    host.event(event);
                }
            }
        }
    }

    /// UC and UD: a failed send stops the send queue only (IB specification 10.3.1, SQE).
    fn enter_sqe(&mut self, reason: Reason, host: &mut impl Host) {
        self.core.fail_head(reason, host);
        self.core.flush_send(host);
        self.core.failure = Some(reason);
        self.core.attr.state = QpState::Sqe;
    }
}

/// A failure that a service has found; [`Qp`] carries it out.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Failure {
    /// The oldest send WQE failed.
    SendQueue(Reason),
    /// The whole queue pair, with an event for its owner.
    QueuePair(Reason, Option<crate::host::QpEvent>),
}
