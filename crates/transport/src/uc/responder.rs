//! The UC responder: assembles messages, and drops those of which a part is missing or wrong (IB specification
//! 9.8.2.2). The peer is never told.
//!
//! ```text
//!  PSN ─► opcode order ─► length ─► receive WQE ─► key ─► execute ─► complete
//!   │          │             │           │          │
//!   │          └─────────────┴─ the whole message is dropped: all until the next First or Only
//!   ├─ ahead: a gap; the message under way is dropped, a First or Only begins a new one
//!   └─ behind: late or a duplicate
//! ```
//! A receive WQE that a dropped SEND had taken serves the next message. Bytes of a dropped message that were written
//! stay written.

use wire::{Operation, Packet, Position, Psn, RKey, Reth};

use crate::completion::{Completion, CompletionOp, Status};
use crate::drop::DropReason;
use crate::failure::QpFailure;
use crate::host::{CqSide, Host};
use crate::limits::MAX_MESSAGE_BYTES;
use crate::memory::{Access, Memory, MemoryError};
use crate::qp_core::QpCore;
use crate::reason::Reason;
use crate::wr::RecvWr;

/// The distance up to which a packet counts as late. The specification knows no
/// late packets and would begin a message with it: an InfiniBand fabric keeps the order.
/// An IP network does not, and a SEND must not arrive twice. Further behind, the peer
/// has started a new connection.
const LATE_PACKETS: i32 = 4096;

/// The message that is arriving.
#[derive(Debug, Default)]
enum UcInbound {
    /// None: the next packet begins one.
    #[default]
    Idle,
    /// A SEND, into the receive WQE that its first packet took.
    Send { wr: RecvWr, received: u64 },
    /// A WRITE; `addr` and `left_bytes` say what is still to come.
    Write { rkey: RKey, addr: u64, left_bytes: u32, total_bytes: u32 },
    /// One that is given up: its remaining packets are dropped for this reason.
    Dropped(DropReason),
}

/// The reason for which a message is given up.
#[derive(Debug)]
enum UcFault {
    /// The message is dropped.
    Drop(DropReason),
    /// Our own receive WQE, the one with this number, is at fault: the queue pair fails.
    Local(u64, MemoryError),
}

impl From<DropReason> for UcFault {
    fn from(reason: DropReason) -> UcFault {
        UcFault::Drop(reason)
    }
}

#[derive(Debug, Default)]
pub(crate) struct UcResponder {
    expected: Psn,
    inbound: UcInbound,
    /// A receive WQE that was taken for a message that was dropped.
    spare: Option<RecvWr>,
    failure: Option<QpFailure>,
}

impl UcResponder {
    /// Init to RTR.
    pub(crate) fn starting_at(expected: Psn) -> UcResponder {
        UcResponder { expected, ..UcResponder::default() }
    }

    pub(crate) fn expected_psn(&self) -> Psn {
        self.expected
    }

    pub(crate) fn take_failure(&mut self) -> Option<QpFailure> {
        self.failure.take()
    }

    /// Gives back the receive WQE that is held.
    pub(crate) fn flush(&mut self, core: &QpCore, host: &mut impl Host) {
        self.release();
        self.inbound = UcInbound::Idle;
        if let Some(wr) = self.spare.take() {
            let c = Completion::failure(wr.wr_id, core.qpn, CompletionOp::Recv, Status::WorkRequestFlushed);
            host.complete(CqSide::Recv, c);
        }
    }

    pub(crate) fn handle_request(
        &mut self,
        core: &mut QpCore,
        packet: &Packet<'_>,
        host: &mut impl Host,
    ) -> Result<(), DropReason> {
        self.check_psn(core, packet)?;
        match self.execute(core, packet, host) {
            Ok(()) => {
                core.note_established(host);
                Ok(())
            }
            Err(UcFault::Drop(reason)) => {
                self.give_up(core, packet, reason);
                Err(reason)
            }
            Err(UcFault::Local(wr_id, refused)) => {
                self.fail(core, wr_id, refused, host);
                Err(DropReason::LocalMemory)
            }
        }
    }

