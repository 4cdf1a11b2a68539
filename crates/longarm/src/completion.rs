//! Completions, and the buffers and values that they give back.

use std::fmt;
use std::ops::Deref;

use transport::{CompletionOp, Reason, Status};
use wire::{Grh, QKey, Qpn, RKey};

use crate::address::AddressHandle;
use crate::buffer::Buffer;
use crate::error::WorkError;
use crate::flight::{Failure, FinishedRequest, GRH_BYTES, Lend, Loan, Loanable, RequestKey, Ticket};
use crate::object;
use crate::window::{BoundWindow, Window};

/// The outcome of one posted work request, with the buffers that it had borrowed.
///
/// It comes from [`CompletionQueue::poll`](crate::CompletionQueue).
#[must_use = "the buffers are freed with the completion"]
pub struct Completion {
    ticket: Ticket,
    done: FinishedRequest,
    reason: Option<Reason>,
}

impl Completion {
    pub(crate) fn new(key: RequestKey, mut done: FinishedRequest, reason: Option<Reason>) -> Completion {
        if done.is_ok() && matches!(done.op, CompletionOp::Recv | CompletionOp::RecvWriteImm) {
            let len_bytes = received_bytes(&done);
            done.loan.set_len(len_bytes);
        }
        if done.is_ok() && matches!(done.op, CompletionOp::ObjectRead | CompletionOp::Call) {
            done.loan.set_len(done.completion.byte_len.into());
        }
        Completion { ticket: Ticket(key), done, reason }
    }

    /// The ticket that posting the request returned.
    pub fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// The request's operation. A receive that a WRITE with immediate has used up is
    /// [`RecvWriteImm`](CompletionOp::RecvWriteImm).
    pub fn op(&self) -> CompletionOp {
        self.done.op
    }

    /// The queue pair that it was carried out on.
    pub fn qpn(&self) -> Qpn {
        self.done.completion.qpn
    }

    /// The outcome.
    pub fn status(&self) -> Status {
        self.done.completion.status
    }

    /// True if the request was carried out.
    pub fn is_ok(&self) -> bool {
        self.done.is_ok()
    }

    /// The reason why it was not carried out, if it was not.
    pub fn error(&self) -> Option<WorkError> {
        (!self.is_ok()).then(|| WorkError::Failed { status: self.status(), reason: self.reason })
    }

    /// The immediate data that came with a received message.
    pub fn imm(&self) -> Option<u32> {
        self.done.completion.imm.filter(|_| self.is_ok())
    }

    /// The buffer as it is now: the message that was received, the bytes that were read,
    /// what was sent. The first, if there were several.
    pub fn buffer(&self) -> Option<&Buffer> {
        self.done.loan.buffer()
    }

    /// The buffer, given back. The first, if there were several.
    pub fn into_buffer(self) -> Option<Buffer> {
        self.into_buffers().into_iter().next()
    }

    /// All buffers, given back.
    pub fn into_buffers(self) -> Vec<Buffer> {
        self.done.loan.into_buffers()
    }

    /// True if a [READ of an object](crate::QueuePair::read_object) brought the object, and false if it was busy.
    pub fn is_whole_object(&self) -> bool {
        self.is_ok() && self.op() == CompletionOp::ObjectRead && object::is_whole(self.done.completion.byte_len)
    }

    /// Bytes of the reply, if it is that of a [call](crate::QueuePair::call).
    pub fn reply_bytes(&self) -> Option<u32> {
        (self.is_ok() && self.op() == CompletionOp::Call).then_some(self.done.completion.byte_len)
    }

    /// The old value that an atomic found.
    pub fn value(&self) -> Option<u64> {
        match &self.done.loan {
            Loan::Word(word) if self.is_ok() => Some(word.word()),
            _ => None,
        }
    }

    /// The message, if this is a receive that succeeded.
    ///
    /// # Errors
    /// The [`Failure`], if it did not; without a failure if it is not a receive.
    pub fn into_message(self) -> Result<Message, Failure> {
        Message::from_completion(self)
    }

    fn into_result(self) -> Result<FinishedRequest, Failure> {
        match self.error() {
            None => Ok(self.done),
            Some(error) => Err(Failure::new(error, self.done.loan)),
        }
    }
}

