//! Compares Longarm with its peers. This module builds Longarm; `longarm compare` does the rest, and
//! `longarm-interop` runs the virtual machine. It also starts the counts of callgrind.

use crate::packages;
use crate::run::{root, run};

/// The argument that asks for the virtual machine.
const VM: &str = "--vm";

/// Runs the comparison that the arguments select; see `cargo xtask compare --help`.
pub(crate) fn compare(args: &[&str]) -> Result<(), String> {
    let (vm, mut args): (Vec<&str>, Vec<&str>) = args.iter().partition(|arg| **arg == VM);
    if !args.contains(&"--help") {
        packages::install()?;
    }
    run("cargo", &["build", "--quiet", "--release", "--package", "longarm-cli"])?;
    let guest = root().join("target/compare-guest");
    let guest = guest.to_str().ok_or("the repository's path is not UTF-8")?;
    if !vm.is_empty() {
        let _ = std::fs::remove_dir_all(guest);
        let rounds = if args.contains(&"--quick") { "1" } else { "3" };
        let interop = ["run", "--quiet", "--release", "--package", "longarm-interop", "--"];
        run("cargo", &[&interop[..], &["--speed", guest, "--repeat", rounds]].concat())?;
        args.extend(["--guest", guest]);
    }
    run("cargo", &[&["run", "--quiet", "--release", "--package", "longarm-cli", "--", "compare"], &args[..]].concat())
}

/// Counts instructions and cache misses of each message, for all rows or the named ones.
pub(crate) fn count(rows: &[&str]) -> Result<(), String> {
    packages::install()?;
    let example = ["run", "--quiet", "--release", "--package", "longarm-device", "--features", "testing", "--example"];
    run("cargo", &[&example[..], &["count", "--"], rows].concat())
}
