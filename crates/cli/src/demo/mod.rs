//! `longarm demo`: two processes run every operation over the wire and verify it. Then it measures
//! the speed beside TCP and UDP in the same run, and writes a report with plots and a capture.

mod command;
mod compare;
mod matrix;
mod progress;
mod report;
pub(crate) mod verify;

pub(crate) use command::{DemoArgs, run};