/// Bytes that a received message has put into the buffers.
fn received_bytes(done: &FinishedRequest) -> u64 {
    match (&done.loan, done.op) {
        (_, CompletionOp::RecvWriteImm) => 0,
        (Loan::Datagram(..), _) => u64::from(done.completion.byte_len.saturating_sub(GRH_BYTES)),
        _ => u64::from(done.completion.byte_len),
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completion")
            .field("ticket", &self.ticket)
            .field("op", &self.op())
            .field("qpn", &self.qpn())
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}

/// A received message. It is its bytes; they lie in the buffer that was posted for it.
///
/// ```no_run
/// # use std::time::Duration;
/// # fn example(qp: longarm::QueuePair, buffer: longarm::Buffer) -> Result<(), Box<dyn std::error::Error>> {
/// let message = qp.recv(buffer).wait(Duration::from_secs(5))?;
/// println!("{} bytes, immediate data {:?}", message.len(), message.imm());
/// let buffer = message.into_buffer();                      // for the next message
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Message {
    buffer: Buffer,
    imm: Option<u32>,
    invalidated: Option<RKey>,
    written_bytes: Option<u32>,
    source: Option<AddressHandle>,
    qpn: Qpn,
}

impl Message {
    /// Immediate data.
    pub fn imm(&self) -> Option<u32> {
        self.imm
    }

    /// The key of this process that the peer has invalidated with this message.
    pub fn invalidated(&self) -> Option<RKey> {
        self.invalidated
    }

    /// Set if this is the notice of a WRITE with immediate: how many bytes the peer wrote, in a
    /// memory region of this process. The message itself is empty then.
    pub fn written_bytes(&self) -> Option<u32> {
        self.written_bytes
    }

    /// UD: where to send an answer. The packet does not tell the sender's Q_Key, so the handle
    /// has ours: services that talk to each other share one.
    pub fn source(&self) -> Option<&AddressHandle> {
        self.source.as_ref()
    }

    /// The queue pair that it came in on: of interest with a shared receive queue.
    pub fn qpn(&self) -> Qpn {
        self.qpn
    }

    /// The buffer, to be posted again.
    pub fn into_buffer(self) -> Buffer {
        self.buffer
    }
}

impl Deref for Message {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer
    }
}

mod sealed {
    pub trait Sealed {}
}

pub(crate) use sealed::Sealed as OutcomeSeal;

/// The result of a kind of work request.
///
/// [`Work`](crate::Work) has it as its parameter: a send gives its buffers back, an atomic the old value. For a receive it
/// is the [`Message`].
pub trait Outcome: Sized + sealed::Sealed {
    #[doc(hidden)]
    fn from_completion(completion: Completion) -> Result<Self, Failure>;
}

impl<B: Lend> sealed::Sealed for B {}
impl<B: Lend> Outcome for B {
    fn from_completion(completion: Completion) -> Result<B, Failure> {
        let done = completion.into_result()?;
        B::regain(done.loan).ok_or_else(no_such_thing)
    }
}

impl sealed::Sealed for () {}
impl Outcome for () {
    fn from_completion(completion: Completion) -> Result<(), Failure> {
        completion.into_result().map(drop)
    }
}

/// The old value that an atomic operation found.
impl sealed::Sealed for u64 {}
impl Outcome for u64 {
    fn from_completion(completion: Completion) -> Result<u64, Failure> {
        match completion.into_result()?.loan {
            Loan::Word(word) => Ok(word.word()),
            _ => Err(no_such_thing()),
        }
    }
}

impl sealed::Sealed for Message {}
impl Outcome for Message {
    fn from_completion(completion: Completion) -> Result<Message, Failure> {
        let done = completion.into_result()?;
        let raw = done.completion;
        let source = match &done.loan {
            Loan::Datagram(grh, _, qkey) if raw.grh => sender(grh.bytes(), raw.src_qpn, *qkey),
            _ => None,
        };
        let written = done.op == CompletionOp::RecvWriteImm;
        let buffer = Buffer::regain(done.loan).ok_or_else(no_such_thing)?;
        Ok(Message {
            buffer,
            imm: raw.imm,
            invalidated: raw.invalidated,
            written_bytes: written.then_some(raw.byte_len),
            source,
            qpn: raw.qpn,
        })
    }
}

impl<'r> sealed::Sealed for BoundWindow<'r> {}
impl<'r> Outcome for BoundWindow<'r> {
    fn from_completion(completion: Completion) -> Result<BoundWindow<'r>, Failure> {
        match completion.into_result()?.loan {
            Loan::Window(core) => Ok(BoundWindow::from_core(core)),
            _ => Err(no_such_thing()),
        }
    }
}

impl<'r> sealed::Sealed for Window<'r> {}
impl<'r> Outcome for Window<'r> {
    fn from_completion(completion: Completion) -> Result<Window<'r>, Failure> {
        match completion.into_result()?.loan {
            Loan::Window(core) => Ok(Window::from_core(core)),
            _ => Err(no_such_thing()),
        }
    }
}

fn sender(grh: &[u8], qpn: Qpn, qkey: QKey) -> Option<AddressHandle> {
    let grh = Grh::decode(grh.first_chunk()?)?;
    Some(AddressHandle::new(grh.source, qpn, qkey))
}

/// A completion of another kind of request than the caller takes it for.
fn no_such_thing() -> Failure {
    let error = WorkError::Failed { status: Status::General, reason: None };
    Failure::new(error, Loan::None)
}
