//! The queue pair: a value that takes work requests, packets and the passing of
//! time, and gives packets, completions and events.
//!
//! [`Qp`] checks each call against the state and hands it to the path to the peer: packets
//! ([`packets`](self::packets)) or shared memory ([`frames`](self::frames)). Neither path knows the other.
//! After each call `Qp` carries out the failure that the path has found.

mod frames;
mod packets;

use wire::Qpn;

use crate::attr::{AttrMask, QpAttr, QpCaps, QpInit, QpState, QpType};
use crate::completion::{Completion, CompletionOp, Status};
use crate::counters::QpCounters;
use crate::error::{ModifyError, PostError};
use crate::failure::QpFailure;
use crate::host::{CqSide, Host};
use crate::memory::{Access, PdId};
use crate::qp_core::QpCore;
use crate::reason::Reason;
use crate::shm::ShmQp;
use crate::shm::write_at_once::WriteAtOnce;
use crate::state;
use crate::time::Time;
use crate::wire_qp::WireQp;
use crate::wr::{AddressVector, RecvWr, RemoteAddr, SendFlags, SendWr};

/// The path to the peer.
#[derive(Debug)]
enum QpPath {
    Wire(WireQp),
    /// RC or UC, with the peer on this host.
    Shm(Box<ShmQp>),
}

/// A queue pair.
#[derive(Debug)]
pub struct Qp {
    core: QpCore,
    path: QpPath,
}

impl Qp {
    /// A new one, in state Reset.
    pub fn new(init: &QpInit) -> Qp {
        let core = QpCore::new(init);
        Qp { path: QpPath::Wire(WireQp::new(&core)), core }
    }

    /// Its number.
    pub fn qpn(&self) -> Qpn {
        self.core.qpn
    }

    /// Its transport service.
    pub fn qp_type(&self) -> QpType {
        self.core.qp_type
    }

    /// Its state.
    pub fn state(&self) -> QpState {
        self.core.state()
    }

    /// Its protection domain.
    pub fn pd(&self) -> PdId {
        self.core.pd
    }

    /// The rights that the peer has through it.
    pub fn access(&self) -> Access {
        self.core.attr.access
    }

    /// The queue sizes that it was created with.
    pub fn caps(&self) -> QpCaps {
        self.core.caps
    }

    /// Its counters.
    pub fn counters(&self) -> &QpCounters {
        &self.core.counters
    }

    /// The reason for which it left its working states, if it did.
    pub fn failure(&self) -> Option<Reason> {
        self.core.failure
    }

    /// The number of send work requests that fit into the queue.
    pub fn send_room(&self) -> u32 {
        self.core.caps.max_send_wr.saturating_sub(self.core.sq.posted() as u32)
    }

    /// Whether its own receive queue has a WQE. Always true with a shared receive queue.
    pub fn has_receives(&self) -> bool {
        self.core.shared_recv || !self.core.rq.is_empty()
    }

    /// Whether no send work request is outstanding.
    #[inline]
    pub fn is_send_queue_empty(&self) -> bool {
        self.core.sq.is_empty()
    }

    /// Its present attributes.
    pub fn query(&self) -> QpAttr {
        let mut attr = self.core.attr;
        attr.current_state = attr.state;
        match &self.path {
            QpPath::Wire(wire) => wire.query(&self.core, &mut attr),
            QpPath::Shm(shm) => shm.query(&self.core, &mut attr),
        }
        attr
    }

    /// RC and UC: the peer's address and number once connected, on either path.
    pub fn remote(&self) -> Option<(AddressVector, Qpn)> {
        let attr = &self.core.attr;
        let connects = matches!(self.core.qp_type, QpType::Rc | QpType::Uc);
        (connects && !matches!(attr.state, QpState::Reset | QpState::Init)).then_some((attr.address, attr.dest_qpn))
    }

    /// Changes attributes and state by the table of state transitions (`state/table.rs`).
    pub fn modify(&mut self, attr: &QpAttr, mask: AttrMask, host: &mut impl Host) -> Result<(), ModifyError> {
        let target = state::check(&self.core, attr, mask)?;
        let from = self.core.state();
        state::apply(&mut self.core, attr, mask);
        self.enter(from, target, host);
        Ok(())
    }

