//! Finds and installs the Debian packages of RDMA programs that this machine lacks.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::error::StartFailure;
use super::options::RunOptions;
use super::program;

/// Debian's packages, and prefixes of their programs' names.
const PACKAGES: [(&str, &[&str]); 6] = [
    ("perftest", &["ib_", "raw_ethernet_", "run_perftest_"]),
    ("ibverbs-utils", &["ibv_"]),
    ("qperf", &["qperf"]),
    ("ucx-utils", &["ucx_"]),
    ("rdmacm-utils", &["rping", "ucmatose", "udaddy", "mckey", "rstream", "rcopy", "riostream", "rdma_", "cmtime"]),
    ("libfabric-bin", &["fi_"]),
];

/// The package that contains a program.
pub(super) fn package_of(name: &str) -> Option<&'static str> {
    let brings = |names: &[&str]| names.iter().any(|begin| name.starts_with(begin));
    PACKAGES.iter().find(|(_, names)| brings(names)).map(|(package, _)| *package)
}

/// Finds a command's file. If there is none and the options ask for it, installs its package first.
///
/// # Errors
/// Those of [`program::resolve`], and failures of the installation.
pub(crate) fn resolve(command: &OsStr, options: &RunOptions) -> Result<PathBuf, StartFailure> {
    if command == crate::rdma::NAME {
        // The program finds Longarm's own `rdma` before the system's; this function does the same.
        return std::env::current_exe().map_err(StartFailure::system("find this program"));
    }
    let name = match program::resolve(command) {
        Err(StartFailure::NotFound { name, .. }) if options.install => name,
        Err(StartFailure::NotFound { name, .. }) => return Err(StartFailure::NotFound { hint: hint(&name), name }),
        other => return other,
    };
    let Some(package) = package_of(&name) else {
        let hint = "; --install knows no package that contains it".into();
        return Err(StartFailure::NotFound { name, hint });
    };
    eprintln!("longarm: {name} is in Debian's package {package}: installing it");
    install(package)?;
    program::resolve(command)
}

fn hint(name: &str) -> String {
    package_of(name)
        .map(|package| format!("; Debian's package {package} contains it: apt-get install {package}, or use --install"))
        .unwrap_or_default()
}

/// Runs the package manager as root, with sudo if needed.
fn install(package: &str) -> Result<(), StartFailure> {
    let prefix: &[&str] = match rustix::process::geteuid().is_root() {
        true => &[],
        false if has_sudo() => &["sudo"],
        false => {
            return Err(StartFailure::Usage(format!(
                "{package} cannot be installed by this user without a password; please run: sudo apt-get install {package}"
            )));
        }
    };
    let apt = |arguments: &[&str]| {
        let words: Vec<&str> =
            prefix.iter().copied().chain(["apt-get", "-qq"]).chain(arguments.iter().copied()).collect();
        let mut child = Command::new(words[0]);
        child.args(&words[1..]).env("DEBIAN_FRONTEND", "noninteractive").stdout(Stdio::null());
        let status = child.status().map_err(StartFailure::system("run apt-get"))?;
        if status.success() {
            return Ok(());
        }
        Err(StartFailure::Usage(format!("`{}` failed", words.join(" "))))
    };
    let install = ["install", "-y", "--no-install-recommends", package];
    // The list of packages may be old or missing.
    apt(&install).or_else(|_| apt(&["update"]).and_then(|()| apt(&install)))
}

/// Whether sudo works without a password.
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
