//! The same handlers and clients over gRPC, and beside tonic's own client.

mod support;

use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper_util::rt::TokioIo;
use longarm_rpc::codegen::Bytes;
use longarm_rpc::grpc::{GrpcChannel, routes};
use longarm_rpc::{Answer, Code, Executed, Method, Methods, Request, Router, RunOn, unary};
use longarm_rpc_examples::greeter::greeter_client::GreeterClient;
use longarm_rpc_examples::greeter::{HelloReply, HelloRequest};
use support::{Doorman, request, router};
use tonic::transport::{Channel, Endpoint, Server};

/// A channel to a server with these services, through memory.
async fn connect(router: Router) -> Channel {
    let (client_end, server_end) = tokio::io::duplex(65536);
    let server = Server::builder().add_routes(routes(router));
    // An incoming stream that ends would end the server.
    let ends = tokio_stream::StreamExt::chain(
        tokio_stream::once(Ok::<_, std::io::Error>(server_end)),
        tokio_stream::pending(),
    );
    tokio::spawn(server.serve_with_incoming(ends));
    let mut client_end = Some(client_end);
    let connector = tower::service_fn(move |_| {
        let end = client_end.take().map(TokioIo::new);
        async move { end.ok_or_else(|| std::io::Error::other("connected already")) }
    });
    Endpoint::from_static("http://memory").connect_with_connector(connector).await.unwrap()
}

#[tokio::test]
async fn a_generated_client_calls_over_grpc() {
    let doorman = Arc::new(Doorman::default());
    let mut client = GreeterClient::new(GrpcChannel::new(connect(router(&doorman)).await));
    let mut call = Request::new(request("Ada"));
    call.metadata_mut().insert("language", "de");
    call.metadata_mut().insert("token-bin", vec![0, 255]);
    call.set_timeout(Duration::from_secs(3600));
    let reply = client.say_hello(call).await.unwrap();
    assert_eq!(reply.get_ref().greeting, "Hello Ada!");
    assert_eq!(reply.metadata().get("language"), Some(&b"de"[..]));
    assert_eq!(reply.metadata().get("token-bin"), Some(&[0, 255][..]));
    assert_eq!(reply.metadata().iter().count(), 2, "{:?}", reply.metadata());
    let left = doorman.deadline.lock().unwrap().unwrap().saturating_duration_since(Instant::now());
    assert!(left > Duration::from_secs(3000) && left <= Duration::from_secs(3600), "{left:?}");
    assert_eq!(client.count(()).await.unwrap().into_inner().greetings, 1);
}

#[tokio::test]
async fn a_status_says_whether_the_handler_ran() {
    let channel = GrpcChannel::new(connect(router(&Arc::new(Doorman::default()))).await);
    let status = GreeterClient::new(channel.clone()).say_hello(request("")).await.unwrap_err();
    assert_eq!((status.code(), status.executed()), (Code::InvalidArgument, Executed::Yes));
    assert_eq!(status.message(), "nobody has this name");
    let sing = Method::new("/greeter.Greeter/Sing");
    let status = unary::<_, _, ()>(&mut channel.clone(), sing, Request::new(())).await.unwrap_err();
    assert_eq!((status.code(), status.executed()), (Code::Unimplemented, Executed::No));
    let no_path = Method::new("not a path");
    let status = unary::<_, _, ()>(&mut channel.clone(), no_path, Request::new(())).await.unwrap_err();
    assert_eq!((status.code(), status.executed()), (Code::InvalidArgument, Executed::No));
    let mut call = Request::new(request("Ada"));
    call.metadata_mut().insert("two words", "x");
    let status = GreeterClient::new(channel).say_hello(call).await.unwrap_err();
    assert_eq!((status.code(), status.executed()), (Code::InvalidArgument, Executed::No));
}

