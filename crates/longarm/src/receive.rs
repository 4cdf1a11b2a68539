//! Receives: buffers posted for messages to come.

use std::fmt;
use std::future::IntoFuture;
use std::time::Duration;

use smallvec::smallvec;
use transport::{CompletionOp, RecvWr};

use crate::completion::Message;
use crate::domain::DomainId;
use crate::error::PostError;
use crate::flight::{Delivery, Failure, Loan, PreparedRequest, RequestKey, Ticket, WorkQueue};
use crate::in_flight::InFlight;
use crate::posted::PostedRequest;

/// A queue pair or a shared receive queue, to which receive buffers are posted.
pub(crate) trait ReceiveTarget {
    fn post_recv(&self, loan: Loan, delivery: Delivery) -> Result<PostedRequest, Failure>;
}

/// Posts a receive request with `post`, which hands it to the device.
pub(crate) fn post_recv(
    queue: &WorkQueue,
    domain: DomainId,
    loan: Loan,
    delivery: Delivery,
    post: impl FnOnce(RecvWr) -> Result<(), device::PostFailure>,
) -> Result<RequestKey, Failure> {
    if !loan.is_of(domain) {
        return Err(Failure::not_posted(PostError::OtherDomain, loan));
    }
    let sgl = loan.scatter();
    let mut entries = smallvec![PreparedRequest { loan, op: CompletionOp::Recv, signaled: true, delivery }];
    let Some(entered) = queue.enter(&mut entries) else {
        let loan = entries.pop().map(|entry| entry.loan).unwrap_or_default();
        return Err(Failure::not_posted(PostError::QueueFull { depth: queue.depth() }, loan));
    };
    let (key, _) = entered[0];
    match post(RecvWr { wr_id: key.wr_id(), sgl }) {
        Ok(()) => Ok(key),
        Err(refused) => Err(Failure::not_posted(PostError::Device(refused.error), queue.withdraw(key))),
    }
}

/// A receive request that has not been posted yet. It results in a [`Message`].
///
/// As for [`Work`](crate::Work), awaiting, [waiting](Receive::wait), [starting](Receive::start)
/// and [posting](Receive::post) differ in how the message is delivered. A buffer must
/// be posted before the peer sends: start receives early and await them later.
///
/// ```no_run
/// # async fn example(qp: longarm::QueuePair, buffer: longarm::Buffer) -> Result<(), Box<dyn std::error::Error>> {
/// let reply = qp.recv(buffer).start();                     // before the peer answers
/// qp.send_inline(b"a question").await?;
/// println!("{:?}", &reply.await?[..]);
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is posted until it is awaited, waited for, started or posted"]
pub struct Receive<'q> {
    target: &'q dyn ReceiveTarget,
    loan: Result<Loan, Failure>,
}

impl<'q> Receive<'q> {
    pub(crate) fn new(target: &'q dyn ReceiveTarget, loan: Loan) -> Receive<'q> {
        Receive { target, loan: Ok(loan) }
    }

    /// One that will not be posted, for this reason.
    pub(crate) fn refused(target: &'q dyn ReceiveTarget, why: PostError, loan: Loan) -> Receive<'q> {
        Receive { target, loan: Err(Failure::not_posted(why, loan)) }
    }

    fn submit(self, delivery: Delivery) -> Result<PostedRequest, Failure> {
        self.target.post_recv(self.loan?, delivery)
    }

    /// Posts the buffer, for poll mode.
    ///
    /// # Errors
    /// If it was not posted; the buffer comes back with the failure.
    pub fn post(self) -> Result<Ticket, Failure> {
        self.submit(Delivery::Poll).map(|posted| Ticket(posted.key))
    }

    /// Posts the buffer now. If that fails, the future is ready and says so.
    pub fn start(self) -> InFlight<Message> {
        InFlight::new(self.submit(Delivery::Waiter(None)))
    }

    /// Posts the buffer and waits for a message in it.
    ///
    /// # Errors
    /// If it was not posted, the queue pair failed, or no message has come in time. In the last
    /// case the buffer stays posted, and the message that it receives is lost.
    pub fn wait(self, timeout: Duration) -> Result<Message, Failure> {
        self.start().wait(timeout)
    }
}

impl IntoFuture for Receive<'_> {
    type Output = Result<Message, Failure>;
    type IntoFuture = InFlight<Message>;

    fn into_future(self) -> InFlight<Message> {
        self.start()
    }
}

impl fmt::Debug for Receive<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Receive")
    }
}
