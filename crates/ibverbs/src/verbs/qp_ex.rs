//! `ibv_wr_*`: building a list of requests call by call, and posting it as one doorbell.
//!
//! `ibv_wr_start` takes the builder's lock, `ibv_wr_complete` or `ibv_wr_abort` gives it back, as
//! providers do it. The builder remembers a wrong request, and `ibv_wr_complete` reports it;
//! then nothing of the list is posted.

use device::{
    AtomicOp, FlushLevel, FlushPlacement, Payload, QpType, RKey, RemoteAddr, SendFlags, SendOp, SendWr, Sge, Sgl,
};
use parking_lot::lock_api::RawMutex as _;
use smallvec::SmallVec;

use crate::boundary::Errno;
use crate::boundary::hot::{errno, otherwise};
use crate::object::CObject;
use crate::verbs::qp_object::QpOwn;
use crate::verbs::window_key::WindowKey;
use crate::verbs::wr_builder::WrList;
use crate::verbs::{mw, post};
use abi::*;

/// The operations that a service has.
pub(crate) fn operations_of(qp_type: QpType) -> u64 {
    let send = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
    let local = IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW;
    let write = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
    let reliable = IBV_QP_EX_WITH_RDMA_READ
        | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP
        | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD
        | IBV_QP_EX_WITH_SEND_WITH_INV
        | IBV_QP_EX_WITH_FLUSH
        | IBV_QP_EX_WITH_ATOMIC_WRITE;
    match qp_type {
        QpType::Rc | QpType::XrcSend => send | local | write | reliable,
        QpType::Uc => send | local | write,
        QpType::Ud => send,
        QpType::XrcRecv => 0,
    }
}

/// The structure with its functions.
pub(crate) fn table(base: ibv_qp) -> ibv_qp_ex {
    let mut table = ibv_qp_ex::zeroed();
    table.qp_base = base;
    table.wr_atomic_cmp_swp = Some(wr_atomic_cmp_swp);
    table.wr_atomic_fetch_add = Some(wr_atomic_fetch_add);
    table.wr_bind_mw = Some(wr_bind_mw);
    table.wr_local_inv = Some(wr_local_inv);
    table.wr_rdma_read = Some(wr_rdma_read);
    table.wr_rdma_write = Some(wr_rdma_write);
    table.wr_rdma_write_imm = Some(wr_rdma_write_imm);
    table.wr_send = Some(wr_send);
    table.wr_send_imm = Some(wr_send_imm);
    table.wr_send_inv = Some(wr_send_inv);
    table.wr_send_tso = Some(wr_send_tso);
    table.wr_set_ud_addr = Some(wr_set_ud_addr);
    table.wr_set_xrc_srqn = Some(wr_set_xrc_srqn);
    table.wr_set_inline_data = Some(wr_set_inline_data);
    table.wr_set_inline_data_list = Some(wr_set_inline_data_list);
    table.wr_set_sge = Some(wr_set_sge);
    table.wr_set_sge_list = Some(wr_set_sge_list);
    table.wr_start = Some(wr_start);
    table.wr_complete = Some(wr_complete);
    table.wr_abort = Some(wr_abort);
    table.wr_atomic_write = Some(wr_atomic_write);
    table.wr_flush = Some(wr_flush);
    table
}

type QpExObject = CObject<ibv_qp_ex, QpOwn>;

/// The queue pair and its list.
///
/// # Safety
/// A queue pair that exists, between `wr_start` and `wr_complete` or `wr_abort`, on one thread.
#[inline]
unsafe fn building<'a>(qp: *mut ibv_qp_ex) -> Option<(&'a QpOwn, &'a mut WrList)> {
    // SAFETY: the contract of `building` (see its Safety section); the lock is held by this thread since `wr_start`.
    unsafe {
        let own = QpExObject::whatever_handle(qp).ok()?;
        Some((own, &mut *own.builder.list.get()))
    }
}

/// # Safety
/// A queue pair that exists.
unsafe extern "C" fn wr_start(qp: *mut ibv_qp_ex) {
    otherwise((), || {
        // SAFETY: the contract of `wr_start`: a queue pair that exists.
        if let Ok(own) = unsafe { QpExObject::whatever_handle(qp) } {
            own.builder.lock.lock();
        }
    });
}

/// # Safety
/// After `wr_start`.
unsafe extern "C" fn wr_complete(qp: *mut ibv_qp_ex) -> c_int {
    errno(|| {
        // SAFETY: the contract of `wr_complete`: after `wr_start`.
        let (own, list) = unsafe { building(qp) }.ok_or(Errno::INVAL)?;
        let result = list.post(&own.qp);
        list.clear();
        // SAFETY: locked by `wr_start`.
        unsafe { own.builder.lock.unlock() };
        result
    })
}

