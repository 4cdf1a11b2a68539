//! Extended completion queues: one completion at a time, field by field.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use device::{Completion, monotonic_ns};
use parking_lot::lock_api::RawMutex as _;

use crate::boundary::hot::otherwise;
use crate::object::CObject;
use crate::verbs::cq_object::CqOwn;
use crate::verbs::wc;
use abi::*;

/// The structure with its functions.
pub(crate) fn table(base: ibv_cq) -> ibv_cq_ex {
    ibv_cq_ex {
        base,
        comp_mask: 0,
        status: 0,
        wr_id: 0,
        start_poll: Some(start_poll),
        next_poll: Some(next_poll),
        end_poll: Some(end_poll),
        read_opcode: Some(read_opcode),
        read_vendor_err: Some(read_vendor_err),
        read_byte_len: Some(read_byte_len),
        read_imm_data: Some(read_imm_data),
        read_qp_num: Some(read_qp_num),
        read_src_qp: Some(read_src_qp),
        read_wc_flags: Some(read_wc_flags),
        read_slid: Some(read_slid),
        read_sl: Some(read_sl),
        read_dlid_path_bits: Some(read_dlid_path_bits),
        read_completion_ts: Some(read_completion_ts),
        read_cvlan: Some(read_cvlan),
        read_flow_tag: Some(read_flow_tag),
        read_tm_info: Some(read_tm_info),
        read_completion_wallclock_ns: Some(read_completion_wallclock_ns),
    }
}

type CqExObject = CObject<ibv_cq_ex, CqOwn>;

/// `ibv_start_poll(3)`: ENOENT if there is nothing; then `ibv_end_poll` must not be called.
///
/// # Safety
/// A queue that exists.
unsafe extern "C" fn start_poll(cq: *mut ibv_cq_ex, attr: *mut ibv_poll_cq_attr) -> c_int {
    otherwise(libc::EIO, || {
        // SAFETY: the contract of `start_poll`: a queue that exists.
        let (own, attr) = unsafe { (CqExObject::whatever_handle(cq), attr.as_ref()) };
        let Ok(own) = own else { return libc::EINVAL };
        if attr.is_some_and(|attr| attr.comp_mask != 0) {
            return libc::EINVAL;
        }
        own.cursor.lock.lock();
        // SAFETY: the contract of `start_poll`: a queue that exists; and the lock is held.
        let started = unsafe { advance(cq, own, PollBatch::Begins) };
        if started != 0 {
            // SAFETY: this function locked it above.
            unsafe { own.cursor.lock.unlock() };
        }
        started
    })
}

/// # Safety
/// Between a successful `start_poll` and `end_poll`.
unsafe extern "C" fn next_poll(cq: *mut ibv_cq_ex) -> c_int {
    otherwise(libc::EIO, || {
        // SAFETY: the contract of `next_poll`: between a successful `start_poll` and `end_poll`.
        unsafe { CqExObject::whatever_handle(cq).map_or(libc::EINVAL, |own| advance(cq, own, PollBatch::GoesOn)) }
    })
}

/// # Safety
/// After a successful `start_poll`, once.
unsafe extern "C" fn end_poll(cq: *mut ibv_cq_ex) {
    // SAFETY: the contract of `end_poll`: after a successful `start_poll`, once.
    if let Ok(own) = unsafe { CqExObject::whatever_handle(cq) } {
        // SAFETY: locked by `start_poll`.
        unsafe { own.cursor.lock.unlock() };
    }
}

/// A batch ends where the queue ends, or before a completion whose event the program has not fetched.
/// The program then polls for that one when it has the event, and finds it.
enum PollBatch {
    Begins,
    GoesOn,
}

/// Takes the next completion; ENOENT if there is none.
///
/// # Safety
/// The cursor's lock is held.
unsafe fn advance(cq: *mut ibv_cq_ex, own: &CqOwn, batch: PollBatch) -> c_int {
    let set = |completion: &Completion, at_ns| {
        // SAFETY: the lock is held; the program reads the two fields of the structure.
        unsafe {
            (&raw mut (*cq).status).write(completion.status as c_int);
            (&raw mut (*cq).wr_id).write(completion.wr_id);
            *own.cursor.at.get() = Some((*completion, at_ns));
        }
    };
    let polled = match batch {
        PollBatch::Begins => own.cq.poll_each(1, set),
        PollBatch::GoesOn => own.cq.poll_on(set),
    };
    match polled {
        Ok(0) => libc::ENOENT,
        Ok(_) => 0,
        Err(_) => libc::EIO,
    }
}

/// Reads a field of the current completion.
///
/// # Safety
/// Between `start_poll` and `end_poll`.
#[inline]
unsafe fn current<T: Default>(cq: *mut ibv_cq_ex, read: impl FnOnce(&Completion, u64) -> T) -> T {
    // SAFETY: the contract of `current`: between `start_poll` and `end_poll`; this thread holds the cursor's lock.
    unsafe {
        let Ok(own) = CqExObject::whatever_handle(cq) else { return T::default() };
        (*own.cursor.at.get()).as_ref().map_or_else(T::default, |(completion, at_ns)| read(completion, *at_ns))
    }
}

macro_rules! readers {
    ($($name:ident -> $type:ty: |$completion:pat_param, $at_ns:pat_param| $value:expr;)+) => {
        $(
            /// One field of the current completion, see `ibv_create_cq_ex(3)`.
            ///
            /// # Safety
            /// Between `start_poll` and `end_poll`.
            unsafe extern "C" fn $name(cq: *mut ibv_cq_ex) -> $type {
                // SAFETY: the contract of the generated function includes that of `current`.
                unsafe { current(cq, |$completion: &Completion, $at_ns: u64| $value) }
            }
        )+
    };
}

readers! {
    read_opcode -> c_int: |completion, _| completion.op as c_int;
    read_vendor_err -> u32: |completion, _| completion.vendor_err;
    read_byte_len -> u32: |completion, _| completion.byte_len;
    read_imm_data -> u32: |completion, _| wc::imm_data(completion);
    read_qp_num -> u32: |completion, _| completion.qpn.get();
    read_src_qp -> u32: |completion, _| completion.src_qpn.get();
    read_wc_flags -> c_uint: |completion, _| wc::flags(completion);
    read_slid -> u32: |_, _| 0;
    read_sl -> u8: |completion, _| wc::sl(completion);
    read_dlid_path_bits -> u8: |_, _| 0;
    read_completion_ts -> u64: |_, at_ns| at_ns;
    read_cvlan -> u16: |_, _| 0;
    read_flow_tag -> u32: |_, _| 0;
    read_completion_wallclock_ns -> u64: |_, at_ns| wall_clock_ns(at_ns);
}

/// # Safety
/// Between `start_poll` and `end_poll`; a place for the answer.
unsafe extern "C" fn read_tm_info(_cq: *mut ibv_cq_ex, info: *mut ibv_wc_tm_info) {
    // SAFETY: the contract of `read_tm_info`: between `start_poll` and `end_poll`; a place for the answer.
    if let Some(info) = unsafe { info.as_mut() } {
        *info = ibv_wc_tm_info { tag: 0, r#priv: 0 };
    }
}

/// A time of the monotonic clock on the wall clock, in nanoseconds since 1970.
fn wall_clock_ns(at_ns: u64) -> u64 {
    let age = Duration::from_nanos(monotonic_ns().saturating_sub(at_ns));
    let then = SystemTime::now().checked_sub(age).unwrap_or(UNIX_EPOCH);
    then.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}
