//! Batches: several requests, one doorbell.

use std::fmt;
use std::marker::PhantomData;

use smallvec::SmallVec;
use transport::{AtomicOp, SendFlags};

use crate::buffer::Buffer;
use crate::error::PostError;
use crate::flight::{Delivery, Lend, Loan, Ticket};
use crate::qp::{QueuePairCore, Rc};
use crate::remote::RemoteKey;
use crate::request::SendRequest;

/// A list of send work requests that are posted together: the device starts them all at once,
/// with as few packets and system calls as they need.
///
/// The modifiers [`fence`](Batch::fence), [`solicited`](Batch::solicited) and
/// [`unsignaled`](Batch::unsignaled) apply to the request added last.
///
/// ```no_run
/// # use longarm::{Buffer, QueuePair, RemoteKey};
/// # fn example(qp: QueuePair, page: Buffer, note: Buffer, place: RemoteKey) -> Result<(), Box<dyn std::error::Error>> {
/// let tickets = qp.batch().write(page, &place).unsignaled().send(note).post()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is posted until `post` is called"]
pub struct Batch<'q, S> {
    qp: &'q QueuePairCore,
    requests: SmallVec<[(SendRequest, Delivery); 1]>,
    service: PhantomData<S>,
}

impl<'q, S> Batch<'q, S> {
    pub(crate) fn new(qp: &'q QueuePairCore) -> Batch<'q, S> {
        Batch { qp, requests: SmallVec::new(), service: PhantomData }
    }

    fn add(mut self, request: SendRequest) -> Batch<'q, S> {
        self.requests.push((request, Delivery::Poll));
        self
    }

    fn last(&mut self, change: impl FnOnce(&mut SendFlags)) {
        if let Some((request, _)) = self.requests.last_mut() {
            change(&mut request.flags);
        }
    }

    /// Adds a [send](crate::QueuePair::send).
    pub fn send(self, buffer: impl Lend) -> Batch<'q, S> {
        self.add(SendRequest::send(buffer.lend()))
    }

    /// Adds a [send with immediate data](crate::QueuePair::send_with_imm).
    pub fn send_with_imm(self, buffer: impl Lend, imm: u32) -> Batch<'q, S> {
        self.add(SendRequest::send_with_imm(buffer.lend(), imm))
    }

    /// Adds an [inline send](crate::QueuePair::send_inline).
    pub fn send_inline(self, bytes: &[u8]) -> Batch<'q, S> {
        self.add(SendRequest::send_inline(bytes))
    }

    /// Adds a [write](crate::QueuePair::write).
    pub fn write(self, buffer: impl Lend, to: &RemoteKey) -> Batch<'q, S> {
        self.add(SendRequest::write(buffer.lend(), to))
    }

    /// Adds a [write with immediate data](crate::QueuePair::write_with_imm).
    pub fn write_with_imm(self, buffer: impl Lend, to: &RemoteKey, imm: u32) -> Batch<'q, S> {
        self.add(SendRequest::write_with_imm(buffer.lend(), to, imm))
    }

    /// Adds an [inline write](crate::QueuePair::write_inline).
    pub fn write_inline(self, bytes: &[u8], to: &RemoteKey) -> Batch<'q, S> {
        self.add(SendRequest::write_inline(bytes, to))
    }

    /// The last request starts only when all READs and atomics before it have completed.
    pub fn fence(mut self) -> Batch<'q, S> {
        self.last(|flags| *flags |= SendFlags::FENCE);
        self
    }

    /// The last request asks for an event at the receiver.
    pub fn solicited(mut self) -> Batch<'q, S> {
        self.last(|flags| *flags |= SendFlags::SOLICITED);
        self
    }

    /// The last request causes no completion of its own; see
    /// [`Work::unsignaled`](crate::Work::unsignaled).
    pub fn unsignaled(mut self) -> Batch<'q, S> {
        self.last(|flags| *flags -= SendFlags::SIGNALED);
        self
    }

    /// Posts the requests, for poll mode. The tickets are in their order.
    ///
    /// # Errors
    /// If one was refused: those before it are posted, and it and those after it are not.
    pub fn post(self) -> Result<Vec<Ticket>, BatchFailure> {
        match self.qp.post_sends(self.requests) {
            Ok(keys) => Ok(keys.into_iter().map(Ticket).collect()),
            Err(rejected) => Err(BatchFailure {
                error: rejected.error,
                posted: rejected.posted.into_iter().map(Ticket).collect(),
                loans: rejected.loans,
            }),
        }
    }
}

