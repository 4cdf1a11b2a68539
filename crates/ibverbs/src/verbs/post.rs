//! Posting work requests.

use device::{
    AtomicOp, LKey, Payload, PostFailure, QKey, Qpn, RKey, RecvWr, RemoteAddr, SendFlags, SendOp, SendWr, Sge, Sgl,
    UdDestination,
};
use smallvec::SmallVec;

use crate::boundary::Errno;
use crate::boundary::hot::errno;
use crate::verbs::address::AhObject;
use crate::verbs::mw;
use crate::verbs::qp_object::{QpObject, QpOwn};
use crate::verbs::srq_object::SrqObject;
use crate::verbs::window_key::WindowKey;
use abi::*;

/// A linked list of C's, walked once. The first request that cannot be understood ends it.
struct PostedList<W, T> {
    next: *mut W,
    /// The one handed out last, for `bad_wr`.
    at: *mut W,
    translate: T,
    error: Option<Errno>,
}

/// A request of a list: knows its successor.
trait LinkedRequest {
    fn next(&self) -> *mut Self;
}

impl LinkedRequest for ibv_send_wr {
    fn next(&self) -> *mut Self {
        self.next
    }
}

impl LinkedRequest for ibv_recv_wr {
    fn next(&self) -> *mut Self {
        self.next
    }
}

impl<W, T> PostedList<W, T> {
    fn new(first: *mut W, translate: T) -> PostedList<W, T> {
        PostedList { next: first, at: std::ptr::null_mut(), translate, error: None }
    }

    /// The verb's result: the errno of the request that was refused, if one was. `bad` is set to that request.
    ///
    /// # Safety
    /// `bad` is null or can be written.
    unsafe fn outcome(self, posted: Result<(), PostFailure>, bad: *mut *mut W) -> Result<(), Errno> {
        let error = match (self.error, posted) {
            (Some(error), _) => error,
            (None, Err(failure)) => Errno::from(failure.error),
            (None, Ok(())) => return Ok(()),
        };
        // SAFETY: the contract of `outcome`: `bad` is null or can be written.
        if let Some(bad) = unsafe { bad.as_mut() } {
            *bad = self.at;
        }
        Err(error)
    }
}

impl<W: LinkedRequest, R, T: FnMut(&W) -> Result<R, Errno>> Iterator for PostedList<W, T> {
    type Item = R;

    #[inline]
    fn next(&mut self) -> Option<R> {
        // SAFETY: null, or the next request of a list that the program handed over.
        let wr = unsafe { self.next.as_ref() }?;
        self.at = self.next;
        self.next = wr.next();
        match (self.translate)(wr) {
            Ok(request) => Some(request),
            Err(error) => {
                self.error = Some(error);
                self.next = std::ptr::null_mut();
                None
            }
        }
    }
}

/// The bind that was handed out last. Its window has its new key already, which a refused post takes back.
struct LastBind {
    wr: *const ibv_send_wr,
    key: WindowKey,
}

impl Default for LastBind {
    fn default() -> LastBind {
        LastBind { wr: std::ptr::null(), key: WindowKey::default() }
    }
}

impl LastBind {
    /// The request was refused.
    #[cold]
    fn undo(&self, refused: *const ibv_send_wr) {
        if self.wr == refused {
            self.key.take_back();
        }
    }
}

/// `ibv_post_send(3)`.
///
/// # Safety
/// A queue pair that exists, a list of requests, a place for the refused one or null.
pub(crate) unsafe extern "C" fn post_send(
    qp: *mut ibv_qp,
    first: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    errno(|| {
        // SAFETY: the contract of `post_send` (see its Safety section).
        let own = unsafe { QpObject::whatever_handle(qp) }?;
        let mut bind = LastBind::default();
        let mut list = PostedList::new(first, |wr: &ibv_send_wr| send_wr(own, wr, &mut bind));
        let posted = own.qp.post_send(&mut list);
        let at = list.at;
        // SAFETY: the contract of `post_send` (see its Safety section).
        let outcome = unsafe { list.outcome(posted, bad) };
        if outcome.is_err() {
            bind.undo(at);
        }
        outcome
    })
}