/// # Safety
/// After `wr_start`.
unsafe extern "C" fn wr_abort(qp: *mut ibv_qp_ex) {
    otherwise((), || {
        // SAFETY: the contract of `wr_abort`: after `wr_start`.
        if let Some((own, list)) = unsafe { building(qp) } {
            list.clear();
            // SAFETY: locked by `wr_start`.
            unsafe { own.builder.lock.unlock() };
        }
    });
}

/// Begins a request.
///
/// # Safety
/// As [`building`].
#[inline]
unsafe fn begin(qp: *mut ibv_qp_ex, op: Result<SendOp, Errno>) {
    otherwise((), || {
        // SAFETY: the contract of `begin`, which is that of `building`.
        let (Some((_, list)), wr_id, flags) = (unsafe { (building(qp), (*qp).wr_id, (*qp).wr_flags) }) else { return };
        match op {
            Ok(op) => {
                let flags = SendFlags::from_verbs(flags);
                list.requests.push(SendWr { wr_id, op, flags, ..mw::blank() });
            }
            Err(error) => list.error = Some(error),
        }
    });
}

/// Completes the request that was begun last.
///
/// # Safety
/// As [`building`].
#[inline]
unsafe fn set(qp: *mut ibv_qp_ex, setter: impl FnOnce(&QpOwn, &mut SendWr) -> Result<(), Errno>) {
    otherwise((), || {
        // SAFETY: the contract of `set`, which is that of `building`.
        let Some((own, list)) = (unsafe { building(qp) }) else { return };
        let result = match list.requests.last_mut() {
            // The request has its bytes already; a list that a program sets in addition names the same bytes.
            Some(SendWr { op: SendOp::AtomicWrite(_), payload: Payload::Inline(_), .. }) => Ok(()),
            Some(request) => setter(own, request),
            None => Err(Errno::INVAL),
        };
        if let (Err(error), None) = (result, list.error) {
            list.error = Some(error);
        }
    });
}

fn at(remote_addr: u64, rkey: u32) -> RemoteAddr {
    RemoteAddr { addr: remote_addr, rkey: RKey(rkey) }
}

macro_rules! requests {
    ($($name:ident($($argument:ident: $type:ty),*) => $op:expr;)+) => {
        $(
            /// Begins a request, see `ibv_wr_post(3)`.
            ///
            /// # Safety
            /// After `wr_start`, on the same thread.
            unsafe extern "C" fn $name(qp: *mut ibv_qp_ex, $($argument: $type),*) {
                // SAFETY: the contract of the generated function includes that of `begin`.
                unsafe { begin(qp, $op) }
            }
        )+
    };
}

requests! {
    wr_send() => Ok(SendOp::Send);
    wr_send_imm(imm: u32) => Ok(SendOp::SendImm(u32::from_be(imm)));
    wr_send_inv(rkey: u32) => Ok(SendOp::SendInvalidate(RKey(rkey)));
    wr_rdma_write(rkey: u32, addr: u64) => Ok(SendOp::Write(at(addr, rkey)));
    wr_rdma_write_imm(rkey: u32, addr: u64, imm: u32) => Ok(SendOp::WriteImm(at(addr, rkey), u32::from_be(imm)));
    wr_rdma_read(rkey: u32, addr: u64) => Ok(SendOp::Read(at(addr, rkey)));
    wr_atomic_cmp_swp(rkey: u32, addr: u64, compare: u64, swap: u64) =>
        Ok(SendOp::Atomic(at(addr, rkey), AtomicOp::CompareSwap { compare, swap }));
    wr_atomic_fetch_add(rkey: u32, addr: u64, add: u64) =>
        Ok(SendOp::Atomic(at(addr, rkey), AtomicOp::FetchAdd { add }));
    wr_local_inv(rkey: u32) => Ok(SendOp::LocalInvalidate(RKey(rkey)));
    // There is no segmentation of foreign protocols here.
    wr_send_tso(_hdr: *mut c_void, _hdr_bytes: u16, _mss: u16) => Err(Errno::NOT_SUPPORTED);
    wr_flush(rkey: u32, addr: u64, len: size_t, kind: u8, level: u8) => flush(rkey, addr, len, kind, level);
}

/// A request that brings its eight bytes along.
///
/// # Safety
/// After `wr_start`, on the same thread; eight bytes to read.
unsafe extern "C" fn wr_atomic_write(qp: *mut ibv_qp_ex, rkey: u32, addr: u64, bytes: *const c_void) {
    // SAFETY: the contract of `wr_atomic_write` includes that of `is_null`.
    unsafe {
        if bytes.is_null() {
            return begin(qp, Err(Errno::INVAL));
        }
        begin(qp, Ok(SendOp::AtomicWrite(at(addr, rkey))));
        let value: [u8; 8] = bytes.cast::<[u8; 8]>().read_unaligned();
        set(qp, |_, request| {
            request.payload = Payload::Inline(SmallVec::from_slice(&value));
            Ok(())
        });
    }
}

