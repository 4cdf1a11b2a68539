//! `longarm demo`: two processes, every operation over the wire and verified, then
//! speed beside TCP and UDP measured in the same run, a report with plots and a capture.

mod command;
mod compare;
mod matrix;
mod progress;
mod report;
pub(crate) mod verify;

pub(crate) use command::{DemoArgs, run};