    fn enter(&mut self, from: QpState, to: QpState, host: &mut impl Host) {
        match to {
            QpState::Error if from != QpState::Error => self.fail(Reason::Requested, host),
            QpState::Reset => self.reset(host),
            _ => {
                self.core.attr.state = to;
                if from == QpState::Sqe {
                    self.core.failure = None;
                }
                match &mut self.path {
                    QpPath::Wire(wire) => wire.entered(&mut self.core, from, host),
                    QpPath::Shm(shm) => shm.entered(&mut self.core, from, host),
                }
            }
        }
    }

    /// Drops everything posted. A WQE taken from a shared receive queue is flushed instead: it is not this queue
    /// pair's own to forget.
    fn reset(&mut self, host: &mut impl Host) {
        if let QpPath::Shm(shm) = &mut self.path {
            shm.send_last_frames(&mut self.core, host);
        }
        if self.core.shared_recv {
            self.stop_path(host);
        }
        self.core.reset();
        self.path = QpPath::Wire(WireQp::new(&self.core));
    }

    /// Moves to the error state and flushes both queues. The first reason counts.
    pub fn fail(&mut self, reason: Reason, host: &mut impl Host) {
        if self.core.state() == QpState::Error {
            return;
        }
        self.core.attr.state = QpState::Error;
        self.core.failure.get_or_insert(reason);
        self.stop_path(host);
        self.core.flush_send(host);
        self.core.flush_recv(host);
    }

    fn stop_path(&mut self, host: &mut impl Host) {
        match &mut self.path {
            QpPath::Wire(wire) => wire.failed(&mut self.core, host),
            QpPath::Shm(shm) => shm.failed(&mut self.core, host),
        }
    }

    /// Posts a send work request. In the error state (and SQE) it is flushed.
    #[inline]
    pub fn post_send(&mut self, wr: SendWr, host: &mut impl Host) -> Result<(), PostError> {
        let is_supported = state::check_send(&self.core, &wr)?;
        if matches!(self.core.state(), QpState::Error | QpState::Sqe) {
            self.flush_posted(&wr, host);
            return Ok(());
        }
        if let QpPath::Shm(shm) = &mut self.path
            && is_supported
            && shm.execute_inline(&mut self.core, &wr, host)
        {
            return Ok(());
        }
        let mtu = match self.core.qp_type {
            QpType::Ud => u32::MAX,
            _ => self.core.mtu(),
        };
        if wr.op.is_extension() && is_supported {
            return self.push_extension(wr, mtu);
        }
        self.core.sq.push(wr, mtu);
        Ok(())
    }

    /// Appends a request of Longarm's own. While nothing has told whether the peer knows it, a READ of no bytes goes
    /// before it, which every peer answers. An answer that is under way will do, too.
    #[cold]
    fn push_extension(&mut self, wr: SendWr, mtu: u32) -> Result<(), PostError> {
        if let QpPath::Wire(WireQp::Rc(rc)) = &self.path {
            match rc.peer_extends() {
                Some(true) => {}
                Some(false) => return Err(PostError::PeerLacksExtension),
                None if !self.needs_inquiry() => {}
                None => self.core.sq.push_inquiry(mtu),
            }
        }
        self.core.sq.push(SendWr { flags: wr.flags | SendFlags::EXTENSION, ..wr }, mtu);
        Ok(())
    }

    /// Whether a request of Longarm's own that is posted now takes one PSN more: a READ of no bytes goes before it.
    pub fn needs_inquiry(&self) -> bool {
        self.peer_extends().is_none() && !self.core.sq.has_packets()
    }

    /// Whether the peer carries out requests of Longarm's own (docs/extensions.md). `None`: no answer of it has told yet.
    pub fn peer_extends(&self) -> Option<bool> {
        match &self.path {
            QpPath::Wire(WireQp::Rc(rc)) if self.core.qp_type == QpType::Rc => rc.peer_extends(),
            QpPath::Shm(_) => Some(self.core.qp_type == QpType::Rc),
            QpPath::Wire(_) => Some(false),
        }
    }

    /// Executes a WRITE of bytes that no key of ours names, if that is possible at once: the peer is on this host, its
    /// memory is mapped here, and nothing is before it. It has no completion.
    pub fn write_at_once(&mut self, bytes: &[u8], to: RemoteAddr, host: &mut impl Host) -> WriteAtOnce {
        match &mut self.path {
            QpPath::Shm(shm) if self.core.qp_type == QpType::Rc => shm.write_at_once(&mut self.core, bytes, to, host),
            _ => WriteAtOnce::Refused,
        }
    }

