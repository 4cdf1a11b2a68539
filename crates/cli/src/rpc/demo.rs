//! `longarm rpc serve`: a small server to try calls with.

use std::thread;
use std::time::Duration;

use clap::Args;
use longarm_rpc::reflection::ServiceCatalog;
use longarm_rpc::{IntoMethods, Method, Methods, Response, Server, Status};
use prost::Message;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet, MethodDescriptorProto,
    ServiceDescriptorProto,
};

use super::proof::ProofFiles;
use crate::error::Error;

/// The longest reply of `Say`, in bytes.
const LONGEST: usize = 1 << 20;
/// The longest `Wait`, in milliseconds.
const LONGEST_WAIT_MS: u32 = 60_000;

/// Run a small server to try `longarm rpc call` with: an echo, a method that waits, and reflection
#[derive(Args, Debug)]
pub(crate) struct DemoServeArgs {
    /// Address and port to listen on
    #[arg(default_value = "127.0.0.1:7471")]
    listen: String,
    #[command(flatten)]
    proof: ProofFiles,
}

/// `longarm rpc serve`
pub(crate) fn serve(args: &DemoServeArgs) -> Result<(), Error> {
    let echo = echo();
    let catalog = ServiceCatalog::of(std::slice::from_ref(&echo));
    let builder = args.proof.demand(Server::builder())?;
    let server = builder.add_service(echo)?.add_service(catalog.into_methods())?.bind(args.listen.as_str())?;
    println!("listening on {}", server.local_addr());
    eprintln!("try: longarm rpc call {} demo.Echo/Say '{{\"text\": \"hello\", \"times\": 2}}'", server.local_addr());
    server.wait();
    Ok(())
}

#[derive(Clone, PartialEq, Message)]
struct SayRequest {
    #[prost(string, tag = "1")]
    text: String,
    #[prost(uint32, tag = "2")]
    times: u32,
}

#[derive(Clone, PartialEq, Message)]
struct SayReply {
    #[prost(string, tag = "1")]
    text: String,
}

#[derive(Clone, PartialEq, Message)]
struct WaitRequest {
    #[prost(uint32, tag = "1")]
    milliseconds: u32,
}

#[derive(Clone, PartialEq, Message)]
struct WaitReply {}

fn echo() -> Methods {
    Methods::new("demo.Echo")
        .direct_unary(Method::new("/demo.Echo/Say"), say)
        .blocking(Method::new("/demo.Echo/Wait"), |request| {
            let wait = WaitRequest::decode(request.into_inner())
                .map_err(|error| Status::internal(format!("the request cannot be decoded: {error}")))?;
            if wait.milliseconds > LONGEST_WAIT_MS {
                return Err(Status::invalid_argument(format!("the longest wait is {LONGEST_WAIT_MS} ms")));
            }
            thread::sleep(Duration::from_millis(wait.milliseconds.into()));
            Ok(Response::new(WaitReply {}.encode_to_vec().into()))
        })
        // The server lives as long as the process.
        .described_by(Box::leak(descriptors().encode_to_vec().into_boxed_slice()))
}

fn say(request: SayRequest) -> Result<SayReply, Status> {
    let times = request.times.max(1) as usize;
    match request.text.len().checked_mul(times) {
        Some(len) if len <= LONGEST => Ok(SayReply { text: request.text.repeat(times) }),
        _ => Err(Status::invalid_argument(format!("the reply would be longer than {LONGEST} bytes"))),
    }
}

/// The description of `demo.Echo`, as a compiler of `.proto` files would write it.
fn descriptors() -> FileDescriptorSet {
    let file = FileDescriptorProto {
        name: Some("demo.proto".into()),
        package: Some("demo".into()),
        syntax: Some("proto3".into()),
        message_type: vec![
            message("SayRequest", &[("text", Type::String), ("times", Type::Uint32)]),
            message("SayReply", &[("text", Type::String)]),
            message("WaitRequest", &[("milliseconds", Type::Uint32)]),
            message("WaitReply", &[]),
        ],
        service: vec![ServiceDescriptorProto {
            name: Some("Echo".into()),
            method: ["Say", "Wait"].map(method).to_vec(),
            options: None,
        }],
        ..FileDescriptorProto::default()
    };
    FileDescriptorSet { file: vec![file] }
}

fn message(name: &str, fields: &[(&str, Type)]) -> DescriptorProto {
    let field = |(number, (name, kind)): (i32, &(&str, Type))| FieldDescriptorProto {
        name: Some((*name).into()),
        json_name: Some((*name).into()),
        number: Some(number),
        label: Some(Label::Optional.into()),
        r#type: Some((*kind).into()),
        ..FieldDescriptorProto::default()
    };
    let field = (1..).zip(fields).map(field).collect();
    DescriptorProto { name: Some(name.into()), field, ..DescriptorProto::default() }
}

fn method(name: &str) -> MethodDescriptorProto {
    MethodDescriptorProto {
        name: Some(name.into()),
        input_type: Some(format!(".demo.{name}Request")),
        output_type: Some(format!(".demo.{name}Reply")),
        ..MethodDescriptorProto::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_have_a_bound() {
        let say = |len: usize, times| say(SayRequest { text: "a".repeat(len), times });
        assert_eq!(say(2, 2).unwrap().text, "aaaa");
        assert_eq!(say(3, 0).unwrap().text, "aaa", "a field that is not set");
        assert!(say(2, u32::MAX).is_err());
    }
}
