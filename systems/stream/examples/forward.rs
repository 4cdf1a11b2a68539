//! Forwards connections between RDMA and TCP, so that programs without RDMA take part.
//!
//! ```sh
//! cargo run -p longarm-stream --example forward -- rdma:0.0.0.0:6379 tcp:127.0.0.1:6379   # before a server
//! cargo run -p longarm-stream --example forward -- tcp:127.0.0.1:6379 rdma:HOST:6379      # before its clients
//! ```

use std::io;

use clap::Parser;
use longarm_stream::{RdmaListener, RdmaStream};
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

#[derive(Parser)]
struct Options {
    /// Listen there: `rdma:HOST:PORT` or `tcp:HOST:PORT`
    from: String,
    /// Connect to that for each connection
    to: String,
}

trait AnyStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> AnyStream for S {}

async fn connect(to: &str) -> io::Result<Box<dyn AnyStream>> {
    Ok(match to.split_once(':') {
        Some(("rdma", address)) => Box::new(RdmaStream::connect(address).await?),
        Some(("tcp", address)) => Box::new(tcp(TcpStream::connect(address).await?)?),
        _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{to}: neither rdma: nor tcp:"))),
    })
}

fn tcp(stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Forwards both directions until both have ended.
fn forward(mut from: impl AnyStream + 'static, to: String) {
    tokio::spawn(async move {
        let forwarded = async {
            let mut to = connect(&to).await?;
            copy_bidirectional(&mut from, &mut to).await
        };
        if let Err(error) = forwarded.await {
            eprintln!("{to}: {error}");
        }
    });
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let Options { from, to } = Options::parse();
    match from.split_once(':') {
        Some(("rdma", address)) => {
            let listener = RdmaListener::bind(address).await?;
            println!("listening at {}", listener.local_addr()?);
            loop {
                forward(listener.accept().await?, to.clone());
            }
        }
        Some(("tcp", address)) => {
            let listener = TcpListener::bind(address).await?;
            println!("listening at {}", listener.local_addr()?);
            loop {
                forward(tcp(listener.accept().await?.0)?, to.clone());
            }
        }
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{from}: neither rdma: nor tcp:"))),
    }
}
