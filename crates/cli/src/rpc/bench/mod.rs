//! `longarm rpc bench`: latency and rate of calls, by way, size and number of clients.
//!
//! The measured server is a process of its own, here or on another host. Client threads poll; each thread has a core,
//! and so has the server's polling thread.

mod args;
mod calls;
mod case;
mod chart;
mod clients;
mod figures;
mod idle;
mod latency;
mod load;
mod local;
mod measure;
mod rate;
mod server;
mod switches;
mod table;

pub(super) use args::RpcBenchArgs;

use figures::{BenchLine, BenchPath};
use local::BenchServer;

use crate::baseline::{never_pin, pin_client};
use crate::error::Error;

/// `longarm rpc bench`
pub(super) fn run(args: &RpcBenchArgs) -> Result<(), Error> {
    if args.unpinned {
        never_pin();
    }
    raise_descriptors();
    if let Some(address) = &args.listen {
        return server::serve(address, args);
    }
    let plan = args.plan()?;
    let server = match &args.connect {
        Some(host) => BenchServer::at(host, args)?,
        None => BenchServer::start(args)?,
    };
    let path = BenchPath::of(args.connect.is_some());
    pin_client(0, args.threads as usize);
    let mut lines = Vec::new();
    for case in &plan {
        let line = measure::line(case, &server, path, plan.len() > 1)?;
        add(line, args.json, &mut lines)?;
    }
    for case in args.idle_cases(&plan) {
        let line = idle::line(&case, &server, path, plan.len() > 1)?;
        add(line, args.json, &mut lines)?;
    }
    if !args.json {
        table::print(&lines);
    }
    match &args.plot {
        Some(file) => chart::write(file, &lines, args.mode()),
        None => Ok(()),
    }
}

fn add(line: BenchLine, json: bool, lines: &mut Vec<BenchLine>) -> Result<(), Error> {
    if json {
        println!("{}", serde_json::to_string(&line).map_err(std::io::Error::from)?);
    }
    lines.push(line);
    Ok(())
}

/// Lets this process open as many files as the system allows: each client has some.
fn raise_descriptors() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}