impl Batch<'_, Rc> {
    /// Adds a [read](crate::QueuePair::read).
    pub fn read(self, buffer: impl Lend, from: &RemoteKey) -> Self {
        self.add(SendRequest::read(buffer.lend(), from))
    }

    /// Adds a [READ of an object](crate::QueuePair::read_object).
    pub fn read_object(self, buffer: impl Lend, from: &RemoteKey, lock_mask: u64) -> Self {
        let request = SendRequest::read_object(buffer.lend(), from, lock_mask, &self.qp.domain);
        self.add(request)
    }

    /// Adds a [call](crate::QueuePair::call).
    pub fn call(self, request: &[u8], reply: impl Lend, to: &RemoteKey) -> Self {
        let call = SendRequest::call(request, reply.lend(), to, &self.qp.domain);
        self.add(call)
    }

    /// Adds a [compare-and-swap](crate::QueuePair::compare_swap).
    pub fn compare_swap(self, at: &RemoteKey, compare: u64, swap: u64) -> Self {
        let request = SendRequest::atomic(AtomicOp::CompareSwap { compare, swap }, at, &self.qp.domain);
        self.add(request)
    }

    /// Adds an [atomic write](crate::QueuePair::atomic_write).
    pub fn atomic_write(self, at: &RemoteKey, value: u64) -> Self {
        self.add(SendRequest::atomic_write(at, value))
    }

    /// Adds a [flush](crate::QueuePair::flush).
    pub fn flush(self, range: &RemoteKey) -> Self {
        self.add(SendRequest::flush(range))
    }

    /// Adds a [fetch-and-add](crate::QueuePair::fetch_add).
    pub fn fetch_add(self, at: &RemoteKey, add: u64) -> Self {
        let request = SendRequest::atomic(AtomicOp::FetchAdd { add }, at, &self.qp.domain);
        self.add(request)
    }
}

impl<S> fmt::Debug for Batch<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Batch({} requests)", self.requests.len())
    }
}

/// A batch that was posted in part, or not at all.
///
/// ```no_run
/// # fn example(qp: longarm::QueuePair, parts: Vec<longarm::Buffer>, log: longarm::RemoteKey) {
/// let batch = parts.into_iter().fold(qp.batch(), |batch, part| batch.write(part, &log));
/// if let Err(failure) = batch.post() {
///     println!("{} were posted, then: {}", failure.posted().len(), failure.error());
///     let again = failure.into_buffers();                  // those that were not
/// }
/// # }
/// ```
pub struct BatchFailure {
    error: PostError,
    posted: Vec<Ticket>,
    loans: Vec<Loan>,
}

impl BatchFailure {
    /// The reason why the first request that was not posted was refused.
    pub fn error(&self) -> &PostError {
        &self.error
    }

    /// The requests that were posted.
    pub fn posted(&self) -> &[Ticket] {
        &self.posted
    }

    /// The buffers of the requests that were not posted, in order.
    pub fn into_buffers(self) -> Vec<Buffer> {
        self.loans.into_iter().flat_map(Loan::into_buffers).collect()
    }
}

impl fmt::Debug for BatchFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (posted, refused) = (self.posted.len(), self.loans.len());
        write!(f, "BatchFailure({posted} posted, {refused} not: {})", self.error)
    }
}

impl fmt::Display for BatchFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request {} of the batch was not posted: {}", self.posted.len(), self.error)
    }
}

impl std::error::Error for BatchFailure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}
