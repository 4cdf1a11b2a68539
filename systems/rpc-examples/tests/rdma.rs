//! Typed calls over RDMA, each test with a hub and a network namespace of its own.

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use longarm_rpc::reflection::{ListServicesReply, ListServicesRequest, ServiceCatalog, reflection_client};
use longarm_rpc::{
    Channel, Client, ClientOptions, Code, Executed, JsonClient, Method, RepeatUnexecuted, Request, RunOn, Server,
};
use longarm_rpc_examples::greeter::greeter_client::{COUNT, GreeterClient, SAY_HELLO};
use longarm_rpc_examples::greeter::greeter_server::GreeterServer;
use longarm_rpc_examples::greeter::{CountReply, HelloReply};
use support::{Doorman, request, router};
use tarpc::context::{self, Context};
use tarpc::server::Serve;
use tower::ServiceBuilder;
use tower::balance::p2c::Balance;
use tower::discover::ServiceList;
use tower::load::{CompleteOnResponse, PendingRequestsDiscover};
use tower::util::BoxCloneService;

const TIMEOUT: Duration = Duration::from_secs(20);

/// Runs `body` with a hub and a network namespace of its own. To be called from the test function of that name itself.
fn alone(test: &str, body: impl FnOnce()) {
    match testkit::role() {
        Some(_) => body(),
        None => hub::testing::passes_with_hub(&format!("typed-{test}"), testkit::run_again(test, "body")),
    }
}

/// A server with the doorman's service, its handlers on these threads, and with reflection.
fn server(doorman: &Arc<Doorman>, run_on: RunOn) -> Server {
    let catalog = ServiceCatalog::of(router(doorman).services());
    let greeter = GreeterServer::from_arc(Arc::clone(doorman)).run_on(run_on);
    let builder = Server::builder().add_service(greeter).unwrap().add_service(catalog).unwrap();
    builder.bind("127.0.0.1:0").unwrap()
}

fn polling(server: &Server) -> Client {
    Client::connect(server.local_addr(), &ClientOptions::default()).unwrap()
}

/// Runs a future on threads of tokio.
fn block_on(future: impl Future) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    runtime.block_on(future);
}

async fn connect(server: &Server) -> Channel {
    Channel::connect(server.local_addr(), ClientOptions::default()).await.unwrap()
}

#[test]
fn a_polling_client_calls_generated_handlers_on_any_thread() {
    alone("a_polling_client_calls_generated_handlers_on_any_thread", || {
        for run_on in [RunOn::Poller, RunOn::Executor, RunOn::Pool] {
            let server = server(&Arc::new(Doorman::default()), run_on);
            let mut client = polling(&server);
            let reply: HelloReply = client.unary(SAY_HELLO, &request("Ada"), TIMEOUT).unwrap();
            assert_eq!(reply.greeting, "Hello Ada!");
            let long = "A".repeat(100_000);
            let reply: HelloReply = client.unary(SAY_HELLO, &request(&long), TIMEOUT).unwrap();
            assert_eq!(reply.greeting, format!("Hello {long}!"));
            let status = client.unary::<_, HelloReply>(SAY_HELLO, &request(""), TIMEOUT).unwrap_err();
            assert_eq!((status.code(), status.executed()), (Code::InvalidArgument, Executed::Yes), "{status}");
            assert_eq!(status.message(), "nobody has this name");
            assert_eq!(client.unary::<_, CountReply>(COUNT, &(), TIMEOUT).unwrap().greetings, 2);
        }
    });
}

#[test]
fn bytes_that_are_no_message_are_not_executed() {
    alone("bytes_that_are_no_message_are_not_executed", || {
        let doorman = Arc::new(Doorman::default());
        let server = server(&doorman, RunOn::Poller);
        let status = polling(&server).call(SAY_HELLO, &[0xff], TIMEOUT).unwrap_err();
        assert_eq!((status.code(), status.executed()), (Code::Internal, Executed::No), "{status}");
    });
}

#[test]
fn a_server_lists_its_services() {
    alone("a_server_lists_its_services", || {
        let server = server(&Arc::new(Doorman::default()), RunOn::Poller);
        let method = reflection_client::LIST_SERVICES;
        let reply: ListServicesReply = polling(&server).unary(method, &ListServicesRequest {}, TIMEOUT).unwrap();
        let names: Vec<_> = reply.services.iter().map(|service| service.name.as_str()).collect();
        assert_eq!(names, ["greeter.Greeter", "longarm.rpc.Reflection"]);
    });
}

#[test]
fn a_channel_carries_messages_metadata_and_deadlines() {
    alone("a_channel_carries_messages_metadata_and_deadlines", || {
        let doorman = Arc::new(Doorman::default());
        let server = server(&doorman, RunOn::Poller);
        block_on(async {
            let mut client = GreeterClient::new(connect(&server).await);
            let mut call = Request::new(request("Ada"));
            call.metadata_mut().insert("language", "de");
            call.set_timeout(Duration::from_secs(3600));
            let reply = client.say_hello(call).await.unwrap();
            assert_eq!(reply.get_ref().greeting, "Hello Ada!");
            assert_eq!(reply.metadata().get("language"), Some(&b"de"[..]));
            let left = doorman.deadline.lock().unwrap().unwrap().saturating_duration_since(Instant::now());
            assert!(left > Duration::from_secs(3000) && left <= Duration::from_secs(3600), "{left:?}");
            let status = client.say_hello(request("")).await.unwrap_err();
            assert_eq!((status.code(), status.executed()), (Code::InvalidArgument, Executed::Yes), "{status}");
        });
    });
}

