//! Services of tarpc over calls, in both ways of its clients.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use longarm_rpc::codegen::Bytes;
use longarm_rpc::tarpc::{client, serve, stub};
use longarm_rpc::{Call, Code, Executed, Method, Request, Router, RunOn};
use tarpc::client::{Config, RpcError};
use tarpc::context::{self, Context};
use tarpc::server::Serve;
use tokio::sync::Notify;

#[tarpc::service]
trait World {
    async fn hello(name: String) -> String;
    /// The milliseconds until the deadline, and the trace.
    async fn context() -> (u64, u128);
    async fn forever();
}

#[tarpc::service]
trait Sums {
    async fn add(x: i64, y: i64) -> i64;
}

const WORLD: Method = Method::new("/tarpc.World/Call");
const SUMS: Method = Method::new("/tarpc.Sums/Call");

#[derive(Clone, Default)]
struct Polite {
    started: Arc<Notify>,
    dropped: Arc<Notify>,
    running: Arc<AtomicUsize>,
}

/// Tells when a handler's future is dropped.
struct Running(Polite);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
        self.0.dropped.notify_one();
    }
}

impl World for Polite {
    async fn hello(self, _: Context, name: String) -> String {
        format!("Hello {name}!")
    }

    async fn context(self, context: Context) -> (u64, u128) {
        let left = context.deadline.saturating_duration_since(Instant::now());
        (left.as_millis() as u64, context.trace_context.trace_id.into())
    }

    async fn forever(self, _: Context) {
        self.running.fetch_add(1, Ordering::Relaxed);
        let _running = Running(self.clone());
        self.started.notify_one();
        std::future::pending::<()>().await;
    }
}

impl Sums for Polite {
    async fn add(self, _: Context, x: i64, y: i64) -> i64 {
        x + y
    }
}

fn router(polite: &Polite) -> Router {
    let mut router = Router::default();
    let (world, sums) = (polite.clone(), polite.clone());
    let world = move |context, request| World::serve(world.clone()).serve(context, request);
    let sums = move |context, request| Sums::serve(sums.clone()).serve(context, request);
    router.add(serve(WORLD, RunOn::Executor, world)).unwrap();
    router.add(serve(SUMS, RunOn::Executor, sums)).unwrap();
    router
}

/// A context with this many seconds.
fn within(seconds: u64) -> Context {
    let mut context = context::current();
    context.deadline = Instant::now() + Duration::from_secs(seconds);
    context
}

#[tokio::test]
async fn a_stub_calls_each_service_of_a_server() {
    let router = router(&Polite::default());
    let world = WorldClient::from(stub(router.clone(), WORLD));
    assert_eq!(world.hello(context::current(), "Ada".into()).await.unwrap(), "Hello Ada!");
    let sums = SumsClient::from(stub(router, SUMS));
    assert_eq!(sums.add(context::current(), 40, 2).await.unwrap(), 42);
}

#[tokio::test]
async fn a_transport_carries_many_calls_at_a_time() {
    let world = WorldClient::new(Config::default(), client(router(&Polite::default()), WORLD)).spawn();
    let calls: Vec<_> = (0..50)
        .map(|at| {
            let world = world.clone();
            tokio::spawn(async move { world.hello(context::current(), at.to_string()).await })
        })
        .collect();
    for (at, call) in calls.into_iter().enumerate() {
        assert_eq!(call.await.unwrap().unwrap(), format!("Hello {at}!"));
    }
}

#[tokio::test]
async fn deadline_and_trace_travel() {
    let router = router(&Polite::default());
    let mut context = within(3600);
    context.trace_context.trace_id = 7_u128.into();
    let (left_ms, trace) = WorldClient::from(stub(router.clone(), WORLD)).context(context).await.unwrap();
    assert!((3_000_000..=3_600_000).contains(&left_ms), "{left_ms}");
    assert_eq!(trace, 7);
    let world = WorldClient::new(Config::default(), client(router, WORLD)).spawn();
    let (left_ms, trace) = world.context(context).await.unwrap();
    assert!((3_000_000..=3_600_000).contains(&left_ms), "{left_ms}");
    assert_eq!(trace, 7);
}

#[tokio::test]
async fn dropping_a_call_drops_its_handler() {
    let polite = Polite::default();
    let stub = WorldClient::from(stub(router(&polite), WORLD));
    let call = tokio::spawn(async move { stub.forever(within(3600)).await });
    polite.started.notified().await;
    call.abort();
    polite.dropped.notified().await;
    assert_eq!(polite.running.load(Ordering::Relaxed), 0);

    let world = WorldClient::new(Config::default(), client(router(&polite), WORLD)).spawn();
    let other = world.clone();
    let call = tokio::spawn(async move { other.forever(within(3600)).await });
    polite.started.notified().await;
    call.abort();
    polite.dropped.notified().await;
    assert_eq!(polite.running.load(Ordering::Relaxed), 0);
    assert_eq!(world.hello(context::current(), "Ada".into()).await.unwrap(), "Hello Ada!");
}

#[tokio::test]
async fn a_refused_call_can_be_told_from_an_executed_one() {
    let world = WorldClient::from(stub(Router::default(), WORLD));
    let error = world.hello(context::current(), "Ada".into()).await.unwrap_err();
    let RpcError::Send(source) = error else { panic!("{error:?}") };
    assert!(source.downcast_ref::<longarm_rpc::Status>().unwrap().can_repeat());

    let world = WorldClient::new(Config::default(), client(Router::default(), WORLD)).spawn();
    let error = world.hello(context::current(), "Ada".into()).await.unwrap_err();
    let RpcError::Server(error) = error else { panic!("{error:?}") };
    assert_eq!(error.kind, ErrorKind::Unsupported);
    assert!(error.detail.contains("did not execute"), "{}", error.detail);
}

#[tokio::test]
async fn an_error_of_the_server_keeps_its_kind() {
    let mut router = Router::default();
    let busy = |_, _: WorldRequest| async {
        Err::<WorldResponse, _>(tarpc::ServerError::new(ErrorKind::AlreadyExists, "busy".into()))
    };
    router.add(serve(WORLD, RunOn::Executor, busy)).unwrap();
    let world = WorldClient::from(stub(router, WORLD));
    let error = world.hello(context::current(), "Ada".into()).await.unwrap_err();
    let RpcError::Server(error) = error else { panic!("{error:?}") };
    assert_eq!((error.kind, error.detail.as_str()), (ErrorKind::AlreadyExists, "busy"));
}

#[tokio::test]
async fn bytes_that_are_no_message_reach_no_handler() {
    let router = router(&Polite::default());
    for body in [&[][..], &[0xff; 64], &[0; 64]] {
        let request = Request::new(Bytes::copy_from_slice(body));
        let status = router.route(Call { method: WORLD, request }).await.unwrap_err();
        assert_eq!((status.code(), status.executed()), (Code::Internal, Executed::No));
    }
}
