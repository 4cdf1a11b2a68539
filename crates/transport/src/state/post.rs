//! The checks of work requests as they are posted.
//!
//! Keys and ranges are not checked here: they may change until the request runs. Operations that the service lacks
//! and datagrams that are too long are accepted, and fail when their turn comes, as with other devices.

use wire::{FlushLevel, FlushPlacement};

use crate::attr::{QpState, QpType};
use crate::call::CallBuffers;
use crate::error::PostError;
use crate::limits::{MAX_MESSAGE_BYTES, OBJECT_BYTES, REPLY_BYTES};
use crate::qp_core::QpCore;
use crate::queue::send::SendWqe;
use crate::reason::Reason;
use crate::state::modify::{MAX_FLOW_LABEL, check_ends};
use crate::wr::{AddressVector, Payload, RecvWr, SendOp, SendWr};

/// Numbers of shared receive queues have 24 bits in the XRCETH.
const MAX_SRQ_NUMBER: u32 = 0xff_ffff;

/// Checks a send work request. In Error or SQE the caller flushes it. The result is false if the request can only
/// fail in its turn ([`unsupported`]).
pub(crate) fn check_send(core: &QpCore, wr: &SendWr) -> Result<bool, PostError> {
    check_send_state(core.state())?;
    if core.qp_type == QpType::XrcRecv {
        return Err(PostError::NotForService { op: "sends" });
    }
    let serves = serves(core.qp_type, &wr.op);
    if serves {
        check_address(core.qp_type, wr)?;
        check_read_depth(core, &wr.op)?;
    }
    check_xrc_srq(core.qp_type, wr)?;
    check_payload(core, wr)?;
    check_length(wr)?;
    check_room(core)?;
    Ok(serves)
}

/// The reason for which an accepted request can only fail when its turn comes.
#[inline]
pub(crate) fn unsupported(core: &QpCore, wqe: &SendWqe) -> Option<Reason> {
    if !serves(core.qp_type, &wqe.op) {
        return Some(Reason::NotForService(name(&wqe.op)));
    }
    let is_too_long = core.qp_type == QpType::Ud && wqe.len_bytes > core.tuning.max_datagram.bytes();
    is_too_long.then_some(Reason::DatagramTooLong)
}

/// Checks a receive work request. Passing in Error means that it will be flushed.
pub(crate) fn check_recv(core: &QpCore, wr: &RecvWr) -> Result<(), PostError> {
    let state = core.state();
    if state == QpState::Reset {
        return Err(PostError::WrongState { state });
    }
    if core.is_xrc() {
        return Err(PostError::NotForService { op: "receives" });
    }
    if core.shared_recv {
        return Err(PostError::SharedRecv);
    }
    check_sges(wr.sgl.len(), core.caps.max_recv_sge)
}

/// Sends wait for RTS (IB specification 10.3.1).
fn check_send_state(state: QpState) -> Result<(), PostError> {
    match state {
        QpState::Reset | QpState::Init | QpState::Rtr => Err(PostError::WrongState { state }),
        QpState::Rts | QpState::Sqd | QpState::Sqe | QpState::Error => Ok(()),
    }
}

/// The operations of each service (IB specification 9.4).
#[inline]
fn serves(service: QpType, op: &SendOp) -> bool {
    match op {
        SendOp::Send | SendOp::SendImm(_) => true,
        SendOp::Write(_) | SendOp::WriteImm(..) => service != QpType::Ud,
        SendOp::LocalInvalidate(_) | SendOp::Bind(_) => service != QpType::Ud,
        SendOp::SendInvalidate(_) | SendOp::Read(_) | SendOp::Atomic(..) => service.is_reliable(),
        SendOp::AtomicWrite(_) | SendOp::Flush { .. } => service.is_reliable(),
        SendOp::ObjectRead(..) | SendOp::Call(_) => service == QpType::Rc,
    }
}

fn name(op: &SendOp) -> &'static str {
    match op {
        SendOp::Send => "SEND",
        SendOp::SendImm(_) => "SEND with immediate",
        SendOp::SendInvalidate(_) => "SEND with invalidate",
        SendOp::Write(_) => "WRITE",
        SendOp::WriteImm(..) => "WRITE with immediate",
        SendOp::Read(_) => "READ",
        SendOp::ObjectRead(..) => "READ of an object",
        SendOp::Call(_) => "calls",
        SendOp::Atomic(..) => "atomics",
        SendOp::AtomicWrite(_) => "ATOMIC WRITE",
        SendOp::Flush { .. } => "FLUSH",
        SendOp::LocalInvalidate(_) => "local invalidate",
        SendOp::Bind(_) => "memory window bind",
    }
}

