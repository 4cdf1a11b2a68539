//! The life of an attempt: it starts, perhaps on another thread, waits for the peer's answer, and may be repeated.

use std::task::{Context, Poll};

use super::attempts::is_worth_another;
use super::cm_connection::{CmConnection, PeerReply};
use super::waiters::WaiterSlot;
use crate::blocking_call::BlockingCall;
use crate::error::ConnectError;

/// An attempt that waits for its answer.
pub(super) trait PendingAttempt: Send + Sized + 'static {
    /// The result of a good answer.
    type Output;

    fn waiting(&mut self) -> (&CmConnection, &mut WaiterSlot);
    /// True if another address is left to try.
    fn has_more(&self) -> bool;
    /// True if the next attempt blocks its thread.
    fn blocks(&self) -> bool;
    /// Tries the next address.
    fn again(self) -> Result<Self, ConnectError>;
    fn finish(self, reply: PeerReply) -> Result<Self::Output, ConnectError>;
}

pub(super) enum AttemptState<A> {
    Failed(ConnectError),
    /// Another thread makes the next attempt.
    Starting(BlockingCall<Result<A, ConnectError>>),
    Pending(Box<A>),
    Over,
}

impl<A: PendingAttempt> AttemptState<A> {
    /// Makes an attempt: on another thread, if it may block.
    pub(super) fn start(
        may_block: bool,
        attempt: impl FnOnce() -> Result<A, ConnectError> + Send + 'static,
    ) -> AttemptState<A> {
        match may_block {
            true => AttemptState::Starting(BlockingCall::run(attempt)),
            false => AttemptState::of(attempt()),
        }
    }

    pub(super) fn of(begun: Result<A, ConnectError>) -> AttemptState<A> {
        match begun {
            Ok(pending) => AttemptState::Pending(Box::new(pending)),
            Err(error) => AttemptState::Failed(error),
        }
    }

    /// # Panics
    /// If the result was taken already.
    pub(super) fn poll(&mut self, task: &mut Context<'_>) -> Poll<Result<A::Output, ConnectError>> {
        loop {
            *self = match std::mem::replace(self, AttemptState::Over) {
                AttemptState::Failed(error) => return Poll::Ready(Err(error)),
                AttemptState::Starting(mut starting) => match starting.poll(task) {
                    Poll::Ready(begun) => AttemptState::of(begun.unwrap_or(Err(ConnectError::Forked))),
                    Poll::Pending => {
                        *self = AttemptState::Starting(starting);
                        return Poll::Pending;
                    }
                },
                AttemptState::Pending(mut pending) => {
                    let (cm, slot) = pending.waiting();
                    match cm.poll_up(task, slot) {
                        Poll::Ready(Err(error)) if is_worth_another(&error) && pending.has_more() => {
                            AttemptState::repeat(*pending, error)
                        }
                        Poll::Ready(reply) => return Poll::Ready(reply.and_then(|reply| pending.finish(reply))),
                        Poll::Pending => {
                            *self = AttemptState::Pending(pending);
                            return Poll::Pending;
                        }
                    }
                }
                AttemptState::Over => panic!("the result of this attempt was taken already"),
            }
        }
    }

    /// The next attempt, after `error`. If no other attempt is possible, the first error says more.
    fn repeat(failed: A, error: ConnectError) -> AttemptState<A> {
        AttemptState::start(failed.blocks(), move || failed.again().map_err(|_| error))
    }
}
