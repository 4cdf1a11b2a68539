//! Completions: the outcome of a work request.

use wire::{Qpn, RKey};

/// The outcome of a work request, numbered as `enum ibv_wc_status`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum Status {
    /// Done.
    Success = 0,
    /// A list is shorter than the message, or the message longer than allowed.
    LocalLength = 1,
    /// The queue pair failed for a reason of this device.
    LocalQpOperation = 2,
    /// A local key, range or right was refused.
    LocalProtection = 4,
    /// The queue pair was in the error state before the request ran.
    WorkRequestFlushed = 5,
    /// A memory window could not be bound.
    MwBind = 6,
    /// The peer answered with something that fits no request.
    BadResponse = 7,
    /// A WRITE with immediate or a SEND found the receive buffer refused.
    LocalAccess = 8,
    /// The peer called the request invalid.
    RemoteInvalidRequest = 9,
    /// The peer refused the key, range or right.
    RemoteAccess = 10,
    /// The peer failed while it carried the request out.
    RemoteOperation = 11,
    /// No answer, `retry_cnt` times.
    RetryExceeded = 12,
    /// The peer had no receive WQE, `rnr_retry` times.
    RnrRetryExceeded = 13,
    /// XRC: the peer has no shared receive queue of that number in its XRC domain.
    RemoteInvalidRdRequest = 15,
    /// The peer aborted the operation.
    RemoteAborted = 16,
    /// The device failed.
    Fatal = 19,
    /// Anything else.
    General = 21,
}

/// The operation that completed, numbered as `enum ibv_wc_opcode`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum CompletionOp {
    /// SEND, with or without immediate or invalidate.
    Send = 0,
    /// WRITE, with or without immediate.
    Write = 1,
    /// READ.
    Read = 2,
    /// Compare and swap.
    CompareSwap = 3,
    /// Fetch and add.
    FetchAdd = 4,
    /// Memory window bind.
    BindMw = 5,
    /// Local invalidate.
    LocalInvalidate = 6,
    /// FLUSH.
    Flush = 8,
    /// ATOMIC WRITE.
    AtomicWrite = 9,
    /// READ of an object at one moment: Longarm's own. `byte_len` is its length, or 8 if a writer had it.
    ObjectRead = 64,
    /// A call that the peer's device has carried out: Longarm's own. `byte_len` is the length of the reply.
    Call = 65,
    /// A SEND arrived.
    Recv = 128,
    /// A WRITE with immediate arrived.
    RecvWriteImm = 129,
}

/// A completion queue entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The work request's own number.
    pub wr_id: u64,
    /// The outcome. After a failure only `wr_id`, `status`, `qpn` and `vendor_err` are valid.
    pub status: Status,
    /// The operation.
    pub op: CompletionOp,
    /// Bytes received, or read. For UD it includes the 40 bytes of the GRH.
    pub byte_len: u32,
    /// Immediate data, host order.
    pub imm: Option<u32>,
    /// The key that the peer's SEND invalidated.
    pub invalidated: Option<RKey>,
    /// The queue pair of the work request.
    pub qpn: Qpn,
    /// UD: who sent it.
    pub src_qpn: Qpn,
    /// UD: the first 40 bytes of the buffer hold a GRH.
    pub grh: bool,
    /// UD: it came over IPv4, whose header is in the last 20 of those 40 bytes.
    pub ipv4: bool,
    /// The sender asked for an event.
    pub solicited: bool,
    /// More about a failure: a [`Reason`](crate::Reason) as a number, or zero.
    pub vendor_err: u32,
}

impl Completion {
    /// A successful completion with nothing special about it.
    pub fn success(wr_id: u64, qpn: Qpn, op: CompletionOp, byte_len: u32) -> Completion {
        Completion {
            wr_id,
            status: Status::Success,
            op,
            byte_len,
            imm: None,
            invalidated: None,
            qpn,
            src_qpn: Qpn::default(),
            grh: false,
            ipv4: false,
            solicited: false,
            vendor_err: 0,
        }
    }

    /// A failed one.
    pub fn failure(wr_id: u64, qpn: Qpn, op: CompletionOp, status: Status) -> Completion {
        Completion { status, ..Completion::success(wr_id, qpn, op, 0) }
    }
}
