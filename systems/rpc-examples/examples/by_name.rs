//! Calls of any service with JSON, by reflection. The program has no generated code of the services.
//!
//! ```sh
//! cargo run -p longarm-rpc-examples --example by_name -- list rdma://HOST:7471
//! cargo run -p longarm-rpc-examples --example by_name -- describe rdma://HOST:7471 greeter.Greeter/SayHello
//! cargo run -p longarm-rpc-examples --example by_name -- call rdma://HOST:7471 greeter.Greeter/SayHello '{"name": "Ada"}'
//! ```

use std::time::Duration;

use clap::Parser;
use longarm_rpc::{BoxError, JsonClient, Request};
use longarm_rpc_examples::connect;

#[derive(Parser)]
enum Options {
    /// The services of a server, with their methods
    List {
        /// The address of the server
        address: String,
    },
    /// A service, method, message or enum in the words of a `.proto` file
    Describe {
        /// The address of the server
        address: String,
        /// Its name, with its package
        symbol: String,
    },
    /// Calls a method
    Call {
        /// The address of the server
        address: String,
        /// The method: `package.Service/Method`
        method: String,
        /// The request
        #[arg(default_value = "{}")]
        json: String,
        /// Seconds to wait for the reply
        #[arg(long, default_value = "10")]
        timeout: f64,
    },
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    match Options::parse() {
        Options::List { address } => {
            for service in JsonClient::new(connect(&address).await?).services().await? {
                println!("{}", service.name);
                service.methods.iter().for_each(|method| println!("  {method}"));
            }
        }
        Options::Describe { address, symbol } => {
            print!("{}", JsonClient::new(connect(&address).await?).describe(&symbol).await?);
        }
        Options::Call { address, method, json, timeout } => {
            let mut request = Request::new(json.as_str());
            request.set_timeout(Duration::try_from_secs_f64(timeout)?);
            println!("{}", JsonClient::new(connect(&address).await?).call(&method, request).await?.get_ref());
        }
    }
    Ok(())
}
