//! `cargo xtask compare --kv`: the key-value store beside READ, Redis, Valkey and memcached, on this machine.
//!
//! ```text
//!  plan: commands ─► results: rounds, all commands in turn ─► page: docs/kv-results.md
//! ```

mod axes;
mod counted;
mod doors;
mod durable;
mod options;
mod page;
mod plan;
mod results;

use crate::run::{root, run};
use options::KvCompareOptions;
use results::KvResults;

/// Builds the program, runs it, and writes the page.
pub(crate) fn compare(args: &[&str]) -> Result<(), String> {
    let options = KvCompareOptions::parse(args)?;
    if options.from.is_none() {
        run("cargo", &["build", "--quiet", "--release", "--package", "longarm-cli"])?;
    }
    let directory = options.from.clone().unwrap_or_else(|| "target/release".into());
    let program = root().join(directory).join("longarm");
    let mut results = KvResults::default();
    for round in 1..=options.rounds {
        eprintln!("round {round} of {}", options.rounds);
        for command in plan::commands(&options).into_iter().chain(axes::commands(&options)) {
            results.add(&command, &program);
        }
        doors::measure(&mut results, &program, &options);
    }
    durable::measure(&mut results, &program, &options);
    let text = page::page(&results, &options);
    println!("{text}");
    let Some(file) = &options.page else { return Ok(()) };
    std::fs::write(root().join(file), text).map_err(|e| format!("{}: {e}", file.display()))?;
    draw(&program, options.seconds)
}

/// Draws the plots that the page shows.
fn draw(program: &std::path::Path, seconds: f64) -> Result<(), String> {
    let text = |path: std::path::PathBuf| path.display().to_string();
    let (occupancy, cache) = ("docs/kv-reads-occupancy.svg", "docs/kv-reads-cache.svg");
    let plots = [("--plot-occupancy", occupancy), ("--plot-cache", cache)]
        .map(|(flag, file)| [flag.into(), text(root().join(file))]);
    let arguments: Vec<String> =
        ["kv".into(), "layouts".into()].into_iter().chain(plots.into_iter().flatten()).collect();
    let program = text(program.to_owned());
    run(&program, &arguments.iter().map(String::as_str).collect::<Vec<_>>())?;
    let puts = axes::plot(&text(root().join(axes::PUTS_PLOT)), seconds);
    run(&program, &puts.split(' ').collect::<Vec<_>>())
}
