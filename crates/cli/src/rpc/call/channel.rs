//! A tower service over the polling client.

use std::future::{Future, Ready, ready};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use longarm_rpc::{Call, Client, Response, Status};
use tower_service::Service;

/// A client whose calls end before their future is polled: for a program that has nothing else to do.
pub(super) struct PollingChannel {
    client: Client,
    timeout: Duration,
}

impl PollingChannel {
    pub(super) fn new(client: Client, timeout: Duration) -> PollingChannel {
        PollingChannel { client, timeout }
    }
}

impl Service<Call> for PollingChannel {
    type Response = Response<Bytes>;
    type Error = Status;
    type Future = Ready<Result<Response<Bytes>, Status>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: Call) -> Self::Future {
        let reply = self.client.call(call.method, call.request.get_ref(), self.timeout);
        ready(reply.map(Response::new))
    }
}

/// Runs a future over a [`PollingChannel`]: no part of it ever waits for a waker.
pub(super) fn finish<T>(future: impl Future<Output = T>) -> T {
    let (mut future, mut context) = (pin!(future), Context::from_waker(Waker::noop()));
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
    }
}
