//! The command line of `longarm demo`, and its steps.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use device::Provider;

use super::compare::{self, DemoEffort};
use super::matrix::{self, Cases, Matrix, MatrixPart};
use super::progress::DemoProgress;
use super::report;
use crate::baseline::pin_to_core;
use crate::error::Error;
use crate::perf::{ControlConnection, ControlRequest, LocalServer, TestTransport, default_address, open, want_packets};

/// Verify every operation between two processes, then measure them beside TCP and UDP
#[derive(Args, Debug)]
pub(crate) struct DemoArgs {
    /// Directory for the report and the capture
    #[arg(long, default_value = "longarm-demo", value_name = "DIR")]
    dir: PathBuf,
    /// Address to use on this host [default: 127.0.0.1, or that of the system's RDMA device]
    #[arg(long, conflicts_with = "connect")]
    address: Option<IpAddr>,
    /// A host that runs `longarm perf-server`, as HOST or HOST:PORT, instead of a process on this host
    #[arg(long)]
    connect: Option<String>,
    /// Only verify the operations, measure nothing
    #[arg(long)]
    verify_only: bool,
    /// Verify RC only: UC and UD may lose messages where faults are injected
    #[arg(long, requires = "verify_only")]
    reliable_only: bool,
    /// Also write the table of verified operations as Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Seconds per measurement
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
}

/// `longarm demo`
pub(crate) fn run(args: &DemoArgs) -> Result<(), Error> {
    want_packets()?;
    std::fs::create_dir_all(&args.dir).map_err(|e| Error::File(args.dir.display().to_string(), e))?;
    match provider::preferred()? {
        Provider::Longarm => {
            println!(
                "Longarm: two processes, RoCEv2 on UDP port 4791, no RDMA hardware, no kernel module, user {}.",
                user()
            );
            println!("(Queue pairs of one host use shared memory otherwise; this shows the packets.)\n");
        }
        Provider::Verbs => println!("Two processes on an RDMA device of the system, by its libibverbs.\n"),
    }
    let (server, mut control) = peer(args)?;
    let address = control.local()?.ip().to_canonical();
    let device = open(address)?;
    if device.capabilities().by_address_only {
        println!("This device is one of iWARP: its queue pairs connect by address.\n");
        control.agree_on_addresses()?;
    }
    pin_to_core(0);
    let transports: &[TestTransport] = if args.reliable_only { &[TestTransport::Rc] } else { &TestTransport::ALL };
    let abilities = device.capabilities();
    let steps = matrix::steps(transports, &abilities);
    let mut progress = DemoProgress::new(steps + if args.verify_only { 0 } else { compare::steps(&abilities) });

    let capture = args.dir.join("demo.pcapng");
    let mut matrix = Matrix::empty();
    let mut cases = Cases { control: &mut control, device: &device, address, transports };
    cases.fill(MatrixPart::ShortSends, &mut matrix, &mut progress);
    let captures = abilities.instruments;
    if captures {
        device.capture(&capture)?;
    }
    cases.fill(MatrixPart::Rest, &mut matrix, &mut progress);
    device.stop_capture();
    let comparison = match args.verify_only {
        true => None,
        false => Some(compare::run(&mut control, &device, address, effort(args), &mut progress)?),
    };
    progress.finish();
    control.send(&ControlRequest::Bye)?;

    report::print_matrix(&matrix);
    if let Some(comparison) = &comparison {
        report::print_comparison(comparison);
    }
    let page = args.dir.join("report.html");
    if let Some(path) = &args.markdown {
        report::write_markdown(path, &matrix)?;
    }
    report::write_page(&page, &matrix, comparison.as_ref(), device.provider())?;
    finish(&device, server.as_ref(), &page, captures.then_some(&capture));
    match matrix.failures() {
        0 => Ok(()),
        n => Err(Error::Usage(format!("{n} operations failed: see the table"))),
    }
}

fn peer(args: &DemoArgs) -> Result<(Option<LocalServer>, ControlConnection), Error> {
    match &args.connect {
        Some(host) => Ok((None, ControlConnection::connect(crate::perf::server_address(host)?)?)),
        None => {
            let server = LocalServer::start(args.address.map_or_else(default_address, Ok)?, None)?;
            let control = server.connect()?;
            Ok((Some(server), control))
        }
    }
}

fn effort(args: &DemoArgs) -> DemoEffort {
    let seconds = args.seconds.clamp(0.05, 600.0);
    DemoEffort { rounds: (20_000.0 * seconds) as u32, duration: Duration::from_secs_f64(seconds) }
}

fn finish(device: &provider::Device, server: Option<&LocalServer>, page: &Path, capture: Option<&PathBuf>) {
    let counters = device.counters();
    let peer = server.map_or(String::new(), |server| format!(" and process {}", server.pid()));
    if device.capabilities().instruments {
        println!(
            "\nProcess {}{peer}: {} packets sent, {} received, {} dropped.",
            std::process::id(),
            counters.get("tx_packets"),
            counters.get("rx_packets"),
            counters.dropped()
        );
        let drops = counters.iter().filter(|(name, value)| name.starts_with("drop_") && *value != 0);
        for (name, value) in drops {
            println!("  {name}: {value}");
        }
    }
    println!("Report with plots:  {}", page.display());
    if let Some(capture) = capture {
        println!("Packets, verified part, for Wireshark:  {}", capture.display());
    }
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}