/// `ibv_post_recv(3)`.
///
/// # Safety
/// As [`post_send`].
pub(crate) unsafe extern "C" fn post_recv(
    qp: *mut ibv_qp,
    first: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    errno(|| {
        // SAFETY: the contract of `post_recv`, which is that of `post_send`.
        let own = unsafe { QpObject::whatever_handle(qp) }?;
        let mut list = PostedList::new(first, recv_wr);
        let posted = own.qp.post_recv(&mut list);
        // SAFETY: the contract of `post_recv`, which is that of `post_send`.
        unsafe { list.outcome(posted, bad) }
    })
}

/// `ibv_post_srq_recv(3)`.
///
/// # Safety
/// As [`post_send`].
pub(crate) unsafe extern "C" fn post_srq_recv(
    srq: *mut ibv_srq,
    first: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    errno(|| {
        // SAFETY: the contract of `post_srq_recv`, which is that of `post_send`.
        let own = unsafe { SrqObject::whatever_handle(srq) }?;
        let mut list = PostedList::new(first, recv_wr);
        let posted = own.srq.post(&mut list);
        // SAFETY: the contract of `post_srq_recv`, which is that of `post_send`.
        unsafe { list.outcome(posted, bad) }
    })
}

#[inline]
fn recv_wr(wr: &ibv_recv_wr) -> Result<RecvWr, Errno> {
    // SAFETY: a program's request names its list.
    let list = unsafe { entries(wr.sg_list, wr.num_sge) }?;
    Ok(RecvWr { wr_id: wr.wr_id, sgl: sgl(list) })
}

#[inline]
fn send_wr(own: &QpOwn, wr: &ibv_send_wr, last_bind: &mut LastBind) -> Result<SendWr, Errno> {
    // SAFETY: a program's request names its list.
    let list = unsafe { entries(wr.sg_list, wr.num_sge) }?;
    let known = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;
    if wr.send_flags & !known != 0 {
        return Err(Errno::INVAL);
    }
    let op = operation(wr, last_bind)?;
    let payload = match wr.send_flags & IBV_SEND_INLINE {
        0 => Payload::Sgl(if takes_payload(&op) { sgl(list) } else { Sgl::new() }),
        // SAFETY: a program's request names its bytes.
        _ => Payload::Inline(unsafe { inline(own, list.iter().map(|e| (e.addr as *const u8, e.length as usize))) }?),
    };
    Ok(SendWr {
        wr_id: wr.wr_id,
        op,
        flags: SendFlags::from_verbs(wr.send_flags),
        payload,
        datagram: match wr_is_datagram(own) && names_address(wr.opcode) {
            // SAFETY: a SEND of UD has that member of the union.
            true => Some(Box::new(unsafe { datagram(&wr.wr.ud) }?)),
            false => None,
        },
        xrc_srq: wr_is_xrc(own).then_some(wr.remote_srqn),
    })
}

#[inline]
pub(crate) fn wr_is_datagram(own: &QpOwn) -> bool {
    own.qp.qp_type() == device::QpType::Ud
}

/// True if a request of UD has the union's member with the address. Requests with other opcodes fail later, and
/// their members mean something else.
fn names_address(opcode: c_int) -> bool {
    matches!(opcode, IBV_WR_SEND | IBV_WR_SEND_WITH_IMM)
}

#[inline]
pub(crate) fn wr_is_xrc(own: &QpOwn) -> bool {
    own.qp.qp_type() == device::QpType::XrcSend
}

/// Local invalidate and bind have no payload, whatever their lists say.
fn takes_payload(op: &SendOp) -> bool {
    !matches!(op, SendOp::LocalInvalidate(_) | SendOp::Bind(_))
}

/// A list of entries; a length below zero, or a list that is not there, is refused.
///
/// # Safety
/// `list` has `count` entries if there are any.
#[inline]
pub(crate) unsafe fn entries<'a>(list: *const ibv_sge, count: c_int) -> Result<&'a [ibv_sge], Errno> {
    match usize::try_from(count) {
        Ok(0) => Ok(&[]),
        // SAFETY: the contract of `entries`: `list` has `count` entries if there are any.
        Ok(count) if !list.is_null() => Ok(unsafe { std::slice::from_raw_parts(list, count) }),
        _ => Err(Errno::INVAL),
    }
}

