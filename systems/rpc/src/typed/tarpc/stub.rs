//! The client's side without a task: each call of tarpc's client is a call of the channel.

use std::future::Future;
use std::marker::PhantomData;

use ::tarpc::RequestName;
use ::tarpc::client::RpcError;
use ::tarpc::client::stub::Stub;
use ::tarpc::context::Context;
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tower_service::Service;

use super::messages::{decode_reply, encode, server_error};
use crate::code::{Code, Executed};
use crate::message::{Request, Response};
use crate::metadata::Metadata;
use crate::service::{Call, Method};
use crate::status::Status;
use crate::typed::errors::BoxError;
use crate::typed::exchange::exchange;

/// A stub for tarpc's generated clients: `WorldClient::from(stub(channel, WORLD))`, see [the module](crate::tarpc).
///
/// A call that the server did not execute fails with `RpcError::Send` and the [`Status`] inside. A passed deadline is
/// `RpcError::DeadlineExceeded`, and any other failure a `RpcError::Server`.
pub fn stub<S, Q, R>(channel: S, method: Method) -> ChannelStub<S, Q, R> {
    ChannelStub { channel, method, types: PhantomData }
}

/// A stub for tarpc's generated clients; [`stub`] makes it.
#[derive(Debug)]
pub struct ChannelStub<S, Q, R> {
    channel: S,
    method: Method,
    types: PhantomData<fn(Q) -> R>,
}

impl<S: Clone, Q, R> Clone for ChannelStub<S, Q, R> {
    fn clone(&self) -> Self {
        stub(self.channel.clone(), self.method)
    }
}

impl<S, Q, R> Stub for ChannelStub<S, Q, R>
where
    S: Service<Call, Response = Response<Bytes>> + Clone,
    S::Error: Into<BoxError>,
    Q: RequestName + Serialize,
    R: DeserializeOwned,
{
    type Req = Q;
    type Resp = R;

    // Not an async function: its future would hold `&self`, and be Send only if the channel were Sync.
    fn call(&self, context: Context, request: Q) -> impl Future<Output = Result<R, RpcError>> {
        let (mut channel, method) = (self.channel.clone(), self.method);
        async move {
            let request = encode_call(method, context, &request).map_err(rpc_error)?;
            let reply = exchange(&mut channel, request).await.map_err(rpc_error)?.into_inner();
            decode_reply::<R>(&reply).map_err(rpc_error)?.map_err(RpcError::Server)
        }
    }
}

/// The call of a message.
pub(super) fn encode_call(method: Method, context: Context, message: &impl Serialize) -> Result<Call, Status> {
    let body = encode(&(&context.trace_context, message)).map_err(|status| status.with_executed(Executed::No))?;
    Ok(Call { method, request: Request::from_parts(body, Metadata::default(), Some(context.deadline)) })
}

fn rpc_error(status: Status) -> RpcError {
    match (status.code(), status.executed()) {
        (Code::DeadlineExceeded, _) => RpcError::DeadlineExceeded,
        (_, Executed::No) => RpcError::Send(Box::new(status)),
        _ => RpcError::Server(server_error(&status)),
    }
}
