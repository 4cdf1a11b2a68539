//! `cargo xtask package --try`: installs each package on a clean Debian, runs programs as an ordinary user, removes it.
//!
//! The scripts in `packaging/try` run inside. They have no network but loop-back, so no
//! package loads anything. The container's recipe gets Debian's programs from Debian.

mod cargo_install;
mod clean_root;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clean_root::CleanRoot;

use super::files::{self, cannot, version};
use super::options::Format;
use super::{deb, tarball, wheel};
use crate::packages;
use crate::run::{root, run};

/// Checks that trials can run here, before anything is built.
///
/// # Errors
/// If the user is not root.
pub(super) fn check() -> Result<(), String> {
    let own = fs::metadata("/proc/self").map_err(|error| format!("cannot read /proc/self: {error}"))?;
    match std::os::unix::fs::MetadataExt::uid(&own) {
        0 => packages::install_trials(),
        _ => Err("--try makes file systems for other users and mounts in them: run it as root".into()),
    }
}

/// Tries the packages in `out`.
///
/// # Errors
/// The first failure, after the output of the trial.
pub(super) fn all(formats: &[Format], out: &Path) -> Result<(), String> {
    for format in formats {
        match format {
            Format::Deb => debian(out)?,
            Format::Tarball => in_root("tarball", &out.join(tarball::file_name()?))?,
            Format::Wheel => python(out)?,
            Format::Cargo => cargo()?,
            Format::Container => container(out)?,
        }
        println!("\n{}: installed, used and removed on a clean Debian", format.name());
    }
    Ok(())
}

/// Runs `packaging/try/NAME.sh` in a copy of the system with programs, with one file or folder from here.
fn in_root(name: &str, payload: &Path) -> Result<(), String> {
    let copy = CleanRoot::with_programs()?.copy(name)?;
    copy.take(payload)?;
    copy.run(&script(&format!("{name}.sh")), &[&payload.file_name().unwrap_or_default().to_string_lossy()])
}

fn script(name: &str) -> PathBuf {
    root().join("packaging/try").join(name)
}

/// First on a system with nothing else, then with programs.
fn debian(out: &Path) -> Result<(), String> {
    let file = out.join(deb::file_name()?);
    let copy = CleanRoot::minimal()?.copy("deb-minimal")?;
    copy.take(&file)?;
    copy.run(&script("deb-minimal.sh"), &[&deb::file_name()?])?;
    drop(copy);
    in_root("deb", &file)
}

/// The wheel, whose platform PyPA's tool has to confirm.
fn python(out: &Path) -> Result<(), String> {
    let found = fs::read_dir(out).map_err(cannot("read", out))?.flatten().map(|entry| entry.path());
    let begin = format!("longarm-{}-", version()?);
    let is_wheel = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(&begin) && name.ends_with(".whl")
    };
    let file = found.filter(is_wheel).max().ok_or_else(|| format!("there is no wheel in {}", out.display()))?;
    let platform = file.file_stem().unwrap_or_default().to_string_lossy();
    let platform = platform.rsplit('-').next().unwrap_or_default().to_owned();
    let report = files::said(Command::new(wheel::tools()?).args(["-m", "auditwheel", "show"]).arg(&file))?;
    // The tool breaks its lines anywhere.
    let report = String::from_utf8_lossy(&report).split_whitespace().collect::<Vec<_>>().join(" ");
    println!("\n== auditwheel show\n{report}");
    if !report.contains(&format!("consistent with the following platform tag: \"{platform}\"")) {
        return Err(format!("auditwheel does not confirm that the wheel is one for {platform}"));
    }
    in_root("wheel", &file)
}

/// `cargo install`. Only the command is taken along.
fn cargo() -> Result<(), String> {
    in_root("cargo", &cargo_install::from_workspace()?)?;
    in_root("cargo", &cargo_install::from_registry()?)
}

/// The container's recipe, on a base image made of the minimal system.
fn container(out: &Path) -> Result<(), String> {
    let base = CleanRoot::minimal()?;
    let script = script("container.sh");
    run("sh", &[&*script.to_string_lossy(), &base.path().to_string_lossy(), &out.to_string_lossy()])
}
