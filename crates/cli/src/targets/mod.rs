//! `longarm targets`: the project's own goals, measured beside their peers in one run.
//!
//! Every figure is a ratio of medians over several rounds, in which the peers and
//! Longarm take turns on the same two cores.

mod command;
mod idle;
mod peers;
mod report;
mod rows;
mod scale;

pub(crate) use command::{TargetsArgs, run};
