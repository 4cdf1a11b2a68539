//! The requirements of a run: the guest's image, built once, and a directory of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The directory of the guest's scripts.
pub(crate) const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/guest");

/// The reason why this machine cannot run the lab, if there is one.
pub(crate) fn missing() -> Option<String> {
    let root = std::fs::metadata("/proc/self").map(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0).unwrap_or(false);
    if !root {
        return Some("the lab makes a tap device and a root file system: it must be root".into());
    }
    if !Path::new("/usr/bin/apt-get").exists() {
        return Some("the guest is built with apt-get, of Debian 12".into());
    }
    let wire = "ip link set lo up && ip tuntap add probe0 mode tap";
    let probe = Command::new("unshare").args(["--net", "--mount", "--pid", "--fork", "sh", "-c", wire]).output();
    match probe {
        Ok(probe) if probe.status.success() => None,
        Ok(probe) => {
            let said = String::from_utf8_lossy(&probe.stderr);
            Some(format!("no network namespace with a tap device: {}", said.trim()))
        }
        Err(error) => Some(format!("unshare, of util-linux: {error}")),
    }
}

/// The directory of built files: `LONGARM_LAB`, or one in the user's cache.
pub(crate) fn directory() -> PathBuf {
    if let Some(lab) = std::env::var_os("LONGARM_LAB") {
        return lab.into();
    }
    let home = std::env::var_os("HOME").map_or_else(|| PathBuf::from("/root"), PathBuf::from);
    home.join(".cache/longarm-lab")
}

/// Builds the guest unless it is built already.
pub(crate) fn build(kernel: &str) -> Result<(), String> {
    if !["6.1", "6.12"].contains(&kernel) {
        return Err(format!("no kernel {kernel}: 6.1 or 6.12"));
    }
    let status = Command::new("bash").arg(format!("{SCRIPTS}/build.sh")).arg(kernel).arg(directory()).status();
    let status = status.map_err(|e| format!("bash: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("the guest was not built: {status}")) }
}

/// Builds the driver siw for the guest unless it is built already. A failure only leaves siw out.
pub(crate) fn build_siw(kernel: &str) {
    let status = Command::new("bash").arg(format!("{SCRIPTS}/siw.sh")).arg(kernel).arg(directory()).status();
    if !status.is_ok_and(|status| status.success()) {
        eprintln!("interop: siw cannot be built, and is left out");
    }
}

/// A fresh directory for this run's files; removes those of runs that have ended.
pub(crate) fn run_directory() -> Result<PathBuf, String> {
    let runs = directory().join("runs");
    for run in std::fs::read_dir(&runs).into_iter().flatten().flatten() {
        let process = Path::new("/proc").join(run.file_name());
        if !process.exists() {
            let _ = std::fs::remove_dir_all(run.path());
        }
    }
    let run = runs.join(std::process::id().to_string());
    std::fs::create_dir_all(&run).map_err(|e| format!("{}: {e}", run.display()))?;
    Ok(run)
}
