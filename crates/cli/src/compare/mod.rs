//! `longarm compare`: Longarm and its peers, side by side on this machine.
//!
//! ```text
//!  goals, series: what is to be measured ─► results: rounds, in which all take turns ─► page, plots
//!                                              │
//!                                              ▼
//!                        tools: longarm perf, perftest, ucx_perftest, iperf3, sockets
//! ```
//!
//! Every figure comes from a pair of processes of its own on two cores; ratios are those of
//! medians. What failed, and what is not installed, is told in place of its figure.

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
