//! Files, programs and names that all packages need.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::run::root;

/// The version of the workspace, which all packages have.
pub(super) fn version() -> Result<&'static str, String> {
    let version = env!("CARGO_PKG_VERSION");
    match version.chars().all(|c| c.is_ascii_digit() || c == '.') {
        true => Ok(version),
        // Debian and Python write and order pre-releases in ways of their own.
        false => Err(format!("only versions like 1.2.3 can be packaged, not {version}")),
    }
}

/// Turns an error of the system into text: what could not be done, with which file.
pub(super) fn cannot(what: &str, file: &Path) -> impl FnOnce(std::io::Error) -> String {
    let text = format!("cannot {what} {}", file.display());
    move |error| format!("{text}: {error}")
}

/// Writes a file, and makes its folder.
pub(super) fn write(file: &Path, content: &[u8]) -> Result<(), String> {
    let dir = file.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(dir).map_err(cannot("make", dir))?;
    fs::write(file, content).map_err(cannot("write", file))
}

/// Makes a folder and removes what was there.
pub(super) fn empty(dir: &Path) -> Result<(), String> {
    if dir.exists() {
        fs::remove_dir_all(dir).map_err(cannot("remove", dir))?;
    }
    fs::create_dir_all(dir).map_err(cannot("make", dir))
}

/// Runs a program quietly; returns its output.
///
/// # Errors
/// If it fails, with its error output.
pub(super) fn said(command: &mut Command) -> Result<Vec<u8>, String> {
    let output = command.output().map_err(|error| format!("cannot run {command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(format!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// The time that all files in packages have, in seconds since 1970: that of the commit, or `SOURCE_DATE_EPOCH`. Equal
/// sources give equal packages.
pub(super) fn time() -> Result<String, String> {
    if let Ok(set) = std::env::var("SOURCE_DATE_EPOCH") {
        return Ok(set);
    }
    let commit = said(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root()))?;
    Ok(String::from_utf8_lossy(&commit).trim().to_owned())
}
