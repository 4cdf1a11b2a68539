//! A channel that takes calls only while it is connected, for balancing.

use std::task::{Context, Poll};

use bytes::Bytes;

use crate::channel::{Calling, Channel};
use crate::message::Response;
use crate::service::Call;
use crate::status::Status;

/// A [`Channel`] that is ready only while it is connected: [`Channel::when_connected`].
///
/// A channel without a server refuses calls quickly, so a balancer takes it for the least busy one. This one is not
/// ready meanwhile, and tries to connect: the balancer goes on with the others.
#[derive(Clone, Debug)]
pub struct ConnectedChannel(pub(super) Channel);

impl tower_service::Service<Call> for ConnectedChannel {
    type Response = Response<Bytes>;
    type Error = Status;
    type Future = Calling;

    /// Ready while there is a session. Otherwise the channel connects, again and again with growing pauses.
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Status>> {
        let core = &self.0.handle.shared;
        let mut state = core.state.lock();
        if state.is_connected() {
            return Poll::Ready(Ok(()));
        }
        state.wait(None, context.waker());
        drop(state);
        core.alarm.ring();
        Poll::Pending
    }

    fn call(&mut self, call: Call) -> Calling {
        Channel::call(&self.0, call.method, call.request)
    }
}
