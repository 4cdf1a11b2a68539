//! The smallest service: bytes come back as they went. The client polls, over a way of its choice.
//!
//! ```sh
//! cargo run --release -p longarm-rpc-examples --example echo                       # both sides, over every way
//! cargo run --release -p longarm-rpc-examples --example echo -- serve 0.0.0.0:7473
//! cargo run --release -p longarm-rpc-examples --example echo -- call HOST:7473 --way ring
//! ```

use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use longarm_rpc::{BoxError, Client, ClientOptions, Method, Methods, Server, Status, Way};

const SAY: Method = Method::new("/echo.Echo/Say");
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Parser)]
struct Options {
    #[command(subcommand)]
    role: Option<Role>,
}

#[derive(Subcommand)]
enum Role {
    /// Echoes
    Serve {
        /// Where to listen
        address: String,
    },
    /// Measures the time of a call
    Call {
        /// The address of the server
        address: String,
        /// The way to use; server and client choose if it is not given
        #[arg(long)]
        way: Option<Way>,
    },
}

fn main() -> Result<(), BoxError> {
    match Options::parse().role {
        Some(Role::Serve { address }) => {
            let server = serve(&address)?;
            println!("listening at {}", server.local_addr());
            server.wait();
        }
        Some(Role::Call { address, way }) => call(&address, way)?,
        None => {
            let server = serve("127.0.0.1:0")?;
            for way in Way::ALL {
                call(&server.local_addr().to_string(), Some(way))?;
            }
        }
    }
    Ok(())
}

fn serve(address: &str) -> Result<Server, Status> {
    let echo = Methods::new("echo.Echo").direct(SAY, |request, reply| {
        reply.extend_from_slice(request);
        Ok(())
    });
    Server::builder().add_service(echo)?.bind(address)
}

fn call(address: &str, way: Option<Way>) -> Result<(), Status> {
    let mut client = Client::connect(address, &ClientOptions { way, ..ClientOptions::default() })?;
    let reply = client.call(SAY, b"hello", PATIENCE)?;
    let start = Instant::now();
    for _ in 0..1000 {
        client.call(SAY, b"hello", PATIENCE)?;
    }
    let took = start.elapsed() / 1000;
    println!("{}: {reply:?} came back, {took:?} for each call ({})", client.way(), client.reason());
    Ok(())
}
