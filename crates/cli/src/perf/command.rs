//! The command line of `longarm perf`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs};

use clap::Args;
use comfy_table::{Cell, CellAlignment, Table, presets};

use super::client::{Measurement, measure_stopped};
use super::control::{ControlConnection, ControlRequest};
use super::local::LocalServer;
use super::server;
use super::spec::{Op, Test, TestMode, TestTransport};
use crate::baseline::{never_pin, pin_client};
use crate::error::Error;
use crate::report;

/// The port of `longarm perf-server`.
pub(crate) const PORT: u16 = 18_515;

/// Measure one operation between two processes or two hosts
#[derive(Args, Debug)]
pub(crate) struct PerfArgs {
    /// Operation to measure
    #[arg(value_enum)]
    op: Op,
    /// Transport service
    #[arg(short, long, value_enum, default_value = "rc")]
    transport: TestTransport,
    /// Quantity to measure [default: latency for sizes below 4096 bytes, else stream]
    #[arg(short, long, value_enum)]
    mode: Option<TestMode>,
    /// Bytes per message; several with commas, with suffix K or M: 8,4K,1M; or `all` for 2 bytes to 8 MiB
    #[arg(short, long, default_value = "64")]
    size: String,
    /// Work requests outstanding per queue pair
    #[arg(short, long, default_value_t = 128)]
    depth: u32,
    /// Number of queue pairs
    #[arg(short, long, default_value_t = 1)]
    qps: u32,
    /// Latency: number of round trips
    #[arg(short, long, default_value_t = 20_000)]
    rounds: u32,
    /// Latency: rounds between two reads of the clock; their mean is one sample
    #[arg(long, default_value_t = 1, value_name = "ROUNDS")]
    together: u32,
    /// Stream: threads on each side, each with its own queue pairs and completion queues
    #[arg(short = 'T', long, default_value_t = 1)]
    threads: u32,
    /// READ and atomics: stop the other process during the measurement
    #[arg(long, conflicts_with = "connect")]
    stopped: bool,
    /// Stream: seconds per size
    #[arg(short = 'D', long, default_value_t = 1.0)]
    seconds: f64,
    /// Host that runs `longarm perf-server`, as HOST or HOST:PORT [default: a new process on this host]
    #[arg(short, long)]
    connect: Option<String>,
    /// Address to use on this host [default: 127.0.0.1, or that of the system's RDMA device]
    #[arg(long, conflicts_with = "connect")]
    address: Option<IpAddr>,
    /// Connect queue pairs by address, through the connection manager, not by their numbers. iWARP devices always do
    #[arg(long)]
    by_address: bool,
    /// Print JSON, one object per line
    #[arg(long)]
    json: bool,
    /// Let the scheduler place the two sides [default: each on its own core]
    #[arg(long)]
    unpinned: bool,
}

/// Serve `longarm perf` and `longarm demo` in other processes or on other hosts
#[derive(Args, Debug)]
pub(crate) struct ServeArgs {
    /// Address and port to listen on
    #[arg(short, long, default_value_t = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), PORT))]
    bind: SocketAddr,
    /// Exit after the first client
    #[arg(long)]
    once: bool,
    /// Write the packets that this side sends and receives to a pcapng file
    #[arg(long, value_name = "FILE")]
    capture: Option<std::path::PathBuf>,
    /// Let the scheduler place this process [default: on its own core]
    #[arg(long)]
    unpinned: bool,
}

/// `longarm perf-server`
pub(crate) fn serve(args: &ServeArgs) -> Result<(), Error> {
    if args.unpinned {
        never_pin();
    }
    if args.capture.is_some() {
        super::want_packets()?;
    }
    let listener =
        TcpListener::bind(args.bind).map_err(|e| Error::File(format!("cannot listen on {}", args.bind), e))?;
    println!("listening on {}", listener.local_addr()?);
    loop {
        let mut control = ControlConnection::accept(&listener)?;
        let outcome = server::serve(&mut control, args.capture.as_deref());
        match outcome {
            Err(problem) if args.once => return Err(problem),
            Err(problem) => eprintln!("longarm: a client failed: {problem}"),
            Ok(()) if args.once => return Ok(()),
            Ok(()) => {}
        }
    }
}

