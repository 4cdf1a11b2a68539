//! `longarm kv bench`: YCSB on the store, by way and layout, and on Redis, Valkey and memcached beside it.
//!
//! ```text
//!  workload: which keys, which operations ─► measure: threads, batches, times ─► figures, table
//!                                               │
//!           servers: processes, pinned     clients: kv, RESP, memcached
//! ```
//! The core workloads are those of Cooper et al., "Benchmarking Cloud Serving Systems with YCSB", SoCC 2010.

mod args;
mod batch;
mod chart;
mod clients;
mod figures;
mod load;
mod measure;
mod scans;
mod servers;
mod sockets;
mod workload;

pub(super) use args::KvBenchArgs;
pub(super) use workload::{Random, Zipf};

use figures::KvLine;
use load::ServerLoad;
use servers::MeasuredServer;

use crate::error::Error;

/// `longarm kv bench`
pub(super) fn run(args: &KvBenchArgs) -> Result<(), Error> {
    if args.unpinned {
        crate::baseline::never_pin();
    }
    let systems = args.systems()?;
    let mut lines: Vec<KvLine> = Vec::new();
    for (size, system) in args.sizes.iter().flat_map(|size| systems.iter().map(move |system| (*size, system))) {
        let args = &args.with_size(size);
        let server = match MeasuredServer::start(system, args) {
            Ok(server) => server,
            Err(error) if system.is_peer() => {
                eprintln!("{system}: not measured: {error}");
                continue;
            }
            Err(error) => return Err(error),
        };
        measure::load(&server, args)?;
        for case in args.cases(system) {
            if case.load == ServerLoad::Stopped && !system.does_without_server(case.workload) {
                eprintln!("{system}, {}: not measured: it asks the server, which is stopped", case.workload);
                continue;
            }
            let line = match measure::run(&server, &case, args) {
                Ok(line) => line,
                // A client may have had to ask for the server: it met the lock of another one for long.
                Err(error) if case.load == ServerLoad::Stopped => {
                    eprintln!("{system}, {}: not measured while the server is stopped: {error}", case.workload);
                    continue;
                }
                Err(error) => return Err(error),
            };
            if args.json {
                let text = serde_json::to_string(&line).map_err(|error| Error::Usage(error.to_string()))?;
                println!("{text}");
            }
            lines.push(line);
        }
    }
    if let Some(file) = &args.plot {
        chart::write(file, &lines)?;
    }
    if !args.json {
        figures::print(&lines);
    }
    Ok(())
}
