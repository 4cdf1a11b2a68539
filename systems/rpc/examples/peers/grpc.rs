//! tonic. The messages are bytes as they are, so encoding costs nothing.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::http::{self, Uri};
use tonic::codegen::tokio_stream::wrappers::{TcpListenerStream, UnixListenerStream};
use tonic::server::{NamedService, UnaryService};
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};
use tower::service_fn;
use tower_service::Service;

#[path = "../../src/typed/grpc/codec.rs"]
mod codec;

use super::{Outcome, PeerKind, PeerOptions, PeerTally, concurrent};
use codec::BytesCodec;

pub(super) async fn serve(peer: PeerKind, place: &str) -> Outcome<()> {
    let server = Server::builder().tcp_nodelay(true).add_service(BytesServer);
    if peer == PeerKind::TonicTcp {
        let listener = TcpListener::bind(place).await?;
        println!("listening on {}", listener.local_addr()?);
        server.serve_with_incoming(TcpListenerStream::new(listener)).await?;
    } else {
        let listener = UnixListener::bind(place)?;
        println!("listening on {place}");
        server.serve_with_incoming(UnixListenerStream::new(listener)).await?;
    }
    Ok(())
}

pub(super) async fn measure(peer: PeerKind, place: &str, options: &PeerOptions) -> Outcome<PeerTally> {
    let channel = if peer == PeerKind::TonicTcp {
        Endpoint::new(format!("http://{place}"))?.tcp_nodelay(true).connect().await?
    } else {
        let place = place.to_string();
        let connector = service_fn(move |_: Uri| {
            let place = place.clone();
            async move { UnixStream::connect(place).await.map(TokioIo::new) }
        });
        Endpoint::from_static("http://localhost").connect_with_connector(connector).await?
    };
    let body = Bytes::from(vec![7; options.size]);
    let call = |(channel, body): (Channel, Bytes)| async move {
        let mut grpc = Grpc::new(channel);
        grpc.ready().await?;
        let path = PathAndQuery::from_static("/bench.Bench/Echo");
        let (sent, reply) = (body.len(), grpc.unary(Request::new(body), path, BytesCodec).await?);
        if reply.get_ref().len() == sent { Ok(()) } else { Err("a reply of another length".into()) }
    };
    concurrent::flood((channel, body), call, options).await
}

#[derive(Clone)]
struct BytesServer;

impl NamedService for BytesServer {
    const NAME: &'static str = "bench.Bench";
}

impl Service<http::Request<Body>> for BytesServer {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<http::Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(async move { Ok(tonic::server::Grpc::new(BytesCodec).unary(Repeat, request).await) })
    }
}

/// The handler: replies with the request.
struct Repeat;

impl UnaryService<Bytes> for Repeat {
    type Response = Bytes;
    type Future = Ready<Result<Response<Bytes>, Status>>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        ready(Ok(Response::new(request.into_inner())))
    }
}