    /// Executes a READ into bytes that no key of ours names, if that is possible at once. With a lock mask it reads an object
    /// as it is at one moment. It has no completion. Returns the bytes that it took: 8 of an object that is busy.
    #[inline]
    pub fn read_at_once(
        &mut self,
        out: &mut [u8],
        from: RemoteAddr,
        lock_mask: Option<u64>,
        host: &mut impl Host,
    ) -> Option<u32> {
        match &mut self.path {
            QpPath::Shm(shm) if self.core.qp_type == QpType::Rc => {
                shm.read_at_once(&mut self.core, out, (from, lock_mask), host)
            }
            _ => None,
        }
    }

    fn flush_posted(&mut self, wr: &SendWr, host: &mut impl Host) {
        let op = wr.op.completion_op();
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
        if let QpPath::Wire(WireQp::Rc(rc)) = &mut self.path {
            rc.recv_posted(&self.core);
        }
        Ok(())
    }

    /// Whether the peer is to get more than an ACK: a request, a READ response or a NAK.
    /// An ACK alone is not worth a system call of its own (see [`ack_due`](Qp::ack_due)).
    pub fn wants_transmit(&self) -> bool {
        match &self.path {
            QpPath::Wire(wire) => wire.wants_transmit(&self.core),
            QpPath::Shm(shm) => shm.has_work(&self.core),
        }
    }

    /// Whether an ACK waits to leave. The caller may defer it until the application's next call, so that it
    /// travels with other packets.
    pub fn ack_due(&self) -> bool {
        match &self.path {
            QpPath::Wire(WireQp::Rc(rc)) => rc.ack_due(),
            QpPath::Wire(_) => false,
            QpPath::Shm(shm) => shm.ack_due(),
        }
    }

    /// Whether requests were sent that asked for a response, and it has not come.
    pub fn awaits_answer(&self) -> bool {
        match &self.path {
            QpPath::Wire(WireQp::Rc(rc)) => rc.awaits_answer(),
            _ => self.next_timeout().is_some(),
        }
    }

    /// When [`handle_timeout`](Qp::handle_timeout) is to be called next.
    #[inline]
    pub fn next_timeout(&self) -> Option<Time> {
        match &self.path {
            QpPath::Wire(wire) => wire.next_timeout(),
            QpPath::Shm(shm) => shm.next_timeout(),
        }
    }

    /// Tells the queue pair that time has passed. An early call does no harm.
    pub fn handle_timeout(&mut self, now: Time, host: &mut impl Host) {
        match &mut self.path {
            QpPath::Wire(wire) => wire.handle_timeout(&mut self.core, now),
            QpPath::Shm(shm) => shm.handle_timeout(now),
        }
        self.settle(host);
    }

    /// Chooses the path to the peer before the queue pair is connected (in state Reset or Init): shared memory if
    /// both ends are on this host and agree on it. RC and UC only. Returns whether it is shared memory.
    pub fn set_shm(&mut self, shm: bool) -> bool {
        let can_be = matches!(self.core.qp_type, QpType::Rc | QpType::Uc);
        if can_be && matches!(self.core.state(), QpState::Reset | QpState::Init) {
            self.path = if shm { QpPath::Shm(Box::default()) } else { QpPath::Wire(WireQp::new(&self.core)) };
        }
        self.is_shm()
    }

    /// Whether the path to its peer is shared memory; it sends no packets then.
    #[inline]
    pub fn is_shm(&self) -> bool {
        matches!(self.path, QpPath::Shm(_))
    }

    /// Carries out the failure that the path has found. Called after every packet: the usual answer is cheap.
    #[inline]
    fn settle(&mut self, host: &mut impl Host) {
        let found = match &mut self.path {
            QpPath::Wire(wire) => wire.take_failure(),
            QpPath::Shm(shm) => shm.take_failure(),
        };
        if let Some(failure) = found {
            self.carry_out(failure, host);
        }
    }

    #[cold]
    fn carry_out(&mut self, failure: QpFailure, host: &mut impl Host) {
        match failure {
            QpFailure::SendQueue(reason) if !self.core.qp_type.is_reliable() => self.enter_sqe(reason, host),
            QpFailure::SendQueue(reason) => {
                self.core.fail_head(reason, host);
                self.fail(reason, host);
            }
            QpFailure::QueuePair(reason, event) => {
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
