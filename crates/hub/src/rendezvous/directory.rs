//! The private directory.

use super::RendezvousError;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::env;
use std::os::fd::OwnedFd;
use std::os::linux::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The environment variable that names the directory.
pub const RUNTIME_DIR_VARIABLE: &str = "LONGARM_RUNTIME_DIR";

/// Chooses, makes if necessary, opens and checks the directory.
pub(super) fn open(runtime_dir: Option<&Path>) -> Result<(PathBuf, OwnedFd), RendezvousError> {
    let uid = rustix::process::geteuid().as_raw();
    let path = match runtime_dir {
        Some(path) => path.to_owned(),
        None => choose(uid, |name| env::var_os(name).map(PathBuf::from), Path::new("/run/user")),
    };
    make(&path)?;
    let directory = open_private(&path, uid)?;
    Ok((path, directory))
}

/// Chooses the directory. Another user's `XDG_RUNTIME_DIR`, as `su` and `sudo` may leave
/// behind, does not count: what we made there would be in that user's way.
pub(super) fn choose(uid: u32, variable: impl Fn(&str) -> Option<PathBuf>, run_user: &Path) -> PathBuf {
    let set = |name| variable(name).filter(|path| path.is_absolute());
    if let Some(path) = set(RUNTIME_DIR_VARIABLE) {
        return path;
    }
    let session = set("XDG_RUNTIME_DIR").into_iter().chain([run_user.join(uid.to_string())]);
    match session.into_iter().find(|path| is_owned(path, uid)) {
        Some(path) => path.join("longarm"),
        None => PathBuf::from(format!("/tmp/longarm-{uid}")),
    }
}

fn is_owned(path: &Path, uid: u32) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_dir() && metadata.st_uid() == uid)
}

/// Makes the directory (not those above it), unless something of that name is there.
fn make(path: &Path) -> Result<(), RendezvousError> {
    match rustix::fs::mkdir(path, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(system("make the directory", path, error)),
    }
}

/// Opens the directory and checks that it is ours alone.
pub(super) fn open_private(path: &Path, uid: u32) -> Result<OwnedFd, RendezvousError> {
    let problem = |problem: String| RendezvousError::Unsafe { path: path.to_owned(), problem };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| match error {
        Errno::NOTDIR | Errno::LOOP => problem("it is not a directory (or a symbolic link)".into()),
        other => system("open", path, other),
    })?;
    let stat = rustix::fs::fstat(&directory).map_err(|error| system("look at", path, error))?;
    if stat.st_uid != uid {
        return Err(problem(format!("it belongs to user {}, not to user {uid}", stat.st_uid)));
    }
    let mode = stat.st_mode & 0o777;
    if mode != 0o700 {
        return Err(problem(format!("its mode is {mode:03o}, it must be 700")));
    }
    Ok(directory)
}

fn system(what: &'static str, path: &Path, error: Errno) -> RendezvousError {
    RendezvousError::System { what, path: path.to_owned(), source: error.into() }
}
