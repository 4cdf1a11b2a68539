//! The same program over each transport: only connecting and listening differ.

use std::io;

use clap::ValueEnum;
use longarm_stream::{RdmaListener, StreamConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// A transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Transport {
    /// TCP over loop-back
    Tcp,
    /// Unix sockets
    Unix,
    /// Streams in packets
    Wire,
    /// Streams in shared memory
    Rdma,
}

/// A stream of any transport.
pub(crate) trait AnyStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> AnyStream for S {}

/// A listener of any transport.
pub(crate) enum AnyListener {
    Tcp(TcpListener),
    Unix(UnixListener),
    Rdma(RdmaListener),
}

impl Transport {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Transport::Tcp => "tcp",
            Transport::Unix => "unix",
            Transport::Wire => "wire",
            Transport::Rdma => "rdma",
        }
    }

    pub(crate) async fn connect(self, address: &str, config: &StreamConfig) -> io::Result<Box<dyn AnyStream>> {
        Ok(match self {
            Transport::Tcp => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
            Transport::Unix => Box::new(UnixStream::connect(address).await?),
            Transport::Wire | Transport::Rdma => Box::new(config.connect(address).await?),
        })
    }

    /// Listens; also the address to connect to.
    pub(crate) async fn listen(self, config: &StreamConfig) -> io::Result<(AnyListener, String)> {
        Ok(match self {
            Transport::Tcp => {
                let listener = TcpListener::bind("127.0.0.1:0").await?;
                let address = listener.local_addr()?.to_string();
                (AnyListener::Tcp(listener), address)
            }
            Transport::Unix => {
                let path = std::env::temp_dir().join(format!("longarm-stream-bench-{}", std::process::id()));
                let address = path.display().to_string();
                let listener = UnixListener::bind(path)?;
                (AnyListener::Unix(listener), address)
            }
            Transport::Wire | Transport::Rdma => {
                let listener = config.bind("127.0.0.1:0").await?;
                let address = listener.local_addr()?.to_string();
                (AnyListener::Rdma(listener), address)
            }
        })
    }
}

impl AnyListener {
    pub(crate) async fn accept(&self) -> io::Result<Box<dyn AnyStream>> {
        Ok(match self {
            AnyListener::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
            AnyListener::Unix(listener) => Box::new(listener.accept().await?.0),
            AnyListener::Rdma(listener) => Box::new(listener.accept().await?),
        })
    }
}
