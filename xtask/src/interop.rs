//! Longarm against Linux Soft-RoCE in a virtual machine: builds the programs and runs `longarm-interop`.

use crate::run::run;

/// Runs the cases that the arguments select; see `cargo xtask interop --help`.
pub(crate) fn interop(args: &[&str]) -> Result<(), String> {
    run("cargo", &["build", "--quiet", "--package", "longarm-cli"])?;
    run("cargo", &[&["run", "--quiet", "--package", "longarm-interop", "--"], args].concat())
}
