//! The build that packages are made of: the command and the library, without symbols for debuggers.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::elf::{self, Glibc};
use super::files::cannot;
use crate::run::{root, run};

/// The command and the library of one build.
#[derive(Debug)]
pub(super) struct Build {
    /// The file `longarm`.
    pub(super) command: PathBuf,
    /// The file `libibverbs.so`, which is librdmacm as well.
    pub(super) library: PathBuf,
}

impl Build {
    /// Builds with optimisation. The command does not contain the library: packages bring it as a file.
    ///
    /// # Errors
    /// If the build fails, or the machine is not one that Longarm's library is written for.
    pub(super) fn of_release() -> Result<Build, String> {
        // The library's symbols are in assembly for this processor.
        if std::env::consts::ARCH != "x86_64" {
            return Err(format!("packages are made on x86_64 only, not on {}", std::env::consts::ARCH));
        }
        let what = ["-p", "longarm-cli", "--no-default-features"];
        run("cargo", &[&["build", "--profile", "dist", "--locked"], &what[..]].concat())?;
        Build::of_directory(&target_directory().join("dist"))
    }

    /// Takes the build in a directory of cargo's.
    ///
    /// # Errors
    /// If it has no command or no library.
    pub(super) fn of_directory(directory: &Path) -> Result<Build, String> {
        let (command, library) = (directory.join("longarm"), directory.join("deps/libibverbs.so"));
        for file in [&command, &library] {
            if !file.is_file() {
                return Err(format!("there is no {}: build it by `cargo build -p longarm-cli`", file.display()));
            }
        }
        Ok(Build { command, library })
    }

    /// The release of glibc that both need.
    ///
    /// # Errors
    /// If objdump fails.
    pub(super) fn glibc(&self) -> Result<Glibc, String> {
        elf::needed(&[&self.command, &self.library])
    }

    /// Copies both without debug symbols.
    ///
    /// # Errors
    /// If a file cannot be written or strip, of Debian's package binutils, fails.
    pub(super) fn copy(&self, command: &Path, library: &Path) -> Result<(), String> {
        for (from, to) in [(&self.command, command), (&self.library, library)] {
            let dir = to.parent().unwrap_or(Path::new("/"));
            fs::create_dir_all(dir).map_err(cannot("make", dir))?;
            let mut strip = Command::new("strip");
            strip.args(["--strip-unneeded", "-o"]).arg(to).arg(from);
            let status = strip.status().map_err(|error| format!("cannot run strip: {error}"))?;
            if !status.success() {
                return Err(format!("strip {} failed: {status}", from.display()));
            }
        }
        // Nobody executes a library.
        fs::set_permissions(library, Permissions::from_mode(0o644)).map_err(cannot("write", library))
    }
}

/// Cargo's target directory.
pub(super) fn target_directory() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |dir| root().join(dir))
}
