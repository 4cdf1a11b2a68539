//! Measures streams beside TCP over loop-back and Unix sockets, all with tokio, between two processes.
//!
//! ```sh
//! cargo run --release -p longarm-stream --example bench                      # everything, as a table
//! cargo run --release -p longarm-stream --example bench -- --only latency --transports unix,rdma
//! ```
//!
//! `wire` is a stream that does not use shared memory (`LONGARM_LOCAL=off`). One process serves and one asks, each with
//! one thread of tokio, so that the work per message is the same for all. Processor time is that of both processes,
//! all threads.

mod client;
mod report;
mod server;
mod transport;

use std::io;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use clap::{Parser, ValueEnum};
use longarm_stream::StreamConfig;

use self::report::Row;
use self::transport::Transport;

#[derive(Parser, Debug, Clone)]
struct Options {
    /// The questions
    #[arg(long, value_delimiter = ',', default_value = "latency,bandwidth,connections")]
    only: Vec<Question>,
    #[arg(long, value_delimiter = ',', default_value = "tcp,unix,wire,rdma")]
    transports: Vec<Transport>,
    /// Round trips
    #[arg(long, default_value_t = 50_000)]
    rounds: u32,
    /// Bytes of a message of a round trip
    #[arg(long, default_value_t = 64)]
    size: u32,
    /// Bytes that are streamed
    #[arg(long, default_value_t = 4 << 30)]
    stream_bytes: u64,
    /// Bytes of a write
    #[arg(long, value_delimiter = ',', default_value = "65536,1048576")]
    write_bytes: Vec<usize>,
    /// Connections that are open at once
    #[arg(long, default_value_t = 1000)]
    connections: u32,
    /// Measures so often, and shows the medians
    #[arg(long, default_value_t = 3)]
    repeat: u32,
    /// The time for which a task of a stream looks for news itself, in microseconds
    #[arg(long)]
    busy_poll_us: Option<u64>,
    /// Bytes of a stream's receive buffer
    #[arg(long)]
    recv_buffer: Option<u32>,
    /// Bytes of a stream's send buffer
    #[arg(long)]
    send_buffer: Option<u32>,
    /// Serve; for the process that this one starts
    #[arg(long, hide = true)]
    serve: Option<Transport>,
    /// Ask the server there; for the process that this one starts
    #[arg(long, hide = true)]
    ask: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Question {
    /// One way of a message
    Latency,
    /// Bytes per second
    Bandwidth,
    /// Time for many connections
    Connections,
}

impl Options {
    fn config(&self) -> StreamConfig {
        let mut config = StreamConfig::new();
        if let Some(time) = self.busy_poll_us {
            config = config.busy_poll(Duration::from_micros(time));
        }
        if let Some(bytes) = self.recv_buffer {
            config = config.recv_buffer(bytes);
        }
        if let Some(bytes) = self.send_buffer {
            config = config.send_buffer(bytes);
        }
        config
    }
}

fn main() -> io::Result<()> {
    let options = Options::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match (options.serve, &options.ask) {
        (Some(transport), _) => runtime.block_on(server::serve(transport, &options.config())),
        (None, Some(address)) => {
            let transport = *options.transports.last().ok_or_else(|| io::Error::other("no transport"))?;
            let rows = runtime.block_on(client::ask(&options, transport, address))?;
            rows.iter().for_each(|row| println!("{row}"));
            Ok(())
        }
        (None, None) => compare(&options),
    }
}

/// Each transport in two processes of its own, all of them once before the next repetition.
fn compare(options: &Options) -> io::Result<()> {
    let mut rows: Vec<Row> = Vec::new();
    for _ in 0..options.repeat {
        for transport in &options.transports {
            rows.extend(measure(*transport)?);
        }
    }
    print!("{}", report::table(&rows));
    Ok(())
}

fn measure(transport: Transport) -> io::Result<Vec<Row>> {
    let mut server = Served::start(transport)?;
    let address = server.address()?;
    let asked = this_program(transport)?
        .args(std::env::args().skip(1))
        .args(["--transports", transport.name(), "--ask", &address])
        .stderr(Stdio::inherit())
        .output()?;
    if !asked.status.success() {
        return Err(io::Error::other(format!("{}: {}", transport.name(), asked.status)));
    }
    let text = String::from_utf8_lossy(&asked.stdout).into_owned();
    Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
}

fn this_program(transport: Transport) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    if transport == Transport::Wire {
        command.env("LONGARM_LOCAL", "off");
    }
    Ok(command)
}

/// A server, killed at the end.
struct Served(Child);

impl Served {
    fn start(transport: Transport) -> io::Result<Served> {
        let mut command = this_program(transport)?;
        command.args(std::env::args().skip(1)).args(["--serve", transport.name()]).stdout(Stdio::piped());
        Ok(Served(command.spawn()?))
    }

    fn address(&mut self) -> io::Result<String> {
        let mut line = String::new();
        let out = self.0.stdout.as_mut().ok_or_else(|| io::Error::other("it has no output"))?;
        io::BufRead::read_line(&mut io::BufReader::new(out), &mut line)?;
        Ok(line.trim().to_owned())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
