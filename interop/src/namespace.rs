//! The run's own network: a namespace that no other process sees, with one wire to the guest.
//!
//! The run has a process namespace of its own as well. When the run ends, for any reason, the kernel
//! ends the virtual machine, the hub and the programs.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable that says that the program runs in the namespaces; its value is the run's directory.
const MARK: &str = "LONGARM_INTEROP_RUN";

/// The wire's interface on Longarm's side.
pub(crate) const LINK: &str = "lab0";

/// The run's directory, if this process is already in the namespaces.
pub(crate) fn inside() -> Option<PathBuf> {
    std::env::var_os(MARK).map(PathBuf::from)
}

/// Executes this program again in new namespaces; returns only if that fails.
pub(crate) fn enter(run: &Path) -> Result<(), String> {
    let this = std::env::current_exe().map_err(|e| format!("this program: {e}"))?;
    let error = Command::new("unshare")
        .args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--"])
        .arg(this)
        .args(std::env::args_os().skip(1))
        .env(MARK, run)
        .exec();
    Err(format!("unshare, of util-linux: {error}"))
}

/// Makes the wire, with Longarm's addresses on it.
pub(crate) fn set_up() -> Result<(), String> {
    shell(&format!(
        "mount -t sysfs sysfs /sys
         sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0
         ip link set lo up
         ip tuntap add {LINK} mode tap
         ip addr add 10.77.0.1/24 dev {LINK}
         ip addr add fd77::1/64 dev {LINK} nodad"
    ))?;
    set_mtu(1500)
}

/// Sets the wire's MTU on Longarm's side, in bytes.
pub(crate) fn set_mtu(mtu: u32) -> Result<(), String> {
    shell(&format!("ip link set {LINK} mtu {mtu} up"))
}

fn shell(script: &str) -> Result<(), String> {
    let output = Command::new("sh").args(["-e", "-c", script]).output().map_err(|e| format!("sh: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("the run's network: {}", String::from_utf8_lossy(&output.stderr).trim()))
}
