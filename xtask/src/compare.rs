//! Longarm beside its peers: builds it, and leaves the rest to `longarm compare`; the virtual
//! machine to `longarm-interop`. And what callgrind counts.

use crate::packages;
use crate::run::{root, run};

/// Asks for the virtual machine.
const VM: &str = "--vm";

/// Runs what the arguments ask for; see `cargo xtask compare --help`.
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

/// Counts instructions and cache misses of each message, or of the rows named.
pub(crate) fn count(rows: &[&str]) -> Result<(), String> {
    packages::install()?;
    let example = ["run", "--quiet", "--release", "--package", "longarm-device", "--features", "testing", "--example"];
    run("cargo", &[&example[..], &["count", "--"], rows].concat())
}
