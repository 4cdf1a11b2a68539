//! A channel of tonic for the clients of this crate.

use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use ::tonic::body::Body;
use ::tonic::client::{Grpc, GrpcService};
use ::tonic::codegen::{Body as HttpBody, Service, StdError, http::uri::PathAndQuery};
use ::tonic::{Request as GrpcRequest, Status as GrpcStatus};
use bytes::Bytes;

use super::codec::BytesCodec;
use super::{metadata, status};
use crate::code::{Code, Executed};
use crate::message::Response;
use crate::service::{Answer, AnswerFuture, Call};
use crate::status::Status;

/// A channel of tonic (`tonic::transport::Channel`) as one for generated clients: `GreeterClient::new(GrpcChannel::new(channel))`.
#[derive(Clone, Debug)]
pub struct GrpcChannel<T> {
    grpc: Grpc<T>,
}

impl<T> GrpcChannel<T> {
    /// Calls go to this channel of tonic.
    pub fn new(channel: T) -> GrpcChannel<T> {
        GrpcChannel { grpc: Grpc::new(channel) }
    }
}

impl<T> Service<Call> for GrpcChannel<T>
where
    T: GrpcService<Body> + Clone + Send + 'static,
    T::Error: Into<StdError>,
    T::Future: Send,
    T::ResponseBody: HttpBody<Data = Bytes> + Send + 'static,
    <T::ResponseBody as HttpBody>::Error: Into<StdError>,
{
    type Response = Response<Bytes>;
    type Error = Status;
    type Future = AnswerFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        // The future waits until tonic's channel is ready.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: Call) -> AnswerFuture {
        let grpc = self.grpc.clone();
        AnswerFuture(Box::pin(exchange(grpc, call)))
    }
}

async fn exchange<T>(mut grpc: Grpc<T>, call: Call) -> Answer
where
    T: GrpcService<Body>,
    T::Error: Into<StdError>,
    T::ResponseBody: HttpBody<Data = Bytes> + Send + 'static,
    <T::ResponseBody as HttpBody>::Error: Into<StdError>,
{
    let method = call.method;
    let (request, deadline) = grpc_request(call).map_err(|status| status.with_executed(Executed::No))?;
    let path = PathAndQuery::try_from(method.path()).map_err(|error| {
        Status::invalid_argument(format!("{:?} is no path: {error}", method.path())).with_executed(Executed::No)
    })?;
    let ready = grpc.ready().await.map_err(|error| GrpcStatus::from_error(error.into()));
    ready.map_err(|error| status::from_grpc(&error).with_executed(Executed::No))?;
    let done =
        grpc.unary(request, path, BytesCodec).await.map_err(|error| in_time(status::from_grpc(&error), deadline));
    let (headers, message, _) = done?.into_parts();
    Ok(Response::from_parts(message, metadata::from_grpc(&headers)))
}

/// The request for tonic, and the deadline.
fn grpc_request(call: Call) -> Result<(GrpcRequest<Bytes>, Option<Instant>), Status> {
    let (message, metadata, deadline) = call.request.into_parts();
    let mut request = GrpcRequest::new(message);
    *request.metadata_mut() = metadata::to_grpc(&metadata)?;
    if let Some(deadline) = deadline {
        let left = deadline.saturating_duration_since(Instant::now());
        if left == Duration::ZERO {
            return Err(Status::deadline_exceeded("the deadline passed before the call"));
        }
        request.set_timeout(left);
    }
    Ok((request, deadline))
}

/// tonic's channel says CANCELLED of a call whose time is over.
fn in_time(status: Status, deadline: Option<Instant>) -> Status {
    let is_late = deadline.is_some_and(|deadline| deadline <= Instant::now());
    if is_late && status.code() == Code::Cancelled {
        return Status::deadline_exceeded(status.message()).with_executed(status.executed());
    }
    status
}
