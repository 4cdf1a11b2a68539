//! A service of tarpc: its macro and its handlers are those of a program on TCP.
//!
//! ```sh
//! cargo run -p longarm-rpc-examples --example world -- serve rdma://0.0.0.0:7472
//! cargo run -p longarm-rpc-examples --example world -- call rdma://HOST:7472 Ada
//! ```

use std::future::pending;

use clap::Parser;
use longarm_rpc::{BoxError, Method, Router, RunOn};
use tarpc::context::{self, Context};
use tarpc::server::Serve;

#[derive(Parser)]
enum Options {
    /// Greets whoever asks
    Serve {
        /// Where to listen
        address: String,
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

#[tarpc::service]
trait World {
    /// A greeting.
    async fn hello(name: String) -> String;
}

/// The name of the service, for both sides.
const WORLD: Method = Method::new("/tarpc.World/Call");

#[derive(Clone)]
struct Doorman;

impl World for Doorman {
    async fn hello(self, _: Context, name: String) -> String {
        format!("Hello {name}!")
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    match Options::parse() {
        Options::Serve { address } => {
            let mut router = Router::default();
            let serve = |context, request| Doorman.serve().serve(context, request);
            router.add(longarm_rpc::tarpc::serve(WORLD, RunOn::Executor, serve))?;
            println!("listening at {}", longarm_rpc_examples::serve(router, &address).await?);
            pending().await
        }
        Options::Call { address, name } => {
            let channel = longarm_rpc_examples::connect(&address).await?;
            let client = WorldClient::from(longarm_rpc::tarpc::stub(channel, WORLD));
            println!("{}", client.hello(context::current(), name).await?);
            Ok(())
        }
    }
}
