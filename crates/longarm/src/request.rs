//! Send work requests, as they are put together before they are posted.

use transport::{
    AtomicOp, CallBuffers, FlushLevel, FlushPlacement, Payload, REPLY_BYTES, SendFlags, SendOp, SendWr, UdDestination,
};
use wire::RKey;

use crate::domain::{DomainId, ProtectionDomain};
use crate::error::PostError;
use crate::flight::{Delivery, Loan, PreparedRequest};
use crate::remote::RemoteKey;
use crate::window::WindowCore;

/// A send work request with its loan.
#[derive(Debug)]
pub(crate) struct SendRequest {
    op: SendOp,
    pub(crate) flags: SendFlags,
    payload: Payload,
    datagram: Option<UdDestination>,
    loan: Loan,
    /// The reason why it must not be posted.
    refused: Option<PostError>,
}

impl SendRequest {
    fn new(op: SendOp, loan: Loan) -> SendRequest {
        SendRequest { op, flags: SendFlags::SIGNALED, payload: loan.gather(), datagram: None, loan, refused: None }
    }

    fn inline(op: SendOp, bytes: &[u8]) -> SendRequest {
        SendRequest { payload: Payload::Inline(bytes.into()), ..SendRequest::new(op, Loan::None) }
    }

    pub(crate) fn send(loan: Loan) -> SendRequest {
        SendRequest::new(SendOp::Send, loan)
    }

    pub(crate) fn send_with_imm(loan: Loan, imm: u32) -> SendRequest {
        SendRequest::new(SendOp::SendImm(imm), loan)
    }

    pub(crate) fn send_with_invalidate(loan: Loan, key: RKey) -> SendRequest {
        SendRequest::new(SendOp::SendInvalidate(key), loan)
    }

    pub(crate) fn send_inline(bytes: &[u8]) -> SendRequest {
        SendRequest::inline(SendOp::Send, bytes)
    }

    pub(crate) fn write(loan: Loan, to: &RemoteKey) -> SendRequest {
        let len_bytes = loan.len_bytes();
        SendRequest::new(SendOp::Write(to.remote_addr()), loan).fitting(len_bytes, to)
    }

    pub(crate) fn write_with_imm(loan: Loan, to: &RemoteKey, imm: u32) -> SendRequest {
        let len_bytes = loan.len_bytes();
        SendRequest::new(SendOp::WriteImm(to.remote_addr(), imm), loan).fitting(len_bytes, to)
    }

    pub(crate) fn write_inline(bytes: &[u8], to: &RemoteKey) -> SendRequest {
        SendRequest::inline(SendOp::Write(to.remote_addr()), bytes).fitting(bytes.len() as u64, to)
    }

    /// The buffers get the length of the range before the device has them. After a failed
    /// READ their contents are undefined.
    pub(crate) fn read(mut loan: Loan, from: &RemoteKey) -> SendRequest {
        let (remote_bytes, capacity_bytes) = (from.len_bytes(), loan.capacity_bytes());
        let fits = match &loan {
            Loan::Region(_) => remote_bytes == capacity_bytes,
            _ => remote_bytes <= capacity_bytes,
        };
        loan.set_len(remote_bytes);
        let mut request = SendRequest::new(SendOp::Read(from.remote_addr()), loan);
        request.refused = (!fits).then_some(PostError::BufferTooShort { remote_bytes, capacity_bytes });
        request
    }

    /// As [`read`](SendRequest::read), at one moment.
    pub(crate) fn read_object(loan: Loan, from: &RemoteKey, lock_mask: u64, domain: &ProtectionDomain) -> SendRequest {
        let read = SendRequest::read(loan, from);
        let missing = (!domain.device().capabilities().object_read).then_some(PostError::Unsupported(OBJECT_READ));
        SendRequest { op: SendOp::ObjectRead(from.remote_addr(), lock_mask), refused: missing.or(read.refused), ..read }
    }

