//! Programs of the field that are not on this machine: where they come from, and getting them.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::error::Failure;
use super::options::Options;
use super::program;

/// Debian's packages, and how the names of their programs begin.
const PACKAGES: [(&str, &[&str]); 6] = [
    ("perftest", &["ib_", "raw_ethernet_", "run_perftest_"]),
    ("ibverbs-utils", &["ibv_"]),
    ("qperf", &["qperf"]),
    ("ucx-utils", &["ucx_"]),
    ("rdmacm-utils", &["rping", "ucmatose", "udaddy", "mckey", "rstream", "rcopy", "riostream", "rdma_", "cmtime"]),
    ("libfabric-bin", &["fi_"]),
];

/// The package that brings a program.
pub(super) fn package_of(name: &str) -> Option<&'static str> {
    let brings = |names: &[&str]| names.iter().any(|begin| name.starts_with(begin));
    PACKAGES.iter().find(|(_, names)| brings(names)).map(|(package, _)| *package)
}

/// Finds a command's file; if it is not there and the options say so, gets it first.
///
/// # Errors
/// As [`program::resolve`], and what went wrong with the package.
pub(crate) fn resolve(command: &OsStr, options: &Options) -> Result<PathBuf, Failure> {
    if command == crate::rdma::NAME {
        // The program will find ours before the system's, and so do we.
        return std::env::current_exe().map_err(Failure::system("find myself"));
    }
    let name = match program::resolve(command) {
        Err(Failure::NotFound { name, .. }) if options.install => name,
        Err(Failure::NotFound { name, .. }) => return Err(Failure::NotFound { hint: hint(&name), name }),
        other => return other,
    };
    let Some(package) = package_of(&name) else {
        let hint = "; --install knows no package that brings it".into();
        return Err(Failure::NotFound { name, hint });
    };
    eprintln!("longarm: {name} comes with Debian's package {package}: installing that");
    install(package)?;
    program::resolve(command)
}

fn hint(name: &str) -> String {
    package_of(name)
        .map(|package| format!("; Debian's package {package} brings it: apt-get install {package}, or say --install"))
        .unwrap_or_default()
}

/// As root by the package manager, with sudo if need be.
fn install(package: &str) -> Result<(), Failure> {
    let prefix: &[&str] = match rustix::process::geteuid().is_root() {
        true => &[],
        false if has_sudo() => &["sudo"],
        false => {
            return Err(Failure::Usage(format!(
                "{package} cannot be installed by this user without a password; please run: sudo apt-get install {package}"
            )));
        }
    };
    let apt = |arguments: &[&str]| {
        let words: Vec<&str> =
            prefix.iter().copied().chain(["apt-get", "-qq"]).chain(arguments.iter().copied()).collect();
        let mut child = Command::new(words[0]);
        child.args(&words[1..]).env("DEBIAN_FRONTEND", "noninteractive").stdout(Stdio::null());
        let status = child.status().map_err(Failure::system("run apt-get"))?;
        if status.success() {
            return Ok(());
        }
        Err(Failure::Usage(format!("`{}` failed", words.join(" "))))
    };
    let install = ["install", "-y", "--no-install-recommends", package];
    // The list of packages may be old, or not there at all.
    apt(&install).or_else(|_| apt(&["update"]).and_then(|()| apt(&install)))
}

/// Whether sudo would do it without asking.
fn has_sudo() -> bool {
    let mut sudo = Command::new("sudo");
    sudo.args(["-n", "true"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    sudo.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_the_field_have_a_package() {
        assert_eq!(package_of("ib_write_bw"), Some("perftest"));
        assert_eq!(package_of("ibv_devinfo"), Some("ibverbs-utils"));
        assert_eq!(package_of("ls"), None);
    }
}