/// Most lists have one entry.
#[inline]
pub(crate) fn sgl(list: &[ibv_sge]) -> Sgl {
    match list {
        [one] => Sgl::from_slice(&[sge(one)]),
        _ => list.iter().map(sge).collect(),
    }
}

#[inline]
pub(crate) fn sge(entry: &ibv_sge) -> Sge {
    Sge { addr: entry.addr, len_bytes: entry.length, lkey: LKey(entry.lkey) }
}

/// Copies inline data, if it is not more than the queue pair was made for.
///
/// # Safety
/// The pieces can be read.
#[inline]
pub(crate) unsafe fn inline(
    own: &QpOwn,
    pieces: impl Iterator<Item = (*const u8, usize)>,
) -> Result<SmallVec<[u8; 32]>, Errno> {
    let mut bytes = SmallVec::new();
    for (start, len_bytes) in pieces {
        if len_bytes > own.caps.max_inline_bytes as usize - bytes.len() || (start.is_null() && len_bytes > 0) {
            return Err(Errno::INVAL);
        }
        if len_bytes > 0 {
            // SAFETY: the contract of `inline`: the pieces can be read.
            bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(start, len_bytes) });
        }
    }
    Ok(bytes)
}

/// The destination of a datagram.
///
/// # Safety
/// Its address handle is null or exists.
#[inline]
pub(crate) unsafe fn datagram(ud: &ibv_send_wr_ud) -> Result<UdDestination, Errno> {
    // SAFETY: the contract of `datagram`: its address handle is null or exists.
    let address = unsafe { AhObject::whatever_handle(ud.ah) }?;
    Ok(UdDestination { address: *address, remote_qpn: Qpn::new(ud.remote_qpn), remote_qkey: QKey(ud.remote_qkey) })
}

/// The operation of a request. Each opcode has its member of the union.
#[inline]
fn operation(wr: &ibv_send_wr, last_bind: &mut LastBind) -> Result<SendOp, Errno> {
    let imm = u32::from_be(wr.imm_data);
    // SAFETY: the members are integers and pointers, valid whatever the program wrote.
    let (rdma, atomic) = unsafe { (wr.wr.rdma, wr.wr.atomic) };
    let remote = RemoteAddr { addr: rdma.remote_addr, rkey: RKey(rdma.rkey) };
    let target = RemoteAddr { addr: atomic.remote_addr, rkey: RKey(atomic.rkey) };
    Ok(match wr.opcode {
        IBV_WR_SEND => SendOp::Send,
        IBV_WR_SEND_WITH_IMM => SendOp::SendImm(imm),
        IBV_WR_SEND_WITH_INV => SendOp::SendInvalidate(RKey(wr.imm_data)),
        IBV_WR_RDMA_WRITE => SendOp::Write(remote),
        IBV_WR_RDMA_WRITE_WITH_IMM => SendOp::WriteImm(remote, imm),
        IBV_WR_RDMA_READ => SendOp::Read(remote),
        IBV_WR_ATOMIC_CMP_AND_SWP => {
            SendOp::Atomic(target, AtomicOp::CompareSwap { compare: atomic.compare_add, swap: atomic.swap })
        }
        IBV_WR_ATOMIC_FETCH_AND_ADD => SendOp::Atomic(target, AtomicOp::FetchAdd { add: atomic.compare_add }),
        IBV_WR_ATOMIC_WRITE => SendOp::AtomicWrite(remote),
        IBV_WR_LOCAL_INV => SendOp::LocalInvalidate(RKey(wr.imm_data)),
        IBV_WR_BIND_MW => {
            // SAFETY: the members are integers and pointers, valid whatever the program wrote; a window that exists,
            // or null, as the program must give.
            let op = unsafe { mw::bind_op(wr.extra.bind_mw.mw, wr.extra.bind_mw.rkey, &wr.extra.bind_mw.bind_info) }?;
            // SAFETY: `bind_op` accepted the window, so it is not null, and it exists.
            *last_bind = LastBind { wr, key: unsafe { WindowKey::of(wr.extra.bind_mw.mw, &op) } };
            last_bind.key.tell();
            op
        }
        _ => return Err(Errno::INVAL),
    })
}
