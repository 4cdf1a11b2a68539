//! Typed calls over RDMA, each test with a hub and a network namespace of its own.

mod support;

use std::sync::Arc;
use std::time::Duration;

use longarm_rpc::reflection::{ListServicesReply, ListServicesRequest, ServiceCatalog, reflection_client};
use longarm_rpc::{Client, ClientOptions, Code, Executed, RunOn, Server, Way};
use longarm_rpc_examples::greeter::greeter_client::{COUNT, SAY_HELLO};
use longarm_rpc_examples::greeter::greeter_server::GreeterServer;
use longarm_rpc_examples::greeter::{CountReply, HelloReply};
use support::{Doorman, request, router};

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

fn polling(server: &Server, way: Option<Way>) -> Client {
    let options = ClientOptions { way, ..ClientOptions::default() };
    Client::connect(server.local_addr(), &options).unwrap()
}

#[test]
fn a_polling_client_calls_generated_handlers_on_any_thread() {
    alone("a_polling_client_calls_generated_handlers_on_any_thread", || {
        for run_on in [RunOn::Poller, RunOn::Executor, RunOn::Pool] {
            let server = server(&Arc::new(Doorman::default()), run_on);
            let mut client = polling(&server, None);
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
        let status = polling(&server, None).call(SAY_HELLO, &[0xff], TIMEOUT).unwrap_err();
        assert_eq!((status.code(), status.executed()), (Code::Internal, Executed::No), "{status}");
    });
}

#[test]
fn a_server_lists_its_services() {
    alone("a_server_lists_its_services", || {
        let server = server(&Arc::new(Doorman::default()), RunOn::Poller);
        let method = reflection_client::LIST_SERVICES;
        let reply: ListServicesReply = polling(&server, None).unary(method, &ListServicesRequest {}, TIMEOUT).unwrap();
        let names: Vec<_> = reply.services.iter().map(|service| service.name.as_str()).collect();
        assert_eq!(names, ["greeter.Greeter", "longarm.rpc.Reflection"]);
    });
}