#[tokio::test]
async fn a_deadline_ends_the_call() {
    const WAIT: Method = Method::new("/wait.Wait/Forever");
    let mut router = Router::default();
    router.add(Methods::new("wait.Wait").asynchronous(WAIT, RunOn::Executor, |_| pending::<Answer>())).unwrap();
    let mut channel = GrpcChannel::new(connect(router).await);
    let mut call = Request::new(());
    call.set_timeout(Duration::from_millis(5));
    let status = unary::<_, _, ()>(&mut channel, WAIT, call).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
    let mut call = Request::new(());
    call.set_timeout(Duration::ZERO);
    let status = unary::<_, _, ()>(&mut channel, WAIT, call).await.unwrap_err();
    assert_eq!((status.code(), status.executed()), (Code::DeadlineExceeded, Executed::No));
}

#[tokio::test]
async fn a_call_without_a_connection_can_be_repeated() {
    let connector =
        tower::service_fn(|_| async { Err::<TokioIo<tokio::io::DuplexStream>, _>(std::io::Error::other("no")) });
    let channel = Endpoint::from_static("http://nowhere").connect_with_connector_lazy(connector);
    let status = GreeterClient::new(GrpcChannel::new(channel)).say_hello(request("Ada")).await.unwrap_err();
    assert_eq!((status.code(), status.can_repeat()), (Code::Unavailable, true), "{status}");
}

#[tokio::test]
async fn a_client_of_tonic_calls_our_server() {
    let mut grpc = tonic::client::Grpc::new(connect(router(&Arc::new(Doorman::default()))).await);
    let codec = || tonic_prost::ProstCodec::<HelloRequest, HelloReply>::default();
    let path = || tonic::codegen::http::uri::PathAndQuery::from_static("/greeter.Greeter/SayHello");
    grpc.ready().await.unwrap();
    let reply = grpc.unary(tonic::Request::new(request("Ada")), path(), codec()).await.unwrap();
    assert_eq!(reply.into_inner().greeting, "Hello Ada!");
    grpc.ready().await.unwrap();
    let status = grpc.unary(tonic::Request::new(request("")), path(), codec()).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (tonic::Code::InvalidArgument, "nobody has this name"));
}

#[tokio::test]
async fn an_empty_and_a_long_message_arrive_whole() {
    const ECHO: Method = Method::new("/echo.Echo/Say");
    let mut router = Router::default();
    let echo = |request: &[u8], reply: &mut Vec<u8>| {
        reply.extend_from_slice(request);
        Ok(())
    };
    router.add(Methods::new("echo.Echo").direct(ECHO, echo)).unwrap();
    let mut channel = GrpcChannel::new(connect(router).await);
    for length in [0, 1, 1_000_000] {
        let call = longarm_rpc::Call { method: ECHO, request: Request::new(Bytes::from(vec![7; length])) };
        let reply = tower::ServiceExt::ready(&mut channel).await.unwrap();
        let reply = longarm_rpc::codegen::Service::call(reply, call).await.unwrap();
        assert_eq!(reply.into_inner(), vec![7; length]);
    }
}

#[tokio::test]
async fn a_handler_that_blocks_has_a_thread_of_its_own() {
    const BLOCK: Method = Method::new("/gate.Gate/Block");
    const OPEN: Method = Method::new("/gate.Gate/Open");
    let (opener, gate) = std::sync::mpsc::channel();
    let gate = std::sync::Mutex::new(gate);
    let methods = Methods::new("gate.Gate")
        .blocking(BLOCK, move |_| {
            gate.lock().unwrap().recv().unwrap();
            Ok(longarm_rpc::Response::new(Bytes::new()))
        })
        .direct(OPEN, move |_, _| opener.send(()).map_err(|_| longarm_rpc::Status::internal("nobody waits")));
    let mut router = Router::default();
    router.add(methods).unwrap();
    let channel = GrpcChannel::new(connect(router).await);
    let mut other = channel.clone();
    let blocked = tokio::spawn(async move { unary::<_, _, ()>(&mut other, BLOCK, Request::new(())).await });
    tokio::task::yield_now().await;
    unary::<_, _, ()>(&mut channel.clone(), OPEN, Request::new(())).await.unwrap();
    blocked.await.unwrap().unwrap();
}