fn check_address(service: QpType, wr: &SendWr) -> Result<(), PostError> {
    match (&wr.datagram, service) {
        (Some(datagram), QpType::Ud) => check_datagram(&datagram.address),
        (None, QpType::Ud) | (Some(_), _) => Err(PostError::Address),
        (None, _) => Ok(()),
    }
}

/// Checks an address as the creation of an address handle does.
fn check_datagram(address: &AddressVector) -> Result<(), PostError> {
    if address.flow_label > MAX_FLOW_LABEL {
        return Err(PostError::Path("its flow label has more than 20 bits"));
    }
    check_ends(address).map_err(PostError::Path)
}

/// Local operations use no shared receive queue, but may name one.
fn check_xrc_srq(service: QpType, wr: &SendWr) -> Result<(), PostError> {
    let fits = match (service, wr.xrc_srq) {
        (QpType::XrcSend, Some(srq)) => srq <= MAX_SRQ_NUMBER,
        (QpType::XrcSend, None) => matches!(wr.op, SendOp::LocalInvalidate(_) | SendOp::Bind(_)),
        (_, srq) => srq.is_none(),
    };
    if fits { Ok(()) } else { Err(PostError::XrcSrq) }
}

fn check_payload(core: &QpCore, wr: &SendWr) -> Result<(), PostError> {
    match &wr.payload {
        Payload::Call(call) => check_call(core, wr, call),
        _ if matches!(wr.op, SendOp::Call(_)) => Err(PostError::Call),
        Payload::Sgl(sgl) => check_sges(sgl.len(), core.caps.max_send_sge),
        Payload::Inline(_) if wr.op.has_result() => Err(PostError::InlineResult),
        // Its eight bytes are part of the request.
        Payload::Inline(bytes) if bytes.len() == 8 && matches!(wr.op, SendOp::AtomicWrite(_)) => Ok(()),
        Payload::Inline(bytes) if bytes.len() > core.caps.max_inline_bytes as usize => {
            Err(PostError::InlineTooLong { max_bytes: core.caps.max_inline_bytes })
        }
        Payload::Inline(_) => Ok(()),
    }
}

/// A request is one packet, and a reply as long as responders keep.
fn check_call(core: &QpCore, wr: &SendWr, call: &CallBuffers) -> Result<(), PostError> {
    if !matches!(wr.op, SendOp::Call(_)) {
        return Err(PostError::Call);
    }
    let (request_bytes, reply_bytes) = (call.request.len() as u64, wr.payload.len_bytes());
    for (len_bytes, max_bytes) in [(request_bytes, u64::from(core.mtu())), (reply_bytes, REPLY_BYTES.into())] {
        if len_bytes > max_bytes {
            return Err(PostError::MessageTooLong { max_bytes });
        }
    }
    check_sges(call.reply.len(), core.caps.max_send_sge)
}

fn check_sges(count: usize, max: u32) -> Result<(), PostError> {
    if count > max as usize { Err(PostError::TooManySges { max }) } else { Ok(()) }
}

fn check_length(wr: &SendWr) -> Result<(), PostError> {
    let len_bytes = wr.payload.len_bytes();
    match wr.op {
        SendOp::Atomic(..) | SendOp::AtomicWrite(_) if len_bytes != 8 => return Err(PostError::AtomicLength),
        SendOp::Flush { placement, level, .. } => check_flush(placement, level, len_bytes)?,
        SendOp::ObjectRead(..) if !is_object_length(len_bytes) => return Err(PostError::ObjectLength),
        _ => {}
    }
    if len_bytes > MAX_MESSAGE_BYTES {
        return Err(PostError::MessageTooLong { max_bytes: MAX_MESSAGE_BYTES });
    }
    Ok(())
}

fn check_flush(placement: FlushPlacement, level: FlushLevel, len_bytes: u64) -> Result<(), PostError> {
    let known = FlushPlacement::all().contains(placement) && level.0 <= FlushLevel::MR.0;
    if known && !placement.is_empty() && len_bytes == 0 { Ok(()) } else { Err(PostError::Flush) }
}

fn is_object_length(len_bytes: u64) -> bool {
    u32::try_from(len_bytes).is_ok_and(|len_bytes| OBJECT_BYTES.contains(&len_bytes))
}

fn check_read_depth(core: &QpCore, op: &SendOp) -> Result<(), PostError> {
    if op.is_read_or_atomic() && core.attr.max_rd_atomic == 0 { Err(PostError::NoReadDepth) } else { Ok(()) }
}

fn check_room(core: &QpCore) -> Result<(), PostError> {
    let capacity = core.caps.max_send_wr;
    if core.sq.posted() >= capacity as usize { Err(PostError::QueueFull { capacity }) } else { Ok(()) }
}
