//! The services of a router for clients of gRPC.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use ::tonic::body::Body;
use ::tonic::codegen::{Body as HttpBody, BoxFuture as GrpcFuture, Service, StdError, http};
use ::tonic::server::{Grpc, UnaryService};
use ::tonic::service::Routes;
use ::tonic::{Request as GrpcRequest, Response as GrpcResponse, Status as GrpcStatus};
use bytes::Bytes;
use tokio::runtime::Handle;

use super::codec::BytesCodec;
use super::{metadata, status};
use crate::message::Request;
use crate::service::{Answer, BoxFuture, Call, Handler, Method, Router, RunOn, no_such_method, number_of};
use crate::status::Status;

/// The services as routes of tonic's server: `Server::builder().add_routes(routes(router))`. Services of tonic's own, those with
/// streams for example, can be added to the routes. Handlers run in tonic's tasks, those of [`RunOn::Pool`] on tokio's threads for
/// blocking code.
pub fn routes(router: Router) -> Routes {
    let methods = GrpcMethods { router: Arc::new(router) };
    Routes::from(Routes::default().into_axum_router().fallback_service(methods))
}

/// The services of a router as one service of HTTP; [`routes`] makes it.
#[derive(Clone, Debug)]
pub struct GrpcMethods {
    router: Arc<Router>,
}

impl<B> Service<http::Request<B>> for GrpcMethods
where
    B: HttpBody + Send + 'static,
    B::Error: Into<StdError> + Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = GrpcFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let found = self.router.find(number_of(request.uri().path()));
        let found = found.filter(|(method, _)| method.path() == request.uri().path());
        let handler = found.map(|(method, handler)| {
            let blocks = matches!(handler, Handler::Future(RunOn::Pool, _));
            GrpcHandler { router: Arc::clone(&self.router), method, blocks }
        });
        Box::pin(async move {
            Ok(match handler {
                Some(handler) => Grpc::new(BytesCodec).unary(handler, request).await,
                None => status::to_grpc(&no_such_method(request.uri().path())).into_http(),
            })
        })
    }
}

/// One method.
struct GrpcHandler {
    router: Arc<Router>,
    method: Method,
    blocks: bool,
}

impl UnaryService<Bytes> for GrpcHandler {
    type Response = Bytes;
    type Future = GrpcFuture<GrpcResponse<Bytes>, GrpcStatus>;

    fn call(&mut self, request: GrpcRequest<Bytes>) -> Self::Future {
        let (headers, _, message) = request.into_parts();
        let request = Request::from_parts(message, metadata::from_grpc(&headers), metadata::deadline(&headers));
        let answer = run(self.router.route(Call { method: self.method, request }), self.blocks);
        Box::pin(async move {
            let (message, metadata) = answer.await.map_err(|status| status::to_grpc(&status))?.into_parts();
            let mut response = GrpcResponse::new(message);
            *response.metadata_mut() = metadata::to_grpc(&metadata).map_err(|status| status::to_grpc(&status))?;
            Ok(response)
        })
    }
}

/// Runs the handler, on a thread of its own if it blocks.
async fn run(answer: BoxFuture<Answer>, blocks: bool) -> Answer {
    if !blocks {
        return answer.await;
    }
    let runtime = Handle::current();
    let ended = tokio::task::spawn_blocking(move || runtime.block_on(answer)).await;
    ended.unwrap_or_else(|error| Err(Status::internal(format!("the handler ended: {error}"))))
}