/// `longarm perf`
pub(crate) fn run(args: &PerfArgs) -> Result<(), Error> {
    let tests = tests(args)?;
    if args.unpinned {
        never_pin();
    }
    let (server, mut control) = match &args.connect {
        Some(host) => (None, ControlConnection::connect(server_address(host)?)?),
        None => {
            let server = LocalServer::start(args.address.map_or_else(super::default_address, Ok)?, None)?;
            let control = server.connect()?;
            (Some(server), control)
        }
    };
    let stop = server.as_ref().filter(|_| args.stopped).map(LocalServer::pid);
    let address = control.local()?.ip().to_canonical();
    let device = super::open(address)?;
    tests.iter().try_for_each(|test| test.check_device(&device))?;
    if args.by_address || device.capabilities().by_address_only {
        control.agree_on_addresses()?;
    }
    pin_client(0, args.threads as usize);
    let mut results = Vec::new();
    for test in tests {
        let result = measure_stopped(&mut control, &device, address, &test, stop)?;
        if args.json {
            println!("{}", serde_json::to_string(&result).map_err(std::io::Error::from)?);
        }
        results.push(result);
    }
    control.send(&ControlRequest::Bye)?;
    if !args.json {
        println!("{}", table(&results));
    }
    Ok(())
}

/// Resolves the server address that the user gives.
pub(crate) fn server_address(host: &str) -> Result<SocketAddr, Error> {
    let found = host.to_socket_addrs().or_else(|_| (host, PORT).to_socket_addrs());
    found.ok().and_then(|mut all| all.next()).ok_or_else(|| Error::Usage(format!("cannot find the host {host}")))
}

fn tests(args: &PerfArgs) -> Result<Vec<Test>, Error> {
    if args.stopped && (args.op.uses_recv() || args.op == Op::Write) {
        return Err(Error::Usage("--stopped: this operation's latency needs the other process".into()));
    }
    if args.by_address && args.transport != TestTransport::Rc {
        return Err(Error::Usage("--by-address: only RC queue pairs connect that way".into()));
    }
    let sizes = if args.op.is_atomic() { vec![8] } else { sizes(&args.size).map_err(Error::Usage)? };
    let test = |size_bytes| Test {
        op: args.op,
        transport: args.transport,
        mode: args.mode.unwrap_or(if size_bytes < 4096 { TestMode::Latency } else { TestMode::Stream }),
        size_bytes,
        depth: args.depth,
        qps: args.qps,
        rounds: args.rounds,
        together: args.together,
        threads: args.threads,
        duration_ms: (args.seconds.clamp(0.01, 3600.0) * 1e3) as u64,
    };
    let tests: Vec<Test> = sizes.into_iter().map(test).collect();
    tests.iter().try_for_each(Test::check).map_err(Error::Usage)?;
    Ok(tests)
}

/// Parses `8,4K,1M` or `all`.
pub(crate) fn sizes(text: &str) -> Result<Vec<u32>, String> {
    if text == "all" {
        return Ok((1..=23).map(|power| 1 << power).collect());
    }
    text.split(',').map(one_size).collect()
}

fn one_size(text: &str) -> Result<u32, String> {
    let (digits, factor) = match text.trim().to_ascii_uppercase() {
        t if t.ends_with('K') => (t[..t.len() - 1].to_string(), 1 << 10),
        t if t.ends_with('M') => (t[..t.len() - 1].to_string(), 1 << 20),
        t => (t, 1u32),
    };
    let number = digits.parse::<u32>().ok().and_then(|n| n.checked_mul(factor));
    number.ok_or_else(|| format!("--size {text}: give bytes such as 64, 4K or 1M, several with commas, or all"))
}

fn table(results: &[Measurement]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(["operation", "size", "p50", "p99", "messages", "bandwidth", "lost", "sent again"]);
    for r in results {
        let latency = |f: fn(&super::LatencySummary) -> u64| {
            r.latency.as_ref().map_or("–".into(), |l| report::nanoseconds(f(l)))
        };
        let stream = |text: String| if r.latency.is_some() { "–".to_string() } else { text };
        let cells = [
            format!("{} {}", r.test.transport.name(), r.test.op.name()),
            report::size(u64::from(r.test.size_bytes)),
            latency(|l| l.p50_ns),
            latency(|l| l.p99_ns),
            stream(report::count_per_second(r.messages_per_second)),
            stream(report::bytes_per_second(r.bytes_per_second)),
            r.lost_messages.to_string(),
            r.retransmitted_packets.to_string(),
        ];
        table.add_row(cells.into_iter().enumerate().map(|(i, text)| match i {
            0 => Cell::new(text),
            _ => Cell::new(text).set_alignment(CellAlignment::Right),
        }));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        assert_eq!(sizes("8,4K,1m").unwrap(), [8, 4096, 1 << 20]);
        assert_eq!(sizes("all").unwrap().len(), 23);
        for wrong in ["", "x", "4G", "-1", "9999999M", "8,,8"] {
            assert!(sizes(wrong).is_err(), "{wrong:?}");
        }
    }
}
