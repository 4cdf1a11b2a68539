//! Ping-pongs of two processes that sleep in the kernel until the response arrives.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Instant;

use clap::{Args, ValueEnum};

use crate::error::Error;
use crate::perf::{Latency, LatencySummary};

/// Measure a ping-pong of two processes over sockets that block
#[derive(Args, Debug)]
pub(crate) struct BlockingArgs {
    #[arg(value_enum)]
    socket: Socket,
    /// Bytes per message
    #[arg(long, default_value_t = 64)]
    size: usize,
    #[arg(long, default_value_t = 20_000)]
    rounds: u32,
    /// Address at which the echoing side finds the measuring one
    #[arg(long)]
    echo: Option<String>,
}

/// A kind of socket.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum)]
pub(crate) enum Socket {
    Tcp,
    Unix,
}

impl Socket {
    /// The word on the command line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Socket::Tcp => "tcp",
            Socket::Unix => "unix",
        }
    }
}

/// `longarm blocking`: half of the round trip, as JSON.
pub(crate) fn blocking(args: &BlockingArgs) -> Result<(), Error> {
    if let Some(place) = &args.echo {
        return echo(args, place);
    }
    let latency = match args.socket {
        Socket::Tcp => {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            let _echo = start_echo(args, &listener.local_addr()?.to_string())?;
            let stream = listener.accept()?.0;
            stream.set_nodelay(true)?;
            measure(stream, args)?
        }
        Socket::Unix => {
            let path = Socketfile(std::env::temp_dir().join(format!("longarm-ping-pong-{}", std::process::id())));
            let listener = UnixListener::bind(&path.0)?;
            let _echo = start_echo(args, &path.0.to_string_lossy())?;
            measure(listener.accept()?.0, args)?
        }
    };
    println!("{}", serde_json::to_string(&latency).map_err(io::Error::from)?);
    Ok(())
}

/// A socket's file; dropping the value removes it.
struct Socketfile(PathBuf);

impl Drop for Socketfile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The echoing process; dropping the value ends it.
struct Echo(Child);

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start_echo(args: &BlockingArgs, place: &str) -> io::Result<Echo> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["blocking", args.socket.word(), "--size", &args.size.to_string(), "--echo", place]);
    command.spawn().map(Echo)
}

fn measure(mut stream: impl Read + Write, args: &BlockingArgs) -> io::Result<LatencySummary> {
    let (mut latency, mut message) = (Latency::default(), vec![7; args.size]);
    for _ in 0..args.rounds {
        let start = Instant::now();
        stream.write_all(&message)?;
        stream.read_exact(&mut message)?;
        latency.record(start.elapsed() / 2);
    }
    Ok(latency.summary())
}

fn echo(args: &BlockingArgs, place: &str) -> Result<(), Error> {
    match args.socket {
        Socket::Tcp => {
            let address: SocketAddr = place.parse().map_err(|_| Error::Usage(format!("--echo {place}")))?;
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            answer(stream, args.size)
        }
        Socket::Unix => answer(UnixStream::connect(place)?, args.size),
    }
}

/// Echoes messages until the other side disconnects.
fn answer(mut stream: impl Read + Write, size: usize) -> Result<(), Error> {
    let mut message = vec![0; size];
    while stream.read_exact(&mut message).is_ok() {
        stream.write_all(&message)?;
    }
    Ok(())
}