    /// The buffers get the room of the reply before the device has them, and the length of the reply afterwards.
    pub(crate) fn call(request: &[u8], mut loan: Loan, to: &RemoteKey, domain: &ProtectionDomain) -> SendRequest {
        loan.set_len(loan.capacity_bytes().min(REPLY_BYTES.into()));
        let missing = (!domain.device().capabilities().calls).then_some(PostError::Unsupported(CALL));
        let mut call = SendRequest::new(SendOp::Call(to.remote_addr()), loan);
        if let Payload::Sgl(reply) = call.payload {
            call.payload = Payload::Call(Box::new(CallBuffers { request: request.into(), reply }));
        }
        SendRequest { refused: missing, ..call }
    }

    /// The result goes to scratch memory of `domain`.
    pub(crate) fn atomic(op: AtomicOp, at: &RemoteKey, domain: &ProtectionDomain) -> SendRequest {
        let (loan, mut refused) = match domain.scratch() {
            Ok(scratch) => (Loan::Word(scratch), None),
            Err(error) => (Loan::None, Some(PostError::Device(error))),
        };
        if !is_word(at) {
            refused = Some(PostError::NotAWord);
        }
        SendRequest { refused, ..SendRequest::new(SendOp::Atomic(at.remote_addr(), op), loan) }
    }

    pub(crate) fn atomic_write(at: &RemoteKey, value: u64) -> SendRequest {
        let mut request = SendRequest::inline(SendOp::AtomicWrite(at.remote_addr()), &value.to_ne_bytes());
        request.refused = (!is_word(at)).then_some(PostError::NotAWord);
        request
    }

    /// A list entry holds less than 4 GiB, and so does the range of a FLUSH: a longer one flushes the whole region.
    pub(crate) fn flush(range: &RemoteKey) -> SendRequest {
        let (len_bytes, level) = match u32::try_from(range.len_bytes()) {
            Ok(len_bytes) => (len_bytes, FlushLevel::RANGE),
            Err(_) => (0, FlushLevel::MR),
        };
        let (remote, placement) = (range.remote_addr(), FlushPlacement::GLOBAL);
        SendRequest::inline(SendOp::Flush { remote, len_bytes, placement, level }, &[])
    }

    pub(crate) fn bind(mut window: WindowCore) -> SendRequest {
        SendRequest::new(window.bind(), Loan::Window(window))
    }

    pub(crate) fn unbind(mut window: WindowCore) -> SendRequest {
        SendRequest::new(window.unbind(), Loan::Window(window))
    }

    /// Sends it as a datagram, or tells why it cannot be.
    pub(crate) fn to(mut self, destination: Result<UdDestination, PostError>) -> SendRequest {
        match destination {
            Ok(datagram) => self.datagram = Some(datagram),
            Err(error) => self.refused = Some(error),
        }
        self
    }

    fn fitting(mut self, len_bytes: u64, key: &RemoteKey) -> SendRequest {
        let remote_bytes = key.len_bytes();
        self.refused = (len_bytes > remote_bytes).then_some(PostError::RemoteTooShort { len_bytes, remote_bytes });
        self
    }

    /// The reason why it must not be posted on a queue pair of that protection domain.
    pub(crate) fn check(&mut self, domain: DomainId) -> Result<(), PostError> {
        match self.refused.take() {
            Some(error) => Err(error),
            None if !self.loan.is_of(domain) => Err(PostError::OtherDomain),
            None => Ok(()),
        }
    }

    pub(crate) fn into_loan(self) -> Loan {
        self.loan
    }

    /// The work request, whose number and signaling are still to be set, and its entry.
    pub(crate) fn into_parts(self, delivery: Delivery) -> (SendWr, PreparedRequest) {
        let entry = PreparedRequest {
            op: self.op.completion_op(),
            signaled: self.flags.contains(SendFlags::SIGNALED),
            loan: self.loan,
            delivery,
        };
        let wr = SendWr {
            wr_id: 0,
            op: self.op,
            flags: self.flags,
            payload: self.payload,
            datagram: self.datagram.map(Box::new),
            xrc_srq: None,
        };
        (wr, entry)
    }
}

/// Names in errors.
const CALL: &str = "a call";
const OBJECT_READ: &str = "the READ of an object";

fn is_word(key: &RemoteKey) -> bool {
    key.len_bytes() == 8 && key.addr().is_multiple_of(8)
}