    /// The expected PSN follows every packet that arrives, except late ones.
    fn check_psn(&mut self, core: &mut QpCore, packet: &Packet<'_>) -> Result<(), DropReason> {
        let psn = packet.psn();
        let ahead = psn.distance(self.expected);
        if (-LATE_PACKETS..0).contains(&ahead) {
            core.counters.duplicate_requests += 1;
            return Err(DropReason::UcLate);
        }
        self.expected = psn.next();
        if ahead != 0 {
            core.counters.out_of_sequence_requests += 1;
            self.lose(core, DropReason::UcGap);
        }
        Ok(())
    }

    fn execute(&mut self, core: &mut QpCore, packet: &Packet<'_>, host: &mut impl Host) -> Result<(), UcFault> {
        self.check_opcode_order(core, packet)?;
        check_packet_length(core, packet)?;
        match packet.info().operation {
            Operation::Send => self.execute_send(core, packet, host),
            _ => self.execute_write(core, packet, host),
        }
    }

    /// Middle and Last continue a message. First and Only begin one in any case: an unfinished one has lost its end.
    fn check_opcode_order(&mut self, core: &mut QpCore, packet: &Packet<'_>) -> Result<(), DropReason> {
        let info = packet.info();
        if info.starts_message() {
            if matches!(self.inbound, UcInbound::Send { .. } | UcInbound::Write { .. }) {
                self.lose(core, DropReason::UcInvalid);
            }
            self.inbound = UcInbound::Idle;
            return Ok(());
        }
        match (&self.inbound, info.operation) {
            (UcInbound::Send { .. }, Operation::Send) | (UcInbound::Write { .. }, Operation::Write) => Ok(()),
            (UcInbound::Dropped(reason), _) => Err(*reason),
            _ => Err(DropReason::UcInvalid),
        }
    }

    fn execute_send(&mut self, core: &mut QpCore, packet: &Packet<'_>, host: &mut impl Host) -> Result<(), UcFault> {
        if packet.info().starts_message() {
            let wr = self.take_recv(core, host)?;
            self.inbound = UcInbound::Send { wr, received: 0 };
        }
        let UcInbound::Send { wr, received } = &mut self.inbound else {
            return Err(UcFault::Drop(DropReason::UcInvalid));
        };
        let data = packet.payload();
        let end = *received + data.len() as u64;
        if end > wr.capacity_bytes().min(MAX_MESSAGE_BYTES) {
            return Err(UcFault::Drop(DropReason::UcTooLong));
        }
        if !data.is_empty() {
            let written = host.memory().scatter(core.recv_pd, &wr.sgl, *received, data);
            written.map_err(|refused| UcFault::Local(wr.wr_id, refused))?;
        }
        *received = end;
        if packet.info().ends_message() {
            self.finish_send(core, packet, host);
        }
        Ok(())
    }

    fn finish_send(&mut self, core: &QpCore, packet: &Packet<'_>, host: &mut impl Host) {
        if let UcInbound::Send { wr, received } = core::mem::take(&mut self.inbound) {
            complete(core, packet, wr.wr_id, CompletionOp::Recv, received as u32, host);
        }
    }

    fn execute_write(&mut self, core: &mut QpCore, packet: &Packet<'_>, host: &mut impl Host) -> Result<(), UcFault> {
        if let Some(reth) = packet.reth() {
            check_write(core, &reth, host)?;
            let Reth { rkey, addr, len_bytes } = reth;
            self.inbound = UcInbound::Write { rkey, addr, left_bytes: len_bytes, total_bytes: len_bytes };
        }
        let UcInbound::Write { rkey, addr, left_bytes, total_bytes } = self.inbound else {
            return Err(UcFault::Drop(DropReason::UcInvalid));
        };
        let left_bytes = left_after(packet, left_bytes)?;
        let notice = match packet.imm() {
            Some(_) => Some(self.take_recv(core, host)?),
            None => None,
        };
        let data = packet.payload();
        if !data.is_empty() && host.memory().remote_write(core.accessor(), rkey, addr, data).is_err() {
            self.spare = notice.or(self.spare.take());
            return Err(UcFault::Drop(DropReason::UcAccess));
        }
        let addr = addr.wrapping_add(data.len() as u64);
        self.inbound = match packet.info().ends_message() {
            true => UcInbound::Idle,
            false => UcInbound::Write { rkey, addr, left_bytes, total_bytes },
        };
        if let Some(wr) = notice {
            complete(core, packet, wr.wr_id, CompletionOp::RecvWriteImm, total_bytes, host);
        }
        Ok(())
    }

