//! Requests whose handlers wait for a thread of an executor or of the pool.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use crate::code::Code;
use crate::message::Request;
use crate::observe::{ObservedAnswer, ObservedCall};
use crate::service::{Answer, BoxFuture, FutureHandler};
use crate::session::{CallId, Withdrawn};

/// A request that no handler has yet.
pub(crate) struct WaitingRequest {
    pub(crate) id: CallId,
    pub(crate) handler: Arc<FutureHandler>,
    pub(crate) request: Request<Bytes>,
    pub(crate) call: ObservedCall,
    pub(crate) withdrawn: Withdrawn,
    /// The moment at which the caller has stopped waiting for sure.
    pub(crate) deadline: Option<Instant>,
}

/// The caller has withdrawn the request, or its deadline has passed.
pub(crate) struct NobodyWaits;

impl WaitingRequest {
    /// Its turn has come: the handler begins, unless nobody waits for the answer any more.
    ///
    /// # Errors
    /// [`NobodyWaits`] for a request whose handler must not run.
    pub(crate) fn begin(self, now: Instant) -> Result<BoxFuture<Answer>, NobodyWaits> {
        let code = if self.withdrawn.has(self.id.number) {
            Code::Cancelled
        } else if self.deadline.is_some_and(|deadline| deadline <= now) {
            Code::DeadlineExceeded
        } else {
            return Ok(ObservedAnswer::of(self.call.within(|| (self.handler)(self.request)), self.call));
        };
        self.call.end(code);
        Err(NobodyWaits)
    }
}
