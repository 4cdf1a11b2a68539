//! The test suites of the crate `longarm`, its examples and the command, on the devices of the guest's kernel: the
//! provider `verbs` on real drivers.
//!
//! The test binaries run in the guest as they are, one process for each test. A test whose subject the device lacks says
//! so in a line; [`LACKING`] lists these lines, and the run compares them.

#[cfg(test)]
mod document;
mod guest_runs;
mod lacking;

pub(crate) use guest_runs::all;
#[cfg(test)]
pub(crate) use lacking::Lacking;
pub(crate) use lacking::{COMMANDS, LACKING, SuiteDevice};

/// The suites, in the order in which they run. Those with `true` are part of the short run.
pub(crate) const SUITES: [(&str, bool); 13] = [
    ("operations", true),
    ("promise", false),
    ("connections", true),
    ("disconnects", false),
    ("connecting", false),
    ("datagrams", true),
    ("asynchronous", false),
    ("polling", false),
    ("sharing", false),
    ("accepting", false),
    ("given_memory", false),
    ("extensions", false),
    ("examples", false),
];