    fn take_recv(&mut self, core: &mut QpCore, host: &mut impl Host) -> Result<RecvWr, DropReason> {
        match self.spare.take() {
            Some(wr) => Ok(wr),
            None => core.take_recv(host).ok_or(DropReason::NoRecvWqe),
        }
    }

    /// The packet is refused, and with it the rest of its message.
    fn give_up(&mut self, core: &mut QpCore, packet: &Packet<'_>, reason: DropReason) {
        self.lose(core, reason);
        if packet.info().ends_message() {
            self.inbound = UcInbound::Idle;
        }
    }

    /// One message more is lost, unless this one was lost already. Its receive WQE
    /// waits for the next.
    fn lose(&mut self, core: &mut QpCore, reason: DropReason) {
        if !matches!(self.inbound, UcInbound::Dropped(_)) {
            core.counters.messages_dropped += 1;
            self.release();
            self.inbound = UcInbound::Dropped(reason);
        }
    }

    fn release(&mut self) {
        match core::mem::take(&mut self.inbound) {
            UcInbound::Send { wr, .. } => self.spare = Some(wr),
            other => self.inbound = other,
        }
    }

    /// A receive buffer of ours is refused: its WQE fails, and the queue pair with it.
    fn fail(&mut self, core: &mut QpCore, wr_id: u64, refused: MemoryError, host: &mut impl Host) {
        let reason = Reason::LocalMemory(refused);
        self.inbound = UcInbound::Idle;
        core.fail_recv(wr_id, reason.status(), reason, host);
        self.failure = Some(QpFailure::QueuePair(reason, None));
    }
}

/// First and Middle are full, Last has something, Only fits (IB specification 9.8.2.2).
fn check_packet_length(core: &QpCore, packet: &Packet<'_>) -> Result<(), DropReason> {
    let (len, mtu) = (packet.payload().len(), core.mtu() as usize);
    let fits = match packet.info().position {
        Position::First | Position::Middle => len == mtu,
        Position::Last => (1..=mtu).contains(&len),
        Position::Only => len <= core.longest_single_packet(),
    };
    if fits { Ok(()) } else { Err(DropReason::UcInvalid) }
}

/// Checks the first packet of a WRITE for the whole message.
fn check_write(core: &QpCore, reth: &Reth, host: &impl Host) -> Result<(), DropReason> {
    if !core.attr.access.contains(Access::REMOTE_WRITE) {
        return Err(DropReason::UcAccess);
    }
    let len_bytes = u64::from(reth.len_bytes);
    if len_bytes > MAX_MESSAGE_BYTES {
        return Err(DropReason::UcInvalid);
    }
    if len_bytes == 0 {
        return Ok(());
    }
    host.memory()
        .check_remote(core.accessor(), reth.rkey, reth.addr, len_bytes, Access::REMOTE_WRITE)
        .map_err(|_| DropReason::UcAccess)
}

/// The bytes that are left of a WRITE after this packet: none if and only if it is the last.
fn left_after(packet: &Packet<'_>, left_bytes: u32) -> Result<u32, DropReason> {
    let left = left_bytes.checked_sub(packet.payload().len() as u32);
    match left {
        Some(left) if packet.info().ends_message() == (left == 0) => Ok(left),
        _ => Err(DropReason::UcInvalid),
    }
}

fn complete(core: &QpCore, packet: &Packet<'_>, wr_id: u64, op: CompletionOp, byte_len: u32, host: &mut impl Host) {
    let completion = Completion {
        imm: packet.imm(),
        solicited: packet.bth().solicited,
        ..Completion::success(wr_id, core.qpn, op, byte_len)
    };
    host.complete(CqSide::Recv, completion);
}
