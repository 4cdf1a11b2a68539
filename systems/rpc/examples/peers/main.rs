//! Round trips over other means, for `cargo xtask compare --rpc`: sockets, tonic, tarpc, capnp-rpc.
//!
//! ```sh
//! cargo run --release -p longarm-rpc --example peers -- --json
//! cargo run --release -p longarm-rpc --example peers -- tonic-unix --mode rate --depth 32
//! ```
//!
//! Client and server are two processes, each with one thread on a core of its own.

mod capnp_peer;
mod concurrent;
mod grpc;
mod process;
mod sockets;
mod tally;
mod tarpc_peer;

use std::error::Error;
use std::time::Duration;

use clap::{Parser, ValueEnum};

use process::PeerProcess;
use tally::PeerTally;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

#[derive(Parser, Clone, Debug)]
struct PeerOptions {
    /// Means to measure [default: all]
    #[arg(value_enum)]
    peers: Vec<PeerKind>,
    #[arg(long, value_enum, default_value = "latency")]
    mode: PeerMode,
    /// Bytes of each request and each reply
    #[arg(long, default_value_t = 32)]
    size: usize,
    /// Calls outstanding, except in mode latency
    #[arg(long, default_value_t = 32)]
    depth: usize,
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Load: percent of the rate that is measured first
    #[arg(long, default_value_t = 70)]
    load: u32,
    /// Print JSON, one object per line
    #[arg(long)]
    json: bool,
    /// Let the scheduler place the two processes
    #[arg(long)]
    unpinned: bool,
    /// The place at which the serving process listens
    #[arg(long, hide = true)]
    serve: Option<String>,
}

/// A means to send requests and replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PeerKind {
    /// Bare TCP, with TCP_NODELAY
    Tcp,
    /// A bare Unix socket
    Unix,
    /// tonic (gRPC) over TCP
    TonicTcp,
    /// tonic (gRPC) over a Unix socket
    TonicUnix,
    /// tarpc with bincode over a Unix socket
    TarpcUnix,
    /// capnp-rpc over TCP
    CapnpTcp,
    /// capnp-rpc over a Unix socket
    CapnpUnix,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PeerMode {
    /// One call at a time
    Latency,
    /// As many calls as the depth allows
    Rate,
    /// Calls at a fixed rate, timed from their planned start; sockets only
    Load,
}

impl PeerKind {
    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    fn uses_tcp(self) -> bool {
        matches!(self, PeerKind::Tcp | PeerKind::TonicTcp | PeerKind::CapnpTcp)
    }
}

impl PeerOptions {
    fn duration(&self) -> Duration {
        Duration::from_secs_f64(self.seconds.clamp(0.01, 3600.0))
    }

    /// Calls outstanding.
    fn depth(&self) -> usize {
        if self.mode == PeerMode::Latency { 1 } else { self.depth.max(1) }
    }
}

fn main() -> Outcome<()> {
    let options = PeerOptions::parse();
    if let (Some(place), [peer]) = (&options.serve, &options.peers[..]) {
        process::pin(1, &options);
        return serve(*peer, place);
    }
    if options.size == 0 || options.size > 1 << 20 {
        return Err("--size: give 1 to 1048576 bytes".into());
    }
    process::pin(0, &options);
    let all = if options.peers.is_empty() { PeerKind::value_variants().to_vec() } else { options.peers.clone() };
    for peer in all {
        let server = PeerProcess::start(peer, &options)?;
        let tally = measure(peer, server.place(), &options)?;
        println!("{}", tally.line(peer, &options));
    }
    Ok(())
}

fn serve(peer: PeerKind, place: &str) -> Outcome<()> {
    match peer {
        PeerKind::Tcp | PeerKind::Unix => sockets::serve(peer, place),
        PeerKind::TonicTcp | PeerKind::TonicUnix => concurrent::run(grpc::serve(peer, place)),
        PeerKind::TarpcUnix => concurrent::run(tarpc_peer::serve(place)),
        PeerKind::CapnpTcp | PeerKind::CapnpUnix => concurrent::run(capnp_peer::serve(peer, place)),
    }
}

fn measure(peer: PeerKind, place: &str, options: &PeerOptions) -> Outcome<PeerTally> {
    match peer {
        PeerKind::Tcp | PeerKind::Unix => sockets::measure(peer, place, options),
        _ if options.mode == PeerMode::Load => Err("--mode load: only for tcp and unix".into()),
        PeerKind::TonicTcp | PeerKind::TonicUnix => concurrent::run(grpc::measure(peer, place, options)),
        PeerKind::TarpcUnix => concurrent::run(tarpc_peer::measure(place, options)),
        PeerKind::CapnpTcp | PeerKind::CapnpUnix => concurrent::run(capnp_peer::measure(peer, place, options)),
    }
}
