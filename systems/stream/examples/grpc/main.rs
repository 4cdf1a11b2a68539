//! gRPC with tonic over RDMA. Beside a program on TCP only two lines differ: the listener and the connector.
//!
//! ```sh
//! cargo run -p longarm-stream --features tonic --example grpc -- --listen 0.0.0.0:7471     # one side
//! cargo run -p longarm-stream --features tonic --example grpc -- --connect HOST:7471 Ada   # the other
//! ```
//!
//! `greeter.rs` was generated from `greeter.proto` by tonic-prost-build (with protox, so no protoc was needed).

#[allow(missing_docs, unreachable_pub, clippy::all)]
mod greeter;

use std::error::Error;
use std::pin::Pin;

use clap::Parser;
use futures::{Stream, StreamExt, stream};
use hyper_util::rt::TokioIo;
use longarm_stream::{RdmaConnectInfo, RdmaListener, RdmaStream};
use tonic::transport::{Endpoint, Server, Uri};
use tonic::{Request, Response, Status};

use greeter::greeter_client::GreeterClient;
use greeter::greeter_server::{Greeter, GreeterServer};
use greeter::{GreetReply, GreetRequest};

#[derive(Parser)]
struct Options {
    /// The address to listen at
    #[arg(long)]
    listen: Option<String>,
    /// The address of the server
    #[arg(long)]
    connect: Option<String>,
    /// The name to greet
    #[arg(default_value = "world")]
    name: String,
}

struct Polite;

#[tonic::async_trait]
impl Greeter for Polite {
    async fn greet(&self, request: Request<GreetRequest>) -> Result<Response<GreetReply>, Status> {
        let from = request.extensions().get::<RdmaConnectInfo>().and_then(|info| info.peer_addr);
        eprintln!("{from:?} asks");
        Ok(Response::new(reply(&request.into_inner().name)))
    }

    type GreetOftenStream = Pin<Box<dyn Stream<Item = Result<GreetReply, Status>> + Send>>;

    async fn greet_often(&self, request: Request<GreetRequest>) -> Result<Response<Self::GreetOftenStream>, Status> {
        let GreetRequest { name, times } = request.into_inner();
        Ok(Response::new(Box::pin(stream::iter((0..times).map(move |_| Ok(reply(&name)))))))
    }
}

fn reply(name: &str) -> GreetReply {
    GreetReply { greeting: format!("Hello {name}!") }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse();
    if let Some(address) = options.listen {
        let listener = RdmaListener::bind(address).await?; //                  TcpListener::bind
        println!("listening at {}", listener.local_addr()?);
        let server = Server::builder().add_service(GreeterServer::new(Polite));
        server.serve_with_incoming(listener.incoming()).await?;
    } else if let Some(address) = options.connect {
        ask(address, options.name).await?;
    }
    Ok(())
}

async fn ask(address: String, name: String) -> Result<(), Box<dyn Error>> {
    let connector = tower::service_fn(move |_: Uri| {
        let address = address.clone();
        async move { RdmaStream::connect(address).await.map(TokioIo::new) } // TcpStream::connect
    });
    let channel = Endpoint::from_static("http://rdma").connect_with_connector(connector).await?;
    let mut client = GreeterClient::new(channel);
    let once = client.greet(GreetRequest { name: name.clone(), times: 1 }).await?;
    println!("{}", once.into_inner().greeting);
    let mut often = client.greet_often(GreetRequest { name, times: 1000 }).await?.into_inner();
    let mut count = 0;
    while let Some(reply) = often.next().await {
        reply?;
        count += 1;
    }
    println!("and {count} times more");
    Ok(())
}
