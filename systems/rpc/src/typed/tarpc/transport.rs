//! The client's side as tarpc knows it: a transport, each of whose requests is a call.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use ::tarpc::{ClientMessage, Response as TarpcResponse};
use bytes::Bytes;
use futures_core::Stream;
use futures_core::future::BoxFuture;
use futures_sink::Sink;
use futures_util::StreamExt;
use futures_util::future::{AbortHandle, Abortable, Aborted};
use futures_util::stream::FuturesUnordered;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tower_service::Service;

use super::messages::{decode_reply, server_error};
use super::stub::encode_call;
use crate::code::Executed;
use crate::message::Response;
use crate::service::{Call, Method};
use crate::status::Status;
use crate::typed::errors::BoxError;

/// A transport for tarpc's client: `WorldClient::new(Config::default(), client(channel, WORLD)).spawn()`, see
/// [the module](crate::tarpc).
///
/// A call that fails is answered with a `ServerError` and does not disturb the others. The transport fails, and tarpc's
/// client with it, if the channel cannot take calls any more (`poll_ready`).
pub fn client<S, Q, R>(channel: S, method: Method) -> CallTransport<S, Q, R> {
    let (calls, cancel) = (FuturesUnordered::new(), HashMap::new());
    CallTransport { channel, method, calls, cancel, reader: None, types: PhantomData }
}

/// The request's number and the outcome of its call.
type Outcome = (u64, Result<Response<Bytes>, Status>);

/// A transport for tarpc's client; [`client`] makes it.
#[derive(Debug)]
pub struct CallTransport<S, Q, R> {
    channel: S,
    method: Method,
    calls: FuturesUnordered<Abortable<BoxFuture<'static, Outcome>>>,
    cancel: HashMap<u64, AbortHandle>,
    reader: Option<Waker>,
    types: PhantomData<fn(Q) -> R>,
}

impl<S, Q, R> CallTransport<S, Q, R>
where
    S: Service<Call, Response = Response<Bytes>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    fn start(&mut self, id: u64, call: Call) {
        let pending = self.channel.call(call);
        let outcome: BoxFuture<'static, Outcome> =
            Box::pin(async move { (id, pending.await.map_err(|error| Status::from_error(error.into()))) });
        let (handle, registration) = AbortHandle::new_pair();
        self.calls.push(Abortable::new(outcome, registration));
        self.cancel.insert(id, handle);
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

impl<S: Unpin, Q, R: DeserializeOwned> Stream for CallTransport<S, Q, R> {
    type Item = Result<TarpcResponse<R>, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match self.calls.poll_next_unpin(context) {
                Poll::Ready(Some(Ok((id, outcome)))) => {
                    self.cancel.remove(&id);
                    let decoded = outcome.and_then(|response| decode_reply(response.get_ref()));
                    let message = decoded.unwrap_or_else(|status| Err(server_error(&status)));
                    return Poll::Ready(Some(Ok(TarpcResponse { request_id: id, message })));
                }
                Poll::Ready(Some(Err(Aborted))) => {}
                Poll::Ready(None) | Poll::Pending => {
                    self.reader = Some(context.waker().clone());
                    return Poll::Pending;
                }
            }
        }
    }
}

impl<S, Q, R> Sink<ClientMessage<Q>> for CallTransport<S, Q, R>
where
    S: Service<Call, Response = Response<Bytes>> + Unpin,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    Q: Serialize,
{
    type Error = Status;

    fn poll_ready(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Status>> {
        let refused = |error: S::Error| Status::from_error(error.into()).with_executed(Executed::No);
        self.channel.poll_ready(context).map_err(refused)
    }

    fn start_send(mut self: Pin<&mut Self>, message: ClientMessage<Q>) -> Result<(), Status> {
        match message {
            ClientMessage::Request(request) => {
                let call = encode_call(self.method, request.context, &request.message)?;
                self.start(request.id, call);
                Ok(())
            }
            ClientMessage::Cancel { request_id, .. } => {
                if let Some(handle) = self.cancel.remove(&request_id) {
                    handle.abort();
                }
                Ok(())
            }
            _ => Err(Status::unimplemented("a message of tarpc that this version does not know")),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }
}
