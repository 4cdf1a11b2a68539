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
    /// Forgets the peer's answer. True if dropping the attempt then may block its thread.
    fn give_up(&self) -> bool;
    /// Tries the next address.
    fn again(self) -> Result<Self, ConnectError>;
    fn finish(self, reply: PeerReply) -> Result<Self::Output, ConnectError>;
}

pub(super) enum AttemptState<A: PendingAttempt> {
    Failed(ConnectError),
    /// Another thread makes the next attempt.
    Starting(BlockingCall<Result<HeldAttempt<A>, ConnectError>>),
    Pending(HeldAttempt<A>),
    Over,
}

/// An attempt that another thread drops, if that may block: the connection manager of the system waits until it has
/// withdrawn a request. For iWARP that takes up to ten seconds.
pub(super) struct HeldAttempt<A: PendingAttempt>(Option<Box<A>>);

impl<A: PendingAttempt> HeldAttempt<A> {
    fn new(attempt: A) -> HeldAttempt<A> {
        HeldAttempt(Some(Box::new(attempt)))
    }

    fn get(&mut self) -> &mut A {
        self.0.as_mut().expect("only `take` takes it, and that consumes the holder")
    }

    fn take(mut self) -> A {
        *self.0.take().expect("only `take` takes it, and that consumes the holder")
    }
}

impl<A: PendingAttempt> Drop for HeldAttempt<A> {
    fn drop(&mut self) {
        if let Some(attempt) = self.0.take()
            && attempt.give_up()
        {
            // Nobody waits for the end of the call.
            drop(BlockingCall::run(move || drop(attempt)));
        }
    }
}

impl<A: PendingAttempt> AttemptState<A> {
    /// Makes an attempt: on another thread, if it may block.
    pub(super) fn start(
        may_block: bool,
        attempt: impl FnOnce() -> Result<A, ConnectError> + Send + 'static,
    ) -> AttemptState<A> {
        match may_block {
            true => AttemptState::Starting(BlockingCall::run(move || attempt().map(HeldAttempt::new))),
            false => AttemptState::of(attempt()),
        }
    }

    pub(super) fn of(begun: Result<A, ConnectError>) -> AttemptState<A> {
        AttemptState::begun(begun.map(HeldAttempt::new))
    }

    fn begun(begun: Result<HeldAttempt<A>, ConnectError>) -> AttemptState<A> {
        match begun {
            Ok(pending) => AttemptState::Pending(pending),
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
                    Poll::Ready(begun) => AttemptState::begun(begun.unwrap_or(Err(ConnectError::Forked))),
                    Poll::Pending => {
                        *self = AttemptState::Starting(starting);
                        return Poll::Pending;
                    }
                },
                AttemptState::Pending(mut pending) => {
                    let (cm, slot) = pending.get().waiting();
                    match cm.poll_up(task, slot) {
                        Poll::Ready(Err(error)) if is_worth_another(&error) && pending.get().has_more() => {
                            AttemptState::repeat(pending.take(), error)
                        }
                        Poll::Ready(reply) => return Poll::Ready(reply.and_then(|reply| pending.take().finish(reply))),
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};
    use std::thread::{self, ThreadId};

    use super::*;

    struct Withdrawn {
        blocks: bool,
        told: Sender<ThreadId>,
    }

    impl PendingAttempt for Withdrawn {
        type Output = ();

        fn waiting(&mut self) -> (&CmConnection, &mut WaiterSlot) {
            unreachable!("nobody polls it")
        }

        fn has_more(&self) -> bool {
            false
        }

        fn blocks(&self) -> bool {
            false
        }

        fn give_up(&self) -> bool {
            self.blocks
        }

        fn again(self) -> Result<Withdrawn, ConnectError> {
            Ok(self)
        }

        fn finish(self, _: PeerReply) -> Result<(), ConnectError> {
            Ok(())
        }
    }

    impl Drop for Withdrawn {
        fn drop(&mut self) {
            self.told.send(thread::current().id()).expect("the test waits");
        }
    }

    #[test]
    fn another_thread_withdraws_a_request_if_that_blocks() {
        for blocks in [true, false] {
            let (told, by) = channel();
            drop(AttemptState::of(Ok(Withdrawn { blocks, told })));
            assert_eq!(by.recv().unwrap() != thread::current().id(), blocks);
        }
    }

    #[test]
    fn a_request_that_nobody_polled_for_is_withdrawn_there_too() {
        let (told, by) = channel();
        let (begun, begins) = channel();
        let state = AttemptState::start(true, move || {
            begun.send(()).expect("the test waits");
            Ok(Withdrawn { blocks: true, told })
        });
        begins.recv().unwrap();
        if let AttemptState::Starting(call) = &state {
            testkit::wait_until("the result is there", || call.is_done());
        }
        drop(state);
        assert_ne!(by.recv().unwrap(), thread::current().id());
    }
}