fn flush(rkey: u32, addr: u64, length: size_t, kind: u8, level: u8) -> Result<SendOp, Errno> {
    let placement = FlushPlacement::from_bits(kind).filter(|kind| !kind.is_empty()).ok_or(Errno::INVAL)?;
    let level = FlushLevel(level);
    if ![FlushLevel::RANGE, FlushLevel::MR].contains(&level) {
        return Err(Errno::INVAL);
    }
    let len_bytes = u32::try_from(length).map_err(|_| Errno::INVAL)?;
    Ok(SendOp::Flush { remote: at(addr, rkey), len_bytes, placement, level })
}

/// Begins a bind, see `ibv_wr_post(3)`.
///
/// # Safety
/// After `wr_start`, on the same thread; a window that exists until the list is posted or dropped, and a readable bind.
unsafe extern "C" fn wr_bind_mw(qp: *mut ibv_qp_ex, window: *mut ibv_mw, rkey: u32, info: *const ibv_mw_bind_info) {
    // SAFETY: the contract of `wr_bind_mw` (see its Safety section).
    unsafe {
        let op = info.as_ref().ok_or(Errno::INVAL).and_then(|info| mw::bind_op(window, rkey, info));
        if let (Ok(op), Some((_, list))) = (&op, building(qp)) {
            list.keys.push(WindowKey::of(window, op));
        }
        begin(qp, op);
    }
}

/// # Safety
/// After `wr_start`, on the same thread; an address handle that exists.
unsafe extern "C" fn wr_set_ud_addr(qp: *mut ibv_qp_ex, ah: *mut ibv_ah, remote_qpn: u32, remote_qkey: u32) {
    // SAFETY: the contract of `wr_set_ud_addr` includes that of `set`.
    unsafe {
        set(qp, |_, request| {
            request.datagram = Some(Box::new(post::datagram(&ibv_send_wr_ud { ah, remote_qpn, remote_qkey })?));
            Ok(())
        });
    }
}

/// # Safety
/// After `wr_start`, on the same thread.
unsafe extern "C" fn wr_set_xrc_srqn(qp: *mut ibv_qp_ex, remote_srqn: u32) {
    // SAFETY: the contract of `wr_set_xrc_srqn` includes that of `set`.
    unsafe {
        set(qp, |_, request| {
            request.xrc_srq = Some(remote_srqn);
            Ok(())
        });
    }
}

/// # Safety
/// After `wr_start`, on the same thread; the bytes can be read.
unsafe extern "C" fn wr_set_inline_data(qp: *mut ibv_qp_ex, addr: *mut c_void, length: size_t) {
    // SAFETY: the contract of `wr_set_inline_data` includes that of `set`.
    unsafe {
        set(qp, |own, request| {
            request.payload = Payload::Inline(post::inline(own, std::iter::once((addr.cast_const().cast(), length)))?);
            Ok(())
        });
    }
}

/// # Safety
/// After `wr_start`, on the same thread; the list and its bytes can be read.
unsafe extern "C" fn wr_set_inline_data_list(qp: *mut ibv_qp_ex, count: size_t, list: *const ibv_data_buf) {
    // SAFETY: the contract of `wr_set_inline_data_list` includes that of `set`.
    unsafe {
        set(qp, |own, request| {
            if list.is_null() && count > 0 {
                return Err(Errno::INVAL);
            }
            let list = if count == 0 { &[] } else { std::slice::from_raw_parts(list, count) };
            let pieces = list.iter().map(|piece| (piece.addr.cast_const().cast(), piece.length));
            request.payload = Payload::Inline(post::inline(own, pieces)?);
            Ok(())
        });
    }
}

/// # Safety
/// After `wr_start`, on the same thread.
unsafe extern "C" fn wr_set_sge(qp: *mut ibv_qp_ex, lkey: u32, addr: u64, length: u32) {
    // SAFETY: the contract of `wr_set_sge` includes that of `set`.
    unsafe { set(qp, |own, request| set_list(own, request, std::iter::once(ibv_sge { addr, length, lkey }))) };
}

/// # Safety
/// After `wr_start`, on the same thread; the list can be read.
unsafe extern "C" fn wr_set_sge_list(qp: *mut ibv_qp_ex, count: size_t, list: *const ibv_sge) {
    // SAFETY: the contract of `wr_set_sge_list` includes that of `set`.
    unsafe {
        set(qp, |own, request| {
            let count = c_int::try_from(count).map_err(|_| Errno::INVAL)?;
            set_list(own, request, post::entries(list, count)?.iter().copied())
        });
    }
}

fn set_list(own: &QpOwn, request: &mut SendWr, list: impl Iterator<Item = ibv_sge>) -> Result<(), Errno> {
    let list: Sgl = list.map(|entry| -> Sge { post::sge(&entry) }).collect();
    if list.len() > own.caps.max_send_sge as usize {
        return Err(Errno::INVAL);
    }
    request.payload = Payload::Sgl(list);
    Ok(())
}
