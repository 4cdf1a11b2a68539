//! tower's layers around the channel of a generated client.

mod support;

use std::future::{pending, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use longarm_rpc::codegen::{Bytes, Service};
use longarm_rpc::{
    Answer, BoxError, BoxFuture, Call, Code, Executed, Method, Methods, RepeatUnexecuted, Request, Response, Router,
    RunOn, Status, unary,
};
use longarm_rpc_examples::greeter::greeter_client::GreeterClient;
use support::{Doorman, request, router};
use tokio::time::sleep;
use tower::balance::p2c::Balance;
use tower::discover::ServiceList;
use tower::load::{CompleteOnResponse, PendingRequestsDiscover};
use tower::{ServiceBuilder, ServiceExt};

/// The greeter's only method of these tests.
const HELLO: Method = Method::new("/greeter.Greeter/SayHello");

/// A router whose greeter does as told, and counts.
fn greeter<R>(handler: impl Fn() -> R + Send + Sync + 'static) -> Router
where
    R: Future<Output = Answer> + Send + 'static,
{
    let mut router = Router::default();
    router.add(Methods::new("greeter.Greeter").asynchronous(HELLO, RunOn::Poller, move |_| handler())).unwrap();
    router
}

fn hello() -> Answer {
    Ok(Response::new(Bytes::new()))
}

#[tokio::test(start_paused = true)]
async fn a_timeout_is_a_passed_deadline() {
    let channel = ServiceBuilder::new().timeout(Duration::from_millis(5)).service(greeter(pending));
    let status = GreeterClient::new(channel).say_hello(request("Ada")).await.unwrap_err();
    assert_eq!((status.code(), status.executed()), (Code::DeadlineExceeded, Executed::Unknown));
}

#[tokio::test(start_paused = true)]
async fn a_concurrency_limit_holds() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let seen = Arc::clone(&most);
    let router = greeter(move || {
        let (now, most) = (Arc::clone(&now), Arc::clone(&most));
        async move {
            most.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            sleep(Duration::from_millis(1)).await;
            now.fetch_sub(1, Ordering::Relaxed);
            hello()
        }
    });
    let client = GreeterClient::new(ServiceBuilder::new().concurrency_limit(2).service(router));
    let calls: Vec<_> = (0..6)
        .map(|_| {
            let mut client = client.clone();
            tokio::spawn(async move { client.say_hello(request("Ada")).await })
        })
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(seen.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn more_calls_than_a_limit_can_be_shed() {
    let channel = ServiceBuilder::new().load_shed().concurrency_limit(1).service(greeter(pending));
    let client = GreeterClient::new(channel);
    let mut first = client.clone();
    let waiting = tokio::spawn(async move { first.say_hello(request("Ada")).await });
    tokio::task::yield_now().await;
    let status = client.clone().say_hello(request("Bob")).await.unwrap_err();
    assert_eq!((status.code(), status.executed()), (Code::ResourceExhausted, Executed::No));
    waiting.abort();
}

/// A router that fails so many times with this status, then answers; and the count of its calls.
fn flaky(failures: usize, status: Status) -> (Router, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let router = greeter(move || {
        let fails = count.fetch_add(1, Ordering::Relaxed) < failures;
        ready(if fails { Err(status.clone()) } else { hello() })
    });
    (router, calls)
}

#[tokio::test(start_paused = true)]
async fn only_calls_that_were_not_executed_are_repeated() {
    let unavailable = |executed| Status::unavailable("no server").with_executed(executed);
    let cases = [
        (unavailable(Executed::No), 2, Ok(()), 3),
        (unavailable(Executed::No), 9, Err(Code::Unavailable), 4),
        (unavailable(Executed::Yes), 2, Err(Code::Unavailable), 1),
        (unavailable(Executed::Unknown), 2, Err(Code::Unavailable), 1),
        (Status::unimplemented("never").with_executed(Executed::No), 2, Err(Code::Unimplemented), 1),
    ];
    for (status, failures, expected, attempts) in cases {
        let (router, calls) = flaky(failures, status.clone());
        let channel = ServiceBuilder::new().retry(RepeatUnexecuted::at_most(3)).service(router);
        let outcome = GreeterClient::new(channel).say_hello(request("Ada")).await;
        assert_eq!(outcome.map(drop).map_err(|status| status.code()), expected, "{status}");
        assert_eq!(calls.load(Ordering::Relaxed), attempts, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_repeated_after_the_deadline() {
    let (router, calls) = flaky(9, Status::unavailable("no server").with_executed(Executed::No));
    let mut call = Request::new(request("Ada"));
    call.set_timeout(Duration::ZERO);
    let channel = ServiceBuilder::new().retry(RepeatUnexecuted::at_most(3)).service(router);
    assert!(GreeterClient::new(channel).say_hello(call).await.is_err());
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_buffer_serves_many_tasks_and_layers_go_around_it() {
    let doorman = Arc::new(Doorman::default());
    let channel = ServiceBuilder::new()
        .retry(RepeatUnexecuted::at_most(3))
        .timeout(Duration::from_secs(1))
        .buffer(16)
        .concurrency_limit(4)
        .service(router(&doorman));
    let client = GreeterClient::new(channel);
    let calls: Vec<_> = (0..20)
        .map(|at| {
            let (mut client, request) = (client.clone(), request(&format!("guest {at}")));
            tokio::spawn(async move { client.say_hello(request).await })
        })
        .collect();
    for (at, call) in calls.into_iter().enumerate() {
        assert_eq!(call.await.unwrap().unwrap().into_inner().greeting, format!("Hello guest {at}!"));
    }
    let status = client.clone().say_hello(request("")).await.unwrap_err();
    assert_eq!((status.code(), status.executed()), (Code::InvalidArgument, Executed::Yes));
}

/// A channel whose connection is gone.
#[derive(Clone)]
struct Dead;

impl Service<Call> for Dead {
    type Response = Response<Bytes>;
    type Error = Status;
    type Future = BoxFuture<Answer>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Err(Status::unavailable("the connection has ended")))
    }

    fn call(&mut self, _: Call) -> BoxFuture<Answer> {
        panic!("called without being ready")
    }
}

#[tokio::test]
async fn calls_are_balanced_over_the_living() {
    let doormen = [Arc::new(Doorman::default()), Arc::new(Doorman::default())];
    let living = doormen.iter().map(|doorman| router(doorman).boxed_clone());
    let channels: Vec<_> = living.chain([Dead.boxed_clone()]).collect();
    let channels = PendingRequestsDiscover::new(ServiceList::new(channels), CompleteOnResponse::default());
    let mut client = GreeterClient::new(Balance::new(channels));
    for _ in 0..100 {
        client.say_hello(request("Ada")).await.unwrap();
    }
    let greetings = doormen.map(|doorman| doorman.greetings.load(Ordering::Relaxed));
    assert_eq!(greetings[0] + greetings[1], 100);
    assert!(greetings.iter().all(|&count| count > 0), "{greetings:?}");
}

#[tokio::test]
async fn a_channel_that_is_not_ready_executed_nothing() {
    let status = unary::<_, _, u64>(&mut Dead, HELLO, Request::new(1_u64)).await.unwrap_err();
    assert_eq!((status.code(), status.executed()), (Code::Unavailable, Executed::No));
    let channel = ServiceBuilder::new().layer_fn(|inner| inner).map_err(BoxError::from).service(Dead);
    let status = GreeterClient::new(channel).say_hello(request("Ada")).await.unwrap_err();
    assert!(status.can_repeat());
}
