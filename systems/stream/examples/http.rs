//! HTTP over RDMA: a server with axum, a client with hyper.
//!
//! ```sh
//! cargo run -p longarm-stream --example http -- --listen 0.0.0.0:7471
//! cargo run -p longarm-stream --example http -- --connect HOST:7471 /hello/Ada
//! ```

use std::error::Error;
use std::net::SocketAddr;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path};
use axum::routing::{get, post};
use clap::Parser;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper_util::rt::TokioIo;
use longarm_stream::{RdmaListener, RdmaStream};

#[derive(Parser)]
struct Options {
    /// The address to listen at
    #[arg(long)]
    listen: Option<String>,
    /// The address of the server
    #[arg(long)]
    connect: Option<String>,
    /// The path to get
    #[arg(default_value = "/hello/world")]
    path: String,
    /// Post so many bytes there instead
    #[arg(long)]
    post: Option<usize>,
}

/// A listener for axum, which asks for a trait of its own.
struct Incoming(RdmaListener);

impl axum::serve::Listener for Incoming {
    type Io = RdmaStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (RdmaStream, SocketAddr) {
        loop {
            if let Ok(stream) = self.0.accept().await
                && let Ok(peer) = stream.peer_addr()
            {
                return (stream, peer);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse();
    if let Some(address) = &options.listen {
        let listener = RdmaListener::bind(address.as_str()).await?;
        println!("listening at {}", listener.local_addr()?);
        let hello = get(|Path(name): Path<String>| async move { format!("Hello {name}!") });
        let count = post(|body: Bytes| async move { format!("{} bytes", body.len()) });
        let app = Router::new().route("/hello/{name}", hello).route("/count", count);
        axum::serve(Incoming(listener), app.layer(DefaultBodyLimit::disable())).await?;
    } else if let Some(address) = &options.connect {
        println!("{}", ask(address, &options).await?);
    }
    Ok(())
}

async fn ask(address: &str, options: &Options) -> Result<String, Box<dyn Error>> {
    let stream = RdmaStream::connect(address).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let body = Full::new(Bytes::from(vec![7; options.post.unwrap_or(0)]));
    let method = if options.post.is_some() { "POST" } else { "GET" };
    let request = Request::builder().method(method).uri(&options.path).header("host", "rdma").body(body)?;
    let answer = sender.send_request(request).await?.into_body().collect().await?.to_bytes();
    Ok(String::from_utf8(answer.into())?)
}
