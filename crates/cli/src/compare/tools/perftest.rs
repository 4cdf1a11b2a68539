//! Unmodified perftest programs, run by `longarm run`.

use std::process::Command;
use std::time::Duration;

use super::api;
use super::effort::{ADDRESS, Effort};
use super::sides::{CLIENT, SERVER, ask, free_port, pinned, serve};
use crate::compare::measure::{Measure, MessagePath, Quantity, TestVerb};

pub(super) fn measure(measure: &Measure, message_path: MessagePath, effort: &Effort) -> Result<f64, String> {
    let port = free_port()?;
    let _server = serve(&mut side(SERVER, measure, message_path, port, effort)?, port)?;
    let mut client = side(CLIENT, measure, message_path, port, effort)?;
    parse(&ask(client.arg(ADDRESS.to_string()), effort.duration * 4 + Duration::from_secs(60))?, measure.quantity)
}

/// The command of one side, without the server's address.
fn side(
    core: usize,
    measure: &Measure,
    message_path: MessagePath,
    port: u16,
    effort: &Effort,
) -> Result<Command, String> {
    let this = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut command = pinned(core, &this.to_string_lossy());
    command.envs(api::environment(message_path).iter().copied()).args(["run", "--", measure.perftest_program()]);
    command.args(["-d", &effort.device, "-p", &port.to_string()]);
    command.args(options(measure, count(measure, effort)).split_whitespace());
    Ok(command)
}

/// The number of iterations that takes about the wanted time.
fn count(measure: &Measure, effort: &Effort) -> u32 {
    match measure.quantity {
        Quantity::Latency => effort.rounds(measure),
        // The estimate is 700 ns per message and 5 GB/s for the bytes.
        _ => effort.times(700.0 + f64::from(measure.size_bytes) / 5.0, 500, 5_000_000).max(measure.qps * 50),
    }
}

/// The options of a test. Latency tests print all results, because the summary rounds to 10 ns. The
/// others print the mean, without a read of the clock for every message.
fn options(measure: &Measure, count: u32) -> String {
    let Measure { size_bytes, qps, .. } = measure;
    let size = if measure.verb == TestVerb::FetchAdd { String::new() } else { format!(" -s {size_bytes}") };
    match measure.quantity {
        Quantity::Latency => format!("-F -H -n {count}{size}"),
        _ => {
            let depth = measure.depth();
            // A server of many queue pairs waits for ever if the count is not a multiple of the depth.
            let each = count.div_ceil(*qps).next_multiple_of(depth);
            format!("-F -N --report_gbits -n {each}{size} -q {qps} -t {depth}")
        }
    }
}

/// The figure in a client's output.
pub(crate) fn parse(text: &str, quantity: Quantity) -> Result<f64, String> {
    let figure = match quantity {
        Quantity::Latency => latency_ns(text),
        // The column is in gigabits.
        Quantity::Bandwidth => column(text, "BW average").map(|gigabits| gigabits * 1e9 / 8.0),
        Quantity::Rate => column(text, "MsgRate").map(|millions| millions * 1e6),
    };
    figure.ok_or_else(|| format!("perftest said: {}", text.lines().last().unwrap_or("nothing")))
}

/// The median of all results if they are printed, else the typical latency of the summary.
fn latency_ns(text: &str) -> Option<f64> {
    let all = text.lines().skip_while(|line| !line.starts_with("#, usec")).skip(1);
    let results = all.map_while(|line| {
        let (number, result) = line.split_once(", ")?;
        number.parse::<u64>().ok()?;
        result.parse::<f64>().ok()
    });
    let results: Vec<f64> = results.collect();
    crate::compare::stats::median(&results).or_else(|| column(text, "t_typical")).map(|us| us * 1e3)
}

/// The last line's figure in the column with this name.
pub(crate) fn column(text: &str, name: &str) -> Option<f64> {
    let heading = text.lines().rfind(|line| line.trim_start().starts_with("#bytes"))?;
    // A name ends with its unit in brackets or has none; "BW average" contains a blank.
    let names: Vec<&str> = heading.split("  ").flat_map(|part| part.split(']')).map(str::trim).collect();
    let names = names.iter().filter(|part| !part.is_empty()).flat_map(|part| match part.strip_prefix("#bytes ") {
        Some(rest) => vec!["#bytes", rest],
        None => vec![*part],
    });
    let index = names.into_iter().position(|part| part.starts_with(name))?;
    let after = text.lines().skip_while(|line| *line != heading).skip(1);
    let figures = after.map(|line| line.split_whitespace().collect::<Vec<_>>()).find(|words| words.len() > index)?;
    figures[index].parse().ok()
}

#[cfg(test)]
#[path = "perftest_tests.rs"]
mod tests;
