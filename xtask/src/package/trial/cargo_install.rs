//! `cargo install`, from the workspace and as from crates.io.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::build::target_directory;
use super::super::files::{self, cannot, version};
use crate::run::{root, run};

/// The crates that are not published: chores, tests and what only they use.
const PRIVATE: [&str; 4] = ["xtask", "longarm-interop", "longarm-sim", "longarm-testkit"];

/// Installs the command from the workspace; returns its file.
///
/// # Errors
/// If cargo fails.
pub(super) fn from_workspace() -> Result<PathBuf, String> {
    let installed = target_directory().join("install-workspace");
    files::empty(&installed)?;
    let what = ["--path", "crates/cli", "--profile", "dist", "--locked"];
    run("cargo", &[&["install", "--quiet", "--root", &*installed.to_string_lossy()], &what[..]].concat())?;
    Ok(installed.join("bin/longarm"))
}

/// Installs the command from crates as they would be published; returns its file. A folder stands for crates.io. A
/// dependency from there has a hash in its library's name, unlike one of the workspace.
///
/// # Errors
/// If a crate cannot be packaged, or does not build by itself.
pub(super) fn from_registry() -> Result<PathBuf, String> {
    let registry = target_directory().join("package-registry");
    publish(&registry)?;
    let (installed, build) =
        (target_directory().join("install-registry"), target_directory().join("install-registry-build"));
    files::empty(&installed)?;
    let directory = format!("source.packages.directory={:?}", registry.to_string_lossy());
    let sources = ["--config", "source.crates-io.replace-with=\"packages\"", "--config", &directory, "--offline"];
    let (installed_at, build) = (installed.to_string_lossy(), build.to_string_lossy());
    let what = ["longarm-cli", "--locked", "--root", &installed_at, "--target-dir", &build];
    run("cargo", &[&["install", "--quiet"], &what[..], &sources].concat())?;
    Ok(installed.join("bin/longarm"))
}

/// Fills a folder with our crates and all others, as cargo's directory source wants them.
fn publish(registry: &Path) -> Result<(), String> {
    files::empty(registry)?;
    let dir = registry.to_string_lossy();
    let excluded: Vec<&str> = PRIVATE.iter().flat_map(|name| ["--exclude", name]).collect();
    // Without `--allow-dirty` a change that is not committed could not be tried.
    let options = ["--workspace", "--no-verify", "--locked", "--quiet", "--allow-dirty"];
    run("cargo", &[&["package"], &options[..], &excluded].concat())?;
    run("cargo", &["vendor", "--locked", "--quiet", &dir])?;
    let crates = target_directory().join("package");
    let end = format!("-{}.crate", version()?);
    let entries = fs::read_dir(&crates).map_err(cannot("read", &crates))?.flatten().map(|entry| entry.path());
    for file in entries.filter(|path| path.to_string_lossy().ends_with(&end)) {
        unpack(&file, registry)?;
    }
    Ok(())
}

/// Unpacks a crate, with the checksum by which cargo's lock file knows it.
fn unpack(file: &Path, registry: &Path) -> Result<(), String> {
    files::said(Command::new("tar").arg("-xzf").arg(file).arg("-C").arg(registry))?;
    let sum = files::said(Command::new("sha256sum").arg(file).current_dir(root()))?;
    let sum = String::from_utf8_lossy(&sum);
    let sum = sum.split_whitespace().next().ok_or("sha256sum says nothing")?;
    let folder = registry.join(file.file_stem().unwrap_or_default());
    files::write(&folder.join(".cargo-checksum.json"), format!("{{\"files\":{{}},\"package\":\"{sum}\"}}").as_bytes())
}
