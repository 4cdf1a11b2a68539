//! Generated clients and servers, with a router between them.

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use longarm_rpc::{Code, Executed, IntoMethods, Request, RunOn};
use longarm_rpc_examples::greeter::greeter_server::{FILE_DESCRIPTOR_SET, GreeterServer};
use longarm_rpc_examples::greeter::{HelloRequest, Politeness};
use support::{Doorman, client, request, router};

#[tokio::test]
async fn a_call_reaches_the_handler_and_comes_back() {
    let doorman = Arc::new(Doorman::default());
    let mut client = client(&doorman);
    let reply = client.say_hello(request("Ada")).await.unwrap();
    assert_eq!(reply.get_ref().greeting, "Hello Ada!");
    let formal = HelloRequest { name: "Ada".into(), politeness: Politeness::Formal.into() };
    assert_eq!(client.say_hello(formal).await.unwrap().into_inner().greeting, "Good day, Ada.");
    assert_eq!(client.count(()).await.unwrap().into_inner().greetings, 2);
}

#[tokio::test]
async fn errors_metadata_and_deadlines_pass() {
    let doorman = Arc::new(Doorman::default());
    let mut client = client(&doorman);
    let status = client.say_hello(request("")).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::InvalidArgument, "nobody has this name"));
    assert_eq!(status.executed(), Executed::Yes);

    let mut call = Request::new(request("Ada"));
    call.metadata_mut().insert("language", "de");
    call.set_timeout(Duration::from_secs(60));
    let sent = call.deadline();
    let reply = client.say_hello(call).await.unwrap();
    assert_eq!(reply.metadata().get("language"), Some(&b"de"[..]));
    let seen: Option<Instant> = *doorman.deadline.lock().unwrap();
    assert_eq!(seen, sent);
}

#[test]
fn a_server_names_its_methods_and_describes_itself() {
    let server = GreeterServer::new(Doorman::default()).run_on(RunOn::Executor);
    let methods = server.clone().into_methods();
    assert_eq!(methods.name(), "greeter.Greeter");
    assert_eq!(methods.paths().collect::<Vec<_>>(), ["/greeter.Greeter/SayHello", "/greeter.Greeter/Count"]);
    assert_eq!(methods.descriptor(), Some(FILE_DESCRIPTOR_SET));
    assert!(!FILE_DESCRIPTOR_SET.is_empty());
}

#[tokio::test]
async fn calls_can_be_spawned() {
    let router = router(&Arc::new(Doorman::default()));
    let mut client = longarm_rpc_examples::greeter::greeter_client::GreeterClient::new(router);
    let reply = tokio::spawn(async move { client.say_hello(request("Ada")).await }).await.unwrap();
    assert_eq!(reply.unwrap().into_inner().greeting, "Hello Ada!");
}
