//! A service from a `.proto` file. The handlers and the client know nothing of the way that carries the calls.
//!
//! ```sh
//! cargo run -p longarm-rpc-examples --example greeter -- serve rdma://0.0.0.0:7471 grpc://0.0.0.0:50051
//! cargo run -p longarm-rpc-examples --example greeter -- call rdma://HOST:7471 Ada
//! cargo run -p longarm-rpc-examples --example greeter -- call grpc://HOST:50051 Ada
//! ```

use std::future::pending;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Parser;
use longarm_rpc::reflection::ServiceCatalog;
use longarm_rpc::{BoxError, RepeatUnexecuted, Request, Response, Router, Status};
use longarm_rpc_examples::greeter::greeter_client::GreeterClient;
use longarm_rpc_examples::greeter::greeter_server::{Greeter, GreeterServer};
use longarm_rpc_examples::greeter::{CountReply, HelloReply, HelloRequest, Politeness};
use tower::ServiceBuilder;

#[derive(Parser)]
enum Options {
    /// Greets whoever asks
    Serve {
        /// Where to listen, in as many ways as you like
        #[arg(required = true)]
        addresses: Vec<String>,
    },
    /// Asks for a greeting
    Call {
        /// The address of the server
        address: String,
        /// The name to greet
        #[arg(default_value = "world")]
        name: String,
    },
}

#[derive(Default)]
struct Doorman {
    greetings: AtomicU64,
}

#[longarm_rpc::async_trait]
impl Greeter for Doorman {
    async fn say_hello(&self, request: Request<HelloRequest>) -> Result<Response<HelloReply>, Status> {
        let HelloRequest { name, politeness } = request.into_inner();
        if name.is_empty() {
            return Err(Status::invalid_argument("nobody has this name"));
        }
        self.greetings.fetch_add(1, Ordering::Relaxed);
        let greeting = match Politeness::try_from(politeness) {
            Ok(Politeness::Formal) => format!("Good day, {name}."),
            _ => format!("Hello {name}!"),
        };
        Ok(Response::new(HelloReply { greeting }))
    }

    async fn count(&self, _: Request<()>) -> Result<Response<CountReply>, Status> {
        Ok(Response::new(CountReply { greetings: self.greetings.load(Ordering::Relaxed) }))
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    match Options::parse() {
        Options::Serve { addresses } => serve(&addresses).await,
        Options::Call { address, name } => call(&address, name).await,
    }
}

async fn serve(addresses: &[String]) -> Result<(), BoxError> {
    let mut router = Router::default();
    router.add(GreeterServer::new(Doorman::default()))?;
    router.add(ServiceCatalog::of(router.services()))?;
    for address in addresses {
        println!("listening at {}", longarm_rpc_examples::serve(router.clone(), address).await?);
    }
    pending().await
}

async fn call(address: &str, name: String) -> Result<(), BoxError> {
    let channel = longarm_rpc_examples::connect(address).await?;
    let channel = ServiceBuilder::new().retry(RepeatUnexecuted::at_most(3)).service(channel);
    let mut client = GreeterClient::new(channel);
    let mut request = Request::new(HelloRequest { name, politeness: Politeness::Casual.into() });
    request.set_timeout(Duration::from_secs(1));
    println!("{}", client.say_hello(request).await?.get_ref().greeting);
    println!("greetings so far: {}", client.count(()).await?.get_ref().greetings);
    Ok(())
}
