//! A Debian in a folder, made by debootstrap once, copied for each trial.

use std::fs;
use std::path::{Path, PathBuf};

use super::super::build::target_directory;
use super::super::files::{self, cannot};
use crate::run::{root, run};

const MIRROR: &str = "http://deb.debian.org/debian";
const RELEASE: &str = "bookworm";
/// The packages of the system with programs, besides Debian's smallest system.
const PROGRAMS: &str = "ibverbs-utils,rdmacm-utils,python3-pyverbs,python3-venv,python3-pip";

/// The file system of a machine on which nothing of Longarm is. Dropping a copy removes it.
#[derive(Debug)]
pub(super) struct CleanRoot {
    path: PathBuf,
    is_copy: bool,
}

impl CleanRoot {
    /// Debian's smallest system.
    ///
    /// # Errors
    /// If debootstrap fails, for example without a network.
    pub(super) fn minimal() -> Result<CleanRoot, String> {
        CleanRoot::make("minimal", &[])
    }

    /// The same with programs that use RDMA, and Python.
    ///
    /// # Errors
    /// As [`CleanRoot::minimal`].
    pub(super) fn with_programs() -> Result<CleanRoot, String> {
        CleanRoot::make("programs", &[&format!("--include={PROGRAMS}")])
    }

    fn make(name: &str, options: &[&str]) -> Result<CleanRoot, String> {
        let path = target_directory().join("package-roots").join(name);
        let mark = path.with_extension("complete");
        if !mark.is_file() {
            files::empty(&path)?;
            let dir = path.to_string_lossy();
            run("debootstrap", &[&["--variant=minbase"], options, &[RELEASE, &*dir, MIRROR]].concat())?;
            fs::write(&mark, "").map_err(cannot("write", &mark))?;
        }
        Ok(CleanRoot { path, is_copy: false })
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A copy for one trial.
    pub(super) fn copy(&self, name: &str) -> Result<CleanRoot, String> {
        let path = target_directory().join("package-roots").join(format!("try-{name}"));
        if path.exists() {
            fs::remove_dir_all(&path).map_err(cannot("remove", &path))?;
        }
        let (from, to) = (self.path.to_string_lossy(), path.to_string_lossy());
        run("cp", &["--archive", "--reflink=auto", &from, &to])?;
        Ok(CleanRoot { path, is_copy: true })
    }

    /// Copies a file into the folder `/packages`.
    pub(super) fn take(&self, file: &Path) -> Result<(), String> {
        let name = file.file_name().ok_or_else(|| format!("{} is no file", file.display()))?;
        let to = self.path.join("packages").join(name);
        files::write(&to, &fs::read(file).map_err(cannot("read", file))?)?;
        let modes = fs::metadata(file).map_err(cannot("read", file))?.permissions();
        fs::set_permissions(&to, modes).map_err(cannot("write", &to))
    }

    /// Runs a script inside as root; its functions come from `packaging/try/common.sh`.
    ///
    /// # Errors
    /// If the script fails.
    pub(super) fn run(&self, script: &Path, arguments: &[&str]) -> Result<(), String> {
        let common = root().join("packaging/try");
        for file in [script, &common.join("common.sh"), &common.join("programs.sh")] {
            self.take(file)?;
        }
        let name = script.file_name().unwrap_or_default().to_string_lossy();
        let enter = common.join("enter.sh");
        let inside = ["/bin/sh", "-eu", &format!("/packages/{name}")].map(str::to_owned);
        let mut words = vec!["--mount", "--net", "--pid", "--fork", "--ipc", "--propagation", "private", "sh", "-eu"];
        let (enter, dir) = (enter.to_string_lossy(), self.path.to_string_lossy());
        words.extend([&*enter, &*dir]);
        words.extend(inside.iter().map(String::as_str));
        words.extend(arguments);
        run("unshare", &words)
    }
}

impl Drop for CleanRoot {
    fn drop(&mut self) {
        if self.is_copy {
            // The next trial of that name removes what is left.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}