#[test]
fn layers_of_tower_go_around_a_channel() {
    alone("layers_of_tower_go_around_a_channel", || {
        let server = server(&Arc::new(Doorman::default()), RunOn::Poller);
        block_on(async {
            let channel = ServiceBuilder::new()
                .retry(RepeatUnexecuted::at_most(3))
                .timeout(TIMEOUT)
                .buffer(64)
                .concurrency_limit(4)
                .service(connect(&server).await);
            let client = GreeterClient::new(channel);
            let calls: Vec<_> = (0..100)
                .map(|at| {
                    let (mut client, request) = (client.clone(), request(&format!("guest {at}")));
                    tokio::spawn(async move { client.say_hello(request).await })
                })
                .collect();
            for (at, call) in calls.into_iter().enumerate() {
                assert_eq!(call.await.unwrap().unwrap().into_inner().greeting, format!("Hello guest {at}!"));
            }
        });
    });
}

#[test]
fn json_goes_through_a_channel() {
    alone("json_goes_through_a_channel", || {
        let server = server(&Arc::new(Doorman::default()), RunOn::Executor);
        block_on(async {
            let mut client = JsonClient::new(connect(&server).await);
            let reply = client.call("greeter.Greeter/SayHello", Request::new(r#"{"name": "Ada"}"#)).await.unwrap();
            assert_eq!(reply.get_ref(), "{\n  \"greeting\": \"Hello Ada!\"\n}");
        });
    });
}

#[tarpc::service]
trait World {
    async fn hello(name: String) -> String;
}

#[derive(Clone)]
struct Polite;

impl World for Polite {
    async fn hello(self, _: Context, name: String) -> String {
        format!("Hello {name}!")
    }
}

#[test]
fn tarpc_goes_through_a_channel() {
    const WORLD: Method = Method::new("/tarpc.World/Call");
    alone("tarpc_goes_through_a_channel", || {
        let serve = |context, request| Polite.serve().serve(context, request);
        let methods = longarm_rpc::tarpc::serve(WORLD, RunOn::Poller, serve);
        let server = Server::builder().add_service(methods).unwrap().bind("127.0.0.1:0").unwrap();
        block_on(async {
            let channel = connect(&server).await;
            let stub = WorldClient::from(longarm_rpc::tarpc::stub(channel.clone(), WORLD));
            assert_eq!(stub.hello(context::current(), "Ada".into()).await.unwrap(), "Hello Ada!");
            let transport = longarm_rpc::tarpc::client(channel, WORLD);
            let world = WorldClient::new(tarpc::client::Config::default(), transport).spawn();
            assert_eq!(world.hello(context::current(), "Bob".into()).await.unwrap(), "Hello Bob!");
        });
    });
}

/// Calls until as many as these have succeeded; returns how many failed. None may fail of which the server says that it
/// was not executed: the others would have taken it.
async fn call_until<T>(client: &mut GreeterClient<T>, successes: u32) -> u32
where
    T: tower::Service<longarm_rpc::Call, Response = longarm_rpc::Response<bytes::Bytes>>,
    T::Error: Into<longarm_rpc::BoxError>,
{
    let (mut ok, mut failed) = (0, 0);
    while ok < successes {
        match client.say_hello(request("Ada")).await {
            Ok(_) => ok += 1,
            Err(status) => {
                assert_eq!((status.code(), status.executed()), (Code::Unavailable, Executed::Unknown), "{status}");
                failed += 1;
            }
        }
    }
    failed
}

#[test]
fn a_balancer_leaves_out_a_server_that_is_gone_until_it_is_back() {
    alone("a_balancer_leaves_out_a_server_that_is_gone_until_it_is_back", || {
        block_on(async {
            let doormen: [Arc<Doorman>; 2] = Default::default();
            let [first, second] = [0, 1].map(|at| server(&doormen[at], RunOn::Poller));
            let greetings = |at: usize| doormen[at].greetings.load(std::sync::atomic::Ordering::Relaxed);
            let address = first.local_addr();
            let channels = [connect(&first).await.when_connected(), connect(&second).await.when_connected()];
            let channels = PendingRequestsDiscover::new(ServiceList::new(channels), CompleteOnResponse::default());
            let balanced = ServiceBuilder::new().timeout(TIMEOUT).buffer(16).service(Balance::new(channels));
            let mut client = GreeterClient::new(BoxCloneService::new(balanced));
            assert_eq!(call_until(&mut client, 100).await, 0);
            assert!(greetings(0) > 0 && greetings(1) > 0);
            drop(first);
            let (gone, mut other) = (greetings(0), client.clone());
            // The calls through a buffer can be spawned.
            let failed = tokio::spawn(async move { call_until(&mut other, 200).await }).await.unwrap();
            assert!(failed <= 1, "{failed} calls failed: one can have been on its way");
            assert_eq!(greetings(0), gone);
            let greeter = GreeterServer::from_arc(Arc::clone(&doormen[0]));
            let again = || Server::builder().add_service(greeter.clone()).unwrap().bind(address).ok();
            let _first = testkit::wait_for("the address is free", again);
            let back = Instant::now();
            while greetings(0) == gone {
                assert!(back.elapsed() < TIMEOUT, "the server that is back gets no calls");
                call_until(&mut client, 10).await;
            }
        });
    });
}
