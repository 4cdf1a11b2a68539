//! The tarball: an installation that works in any folder.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::build::Build;
use super::files::{self, version};
use super::stage;

/// Writes the tarball; returns its file.
///
/// # Errors
/// If staging or tar fails.
pub(super) fn write(build: &Build, out: &Path) -> Result<PathBuf, String> {
    let name = folder_name()?;
    let parent = out.join("stage-tarball");
    files::empty(&parent)?;
    stage::fill(build, &parent.join(&name))?;
    let file = out.join(file_name()?);
    let time = format!("--mtime=@{}", files::time()?);
    let mut tar = Command::new("tar");
    tar.args(["--create", "--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu", &time]);
    // gzip's own header has a time unless it reads from a pipe with -n.
    tar.args(["--use-compress-program=gzip -9n", "--file"]).arg(&file).arg("--directory").arg(&parent).arg(&name);
    files::said(&mut tar)?;
    std::fs::remove_dir_all(&parent).map_err(files::cannot("remove", &parent))?;
    Ok(file)
}

/// The name of the tarball's file.
pub(super) fn file_name() -> Result<String, String> {
    Ok(format!("{}.tar.gz", folder_name()?))
}

fn folder_name() -> Result<String, String> {
    Ok(format!("longarm-{}-{}-linux", version()?, std::env::consts::ARCH))
}
