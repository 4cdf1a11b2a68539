//! Work: a request that can be posted, awaited or waited for.

use std::future::IntoFuture;
use std::marker::PhantomData;
use std::time::Duration;

use transport::SendFlags;

use crate::completion::Outcome;
use crate::flight::{Delivery, Failure, Ticket};
use crate::in_flight::InFlight;
use crate::qp::QueuePairCore;
use crate::request::SendRequest;

/// A send work request that has not been posted yet. `T` is the type of its result.
///
/// | to | call | the completion |
/// |---|---|---|
/// | await it | `.await` | is the future's output |
/// | block | [`.wait(timeout)`](Work::wait) | is returned |
/// | start it now and wait later | [`.start()`](Work::start) | comes from the [`InFlight`] |
/// | poll for it | [`.post()`](Work::post) | comes from [`CompletionQueue::poll`](crate::CompletionQueue::poll) |
#[derive(Debug)]
#[must_use = "nothing is posted until it is awaited, waited for, started or posted"]
pub struct Work<'q, T> {
    qp: &'q QueuePairCore,
    request: SendRequest,
    outcome: PhantomData<fn() -> T>,
}

impl<'q, T: Outcome> Work<'q, T> {
    pub(crate) fn new(qp: &'q QueuePairCore, request: SendRequest) -> Work<'q, T> {
        Work { qp, request, outcome: PhantomData }
    }

    /// Starts it only when all READs and atomics before it have completed.
    pub fn fence(mut self) -> Work<'q, T> {
        self.request.flags |= SendFlags::FENCE;
        self
    }

    /// Asks for an event at the receiver: see
    /// [`CompletionQueue::arm_solicited`](crate::CompletionQueue::arm_solicited).
    pub fn solicited(mut self) -> Work<'q, T> {
        self.request.flags |= SendFlags::SOLICITED;
        self
    }

    /// Another request follows soon, so a small one may wait for it: several then leave with one system call. It leaves
    /// with the next request that is not marked so, or at the next poll of a completion queue. If neither comes, the
    /// device sends it within about a millisecond. (`MSG_MORE` of send(2) is the same for sockets.) Peers on this host
    /// and the system's devices get it at once.
    pub fn more(mut self) -> Work<'q, T> {
        self.request.flags |= SendFlags::MORE;
        self
    }

    /// Causes no completion of its own. It is reported, and its buffers come back, with the next
    /// signaled request of this queue pair that completes, or when it fails. (Of a long run of
    /// unsignaled requests the library signals some.)
    pub fn unsignaled(mut self) -> Unsignaled<'q, T> {
        self.request.flags -= SendFlags::SIGNALED;
        Unsignaled { work: self }
    }

    /// Posts it, for poll mode. It counts against the depth of the queue until its completion has
    /// been taken.
    ///
    /// # Errors
    /// If it was not posted; the buffers come back with the failure.
    pub fn post(self) -> Result<Ticket, Failure> {
        self.qp.post_send(self.request, Delivery::Poll).map(Ticket)
    }

    /// Posts it now. If that fails, the future is ready and says so.
    pub fn start(self) -> InFlight<T> {
        let posted = self.qp.post_send(self.request, Delivery::Waiter(None));
        InFlight::new(posted.map(|key| self.qp.send_posted(key)))
    }

    /// Posts it and waits for its completion. Polls for some microseconds, then sleeps.
    ///
    /// # Errors
    /// If it was not posted, failed, or has not completed in time. In the last case the device
    /// still has its buffers; they are freed when it has done with them.
    pub fn wait(self, timeout: Duration) -> Result<T, Failure> {
        self.start().wait(timeout)
    }
}

impl<T: Outcome> IntoFuture for Work<'_, T> {
    type Output = Result<T, Failure>;
    type IntoFuture = InFlight<T>;

    fn into_future(self) -> InFlight<T> {
        self.start()
    }
}

/// A send work request that causes no completion of its own; see [`Work::unsignaled`].
///
/// ```no_run
/// # fn example(qp: longarm::QueuePair, buffer: longarm::Buffer, key: longarm::RemoteKey) -> Result<(), Box<dyn std::error::Error>> {
/// let write = qp.write(buffer, &key).unsignaled().post()?;
/// let notice = qp.send_inline(b"done").post()?;           // its completion stands for both
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "nothing is posted until `post` is called"]
pub struct Unsignaled<'q, T> {
    work: Work<'q, T>,
}

impl<T: Outcome> Unsignaled<'_, T> {
    /// Posts it, for poll mode.
    ///
    /// # Errors
    /// If it was not posted; the buffers come back with the failure.
    pub fn post(self) -> Result<Ticket, Failure> {
        self.work.post()
    }
}
