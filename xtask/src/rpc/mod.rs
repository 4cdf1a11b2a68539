//! `cargo xtask compare --rpc`: longarm-rpc beside its floor, sockets, tonic and tarpc, on this machine.
//!
//! ```text
//!  rows: the targets ─► results: rounds, all programs in turn ─► page: docs/rpc-results.md
//!                          │
//!                          ▼
//!        figure: longarm rpc bench, longarm perf, the example `peers`
//! ```

mod figure;
mod options;
mod page;
mod results;
mod rows;
mod spin;

use crate::run::{root, run};
use options::RpcOptions;
use results::RpcResults;

/// Builds the programs, runs them in turn, and writes the page.
pub(crate) fn compare(args: &[&str]) -> Result<(), String> {
    let options = RpcOptions::parse(args)?;
    if options.from.is_none() {
        run("cargo", &["build", "--quiet", "--release", "--package", "longarm-cli"])?;
        run("cargo", &["build", "--quiet", "--release", "--package", "longarm-rpc", "--example", "peers"])?;
    }
    let programs = root().join(options.from.clone().unwrap_or_else(|| "target/release".into()));
    let rows = rows::rows(&options);
    let mut results = RpcResults::default();
    results.fill(&rows, options.rounds, &programs);
    let text = page::page(&rows, &results, &options);
    println!("{text}");
    match &options.page {
        Some(file) => std::fs::write(root().join(file), text).map_err(|e| format!("{}: {e}", file.display())),
        None => Ok(()),
    }
}
