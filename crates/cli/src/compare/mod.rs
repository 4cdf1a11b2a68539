//! `longarm compare`: Longarm and its peers, side by side on this machine.
//!
//! ```text
//!  goals, series: the measurements ─► results: rounds, all contenders in turn ─► page, plots
//!                                        │
//!                                        ▼
//!                  tools: longarm perf, perftest, ucx_perftest, iperf3, sockets
//! ```
//!
//! Every figure comes from a new pair of processes on two cores; ratios are those of
//! medians. A failure, or a program that is not installed, is reported in place of its figure.

mod busy;
mod command;
mod document;
mod goals;
mod guest;
mod idle;
mod measure;
mod page;
mod results;
mod runs;
mod scale;
mod series;
mod stats;
mod tools;

pub(crate) use command::{CompareArgs, run};
pub(crate) use idle::resident_bytes;
