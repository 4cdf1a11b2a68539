//! The command line of `longarm-interop`.

use std::path::PathBuf;

use clap::Parser;

/// Runs Longarm against Linux Soft-RoCE (rxe) in a virtual machine.
#[derive(Parser)]
pub(crate) struct InteropOptions {
    /// Run a few cases of each kind; where the lab cannot run, report that and succeed.
    #[arg(long)]
    pub(crate) short: bool,
    /// Run only cases whose group and name contain this text.
    #[arg(long, default_value = "")]
    pub(crate) only: String,
    /// Kernel of the guest: 6.1 or 6.12.
    #[arg(long, default_value = "6.1")]
    pub(crate) kernel: String,
    /// Number of runs of each case.
    #[arg(long, default_value_t = 1)]
    pub(crate) repeat: u32,
    /// Capture the wire during each case, into the run's directory.
    #[arg(long)]
    pub(crate) capture: bool,
    /// Print all differences of packets, also the explained ones.
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Measure in the guest instead: perftest on rxe, siw and Longarm. Their output goes to files in this
    /// directory.
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) speed: Option<PathBuf>,
    /// Also run the programs of this directory on the guest's rxe and siw: the test binaries of the crate `longarm` by
    /// their names, its examples in `programs`, and the command `longarm`. `cargo xtask interop` makes it.
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) suites: Option<PathBuf>,
    /// Only compare the packets of one address in a capture with those of an address in another capture.
    #[arg(long, num_args = 4, value_names = ["OURS", "ADDRESS", "GOLDEN", "ADDRESS"])]
    pub(crate) compare: Option<Vec<String>>,
}
