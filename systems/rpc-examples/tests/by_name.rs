//! Calls of services that the caller knows by name only, with JSON.

mod support;

use std::sync::Arc;

use longarm_rpc::reflection::ServiceCatalog;
use longarm_rpc::{Code, Executed, JsonClient, Request, Router, Status};
use support::{Doorman, router};

fn client() -> JsonClient<Router> {
    let mut router = router(&Arc::new(Doorman::default()));
    router.add(ServiceCatalog::of(router.services())).unwrap();
    JsonClient::new(router)
}

async fn call(method: &str, json: &str) -> Result<serde_json::Value, Status> {
    let reply = client().call(method, Request::new(json)).await?;
    Ok(serde_json::from_str(reply.get_ref()).unwrap())
}

#[tokio::test]
async fn a_method_is_called_with_json() {
    let reply = call("greeter.Greeter/SayHello", r#"{"name": "Ada", "politeness": "FORMAL"}"#).await.unwrap();
    assert_eq!(reply["greeting"], "Good day, Ada.");
    for (method, json) in [("/greeter.Greeter/Count", ""), ("greeter.Greeter.Count", "{}")] {
        assert_eq!(call(method, json).await.unwrap()["greetings"], "0", "a uint64 of ProtoJSON is a string");
    }
}

#[tokio::test]
async fn metadata_goes_along() {
    let mut request = Request::new(r#"{"name": "Ada"}"#);
    request.metadata_mut().insert("language", "de");
    let reply = client().call("greeter.Greeter/SayHello", request).await.unwrap();
    assert_eq!(reply.metadata().get("language"), Some(&b"de"[..]));
}

#[tokio::test]
async fn errors_say_which_side_failed() {
    for json in [r#"{"nick": "Ada"}"#, r#"{"name": 7}"#, r#"{"name": "Ada"} more"#, "[]", "{"] {
        let status = call("greeter.Greeter/SayHello", json).await.unwrap_err();
        assert_eq!((status.code(), status.executed()), (Code::InvalidArgument, Executed::No), "{json}");
    }
    let status = call("greeter.Greeter/SayHello", r#"{"name": ""}"#).await.unwrap_err();
    assert_eq!((status.code(), status.executed()), (Code::InvalidArgument, Executed::Yes));
    for method in ["greeter.Greeter/Sing", "greeter.Greeter", "no.Service/Call", ""] {
        assert_eq!(call(method, "{}").await.unwrap_err().code(), Code::NotFound, "{method}");
    }
}

#[tokio::test]
async fn services_are_listed() {
    let services = client().services().await.unwrap();
    let names: Vec<_> = services.iter().map(|service| service.name.as_str()).collect();
    assert_eq!(names, ["greeter.Greeter", "longarm.rpc.Reflection"]);
    assert_eq!(services[0].methods, ["/greeter.Greeter/SayHello", "/greeter.Greeter/Count"]);
    assert!(services[0].is_described);
}

#[tokio::test]
async fn symbols_are_described_as_in_their_file() {
    let mut client = client();
    let service = client.describe("greeter.Greeter").await.unwrap();
    assert_eq!(
        service,
        "service greeter.Greeter {\n  rpc SayHello(greeter.HelloRequest) returns (greeter.HelloReply);\n  \
         rpc Count(google.protobuf.Empty) returns (greeter.CountReply);\n}\n"
    );
    let method = client.describe("greeter.Greeter/SayHello").await.unwrap();
    assert_eq!(
        method,
        "rpc SayHello(greeter.HelloRequest) returns (greeter.HelloReply);\n\n\
         message greeter.HelloRequest {\n  string name = 1;\n  greeter.Politeness politeness = 2;\n}\n\n\
         enum greeter.Politeness {\n  CASUAL = 0;\n  FORMAL = 1;\n}\n\n\
         message greeter.HelloReply {\n  string greeting = 1;\n}\n"
    );
    assert!(client.describe("greeter.Politeness").await.unwrap().starts_with("enum greeter.Politeness {"));
    let status = client.describe("greeter.Nothing").await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
}

#[tokio::test]
async fn a_server_without_reflection_says_so() {
    let mut client = JsonClient::new(router(&Arc::new(Doorman::default())));
    assert_eq!(client.services().await.unwrap_err().code(), Code::Unimplemented);
}
