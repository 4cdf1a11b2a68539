//! The reason for which a queue pair failed, in words that a person can act on.

use core::fmt;

use crate::completion::Status;
use crate::memory::MemoryError;

/// The reason for which a queue pair left its working states by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// `modify_qp` asked for it.
    Requested,
    /// No answer to a request within the timeout, `retry_count` times in a row.
    NoAnswer {
        /// Retries made.
        retries: u8,
    },
    /// The peer had no receive WQE, `rnr_retry` times in a row.
    ReceiverNotReady {
        /// Retries made.
        retries: u8,
    },
    /// PSN sequence errors without progress, `retry_count` times in a row.
    SequenceErrors {
        /// Retries made.
        retries: u8,
    },
    /// The peer answered a request with a NAK.
    PeerRefused(wire::NakCode),
    /// The peer answered with something that fits no request.
    BadResponse,
    /// Our own memory was refused: a scatter/gather list of a work request.
    LocalMemory(MemoryError),
    /// A message was longer than the receive buffer posted for it.
    MessageTooLong,
    /// A memory window could not be bound.
    BindRefused(MemoryError),
    /// A key of our own could not be invalidated.
    InvalidateRefused(MemoryError),
    /// The peer broke the order of opcodes or lengths; we refused with a NAK.
    PeerBrokeProtocol(&'static str),
    /// The peer reached for memory that it may not; we refused with a NAK.
    PeerAccessRefused(MemoryError),
    /// A completion queue of this queue pair overran.
    CompletionQueueOverrun,
    /// The device asked for it (fault injection, loss of the network).
    Device,
    /// A request of a kind that the service of the queue pair does not have.
    NotForService(&'static str),
    /// A datagram was longer than the path MTU of the port.
    DatagramTooLong,
    /// A handler of calls panicked; we refused the call with a NAK.
    CallPanicked,
    /// A request of Longarm's own, for a peer that does not know it. It was not sent.
    PeerLacksExtension,
    /// A device of the system reported a failed work request. It says no more.
    Reported {
        /// The status of its completion.
        status: Status,
        /// The `vendor_err` of its completion, whose meaning only the maker of the device knows.
        vendor_err: u32,
    },
}

impl Reason {
    /// A number for the completion's `vendor_err`.
    pub fn code(&self) -> u32 {
        match self {
            Reason::Requested => 1,
            Reason::NoAnswer { .. } => 2,
            Reason::ReceiverNotReady { .. } => 3,
            Reason::SequenceErrors { .. } => 4,
            Reason::PeerRefused(code) => 0x10 | *code as u32,
            Reason::BadResponse => 5,
            Reason::LocalMemory(e) => 0x20 | *e as u32,
            Reason::MessageTooLong => 6,
            Reason::BindRefused(e) => 0x30 | *e as u32,
            Reason::InvalidateRefused(e) => 0x50 | *e as u32,
            Reason::PeerBrokeProtocol(_) => 7,
            Reason::PeerAccessRefused(e) => 0x40 | *e as u32,
            Reason::CompletionQueueOverrun => 8,
            Reason::Device => 9,
            Reason::NotForService(_) => 10,
            Reason::DatagramTooLong => 11,
            Reason::PeerLacksExtension => 12,
            Reason::CallPanicked => 13,
            Reason::Reported { vendor_err, .. } => *vendor_err,
        }
    }

    /// The status of the work request that failed for this reason.
    pub fn status(&self) -> Status {
        use wire::NakCode;
        match self {
            Reason::NoAnswer { .. } | Reason::SequenceErrors { .. } => Status::RetryExceeded,
            Reason::ReceiverNotReady { .. } => Status::RnrRetryExceeded,
            Reason::PeerRefused(NakCode::InvalidRequest) => Status::RemoteInvalidRequest,
            Reason::PeerRefused(NakCode::InvalidRdRequest) => Status::RemoteInvalidRdRequest,
            Reason::PeerRefused(NakCode::RemoteAccessError) => Status::RemoteAccess,
            Reason::PeerRefused(NakCode::RemoteOperationalError) => Status::RemoteOperation,
            Reason::PeerRefused(NakCode::PsnSequenceError) | Reason::BadResponse => Status::BadResponse,
            Reason::LocalMemory(_) => Status::LocalProtection,
            Reason::MessageTooLong | Reason::DatagramTooLong => Status::LocalLength,
            Reason::NotForService(_) | Reason::PeerLacksExtension => Status::LocalQpOperation,
            Reason::BindRefused(_) | Reason::InvalidateRefused(_) => Status::MwBind,
            Reason::Device => Status::Fatal,
            Reason::Reported { status, .. } => *status,
            Reason::Requested
            | Reason::PeerBrokeProtocol(_)
            | Reason::PeerAccessRefused(_)
            | Reason::CallPanicked
            | Reason::CompletionQueueOverrun => Status::WorkRequestFlushed,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Requested => write!(f, "the program moved it to the error state"),
            Reason::NoAnswer { retries } => write!(
                f,
                "the peer did not answer a request, {retries} retries included: its process or host is gone, \
                 its queue pair is not ready, or packets are lost on the way"
            ),
            Reason::ReceiverNotReady { retries } => write!(
                f,
                "the peer had no receive buffer posted, {retries} retries included: post receives before the peer sends, \
                 or raise rnr_retry (7 waits for ever)"
            ),
            Reason::SequenceErrors { retries } => {
                write!(f, "packets were lost again and again without progress, {retries} retries included")
            }
            Reason::PeerRefused(code) => write!(f, "the peer refused a request: {}", nak_text(*code)),
            Reason::BadResponse => write!(f, "the peer sent a response that fits no request"),
            Reason::LocalMemory(e) => write!(f, "a scatter/gather list of ours was refused: {e}"),
            Reason::MessageTooLong => write!(f, "a message was longer than the receive buffer posted for it"),
            Reason::BindRefused(e) => write!(f, "a memory window could not be bound: {e}"),
            Reason::InvalidateRefused(e) => write!(f, "a key could not be invalidated: {e}"),
            Reason::PeerBrokeProtocol(what) => {
                write!(f, "the peer sent an invalid request: {what}")
            }
            Reason::PeerAccessRefused(e) => {
                write!(f, "the peer reached for memory that it may not: {e}")
            }
            Reason::CompletionQueueOverrun => {
                write!(f, "its completion queue overran: poll more often or make it larger")
            }
            Reason::Device => write!(f, "the device shut it down"),
            Reason::NotForService(op) => write!(f, "this kind of queue pair cannot do {op}"),
            Reason::DatagramTooLong => write!(f, "a datagram was longer than the path MTU of the port"),
            Reason::CallPanicked => write!(f, "the handler of a call of the peer panicked"),
            Reason::PeerLacksExtension => write!(
                f,
                "the peer does not know an extension of Longarm's that a request needs: it is another device, or an older \
                 one; the request was not sent"
            ),
            Reason::Reported { status, vendor_err } => {
                write!(f, "its device completed a work request with {status:?} (vendor error {vendor_err:#x})")
            }
        }
    }
}

fn nak_text(code: wire::NakCode) -> &'static str {
    use wire::NakCode;
    match code {
        NakCode::PsnSequenceError => "PSN sequence error",
        NakCode::InvalidRequest => {
            "invalid request (a message longer than its receive buffer, more READs at once than agreed, \
             or opcodes or lengths that break the protocol)"
        }
        NakCode::RemoteAccessError => "remote access error (wrong rkey, address out of bounds, or a right not granted)",
        NakCode::RemoteOperationalError => {
            "remote operational error (the memory of its receive buffer was refused, or its handler of a call panicked)"
        }
        NakCode::InvalidRdRequest => {
            "invalid RD request (XRC: no shared receive queue of that number in the peer's XRC domain)"
        }
    }
}
