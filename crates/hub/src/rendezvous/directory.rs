//! The private directory.
//!
//! Without a named directory and a session directory, every process of the user must find it, and no
//! other user may take it away:
//!
//! * `/run/longarm`, if `/run` is the user's own (it is root's);
//! * else `/tmp/longarm-UID`, which any user may make. If it is another user's, the next one is tried:
//!   `/tmp/longarm-UID-1` and so on. An existing directory of ours goes before all new ones.
//!
//! The `UID` is the user's number outside this user namespace. In `unshare -Ur` every user is user 0, and all of them
//! would use root's directory.

use super::RendezvousError;
use guest::environment;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::linux::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The environment variable that names the directory.
pub const RUNTIME_DIR_VARIABLE: &str = "LONGARM_RUNTIME_DIR";

/// The number of names to try in a directory that every user may write to.
const COMMON_NAMES: usize = 16;

/// The parents of possible directories, if the environment names none.
pub(super) struct BaseDirs<'a> {
    /// Holds one directory for each user that is logged in.
    pub(super) run_user: &'a Path,
    /// The system's.
    pub(super) run: &'a Path,
    /// Open to all users.
    pub(super) common: &'a Path,
}

impl BaseDirs<'static> {
    fn of_system() -> BaseDirs<'static> {
        BaseDirs { run_user: Path::new("/run/user"), run: Path::new("/run"), common: Path::new("/tmp") }
    }
}

/// A user's number in this user namespace, and outside of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct User {
    pub(super) here: u32,
    pub(super) outside: u32,
}

impl User {
    fn own() -> User {
        let here = rustix::process::geteuid().as_raw();
        let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        User { here, outside: outside(here, &map) }
    }
}

/// Chooses, makes if necessary, opens and checks the directory.
pub(super) fn open(runtime_dir: Option<&Path>) -> Result<(PathBuf, OwnedFd), RendezvousError> {
    let user = User::own();
    let variable = |name: &str| environment::var_os(name).map(PathBuf::from);
    let places = BaseDirs::of_system();
    match runtime_dir.map(Path::to_owned).or_else(|| choose(user, variable, places.run_user)) {
        Some(path) => make_and_open(path, user.here),
        None => fall_back(user, &places),
    }
}

/// The directory that the environment or the session chooses. Another user's `XDG_RUNTIME_DIR`, which `su` and `sudo`
/// may leave behind, does not count: our files would be in that user's way.
pub(super) fn choose(user: User, variable: impl Fn(&str) -> Option<PathBuf>, run_user: &Path) -> Option<PathBuf> {
    let set = |name| variable(name).filter(|path| path.is_absolute());
    if let Some(path) = set(RUNTIME_DIR_VARIABLE) {
        return Some(path);
    }
    let session = set("XDG_RUNTIME_DIR").into_iter().chain([run_user.join(user.outside.to_string())]);
    session.into_iter().find(|path| is_owned(path, user.here)).map(|path| path.join("longarm"))
}

/// Opens the directory of a user without a session directory.
pub(super) fn fall_back(user: User, places: &BaseDirs<'_>) -> Result<(PathBuf, OwnedFd), RendezvousError> {
    if is_owned(places.run, user.here)
        && is_closed_to_others(places.run)
        && let Ok(opened) = make_and_open(places.run.join("longarm"), user.here)
    {
        return Ok(opened);
    }
    let name = |number: usize| match number {
        0 => places.common.join(format!("longarm-{}", user.outside)),
        _ => places.common.join(format!("longarm-{}-{number}", user.outside)),
    };
    let all = || (0..COMMON_NAMES).map(name);
    let own = all().find(|path| owner(path) == Some(user.here));
    if let Some(path) = own {
        return make_and_open(path, user.here);
    }
    for path in all().filter(|path| owner(path).is_none()) {
        make(&path)?;
        // Another user may have been quicker.
        if owner(&path) == Some(user.here) {
            return make_and_open(path, user.here);
        }
    }
    Err(all_taken(&name(0), user))
}

fn all_taken(first: &Path, user: User) -> RendezvousError {
    let owner = owner(first).map_or_else(|| "another user".into(), |owner| format!("user {owner}"));
    let problem = format!(
        "it belongs to {owner}, not to user {}, and so do the {} other names for it. Have them removed, or set \
         {RUNTIME_DIR_VARIABLE} to a directory that only you may write to",
        user.here,
        COMMON_NAMES - 1
    );
    RendezvousError::Unsafe { path: first.to_owned(), problem }
}

/// The user's number outside this user namespace, by its `uid_map`. A line has the first number here, the first one
/// outside, and their count.
pub(super) fn outside(here: u32, map: &str) -> u32 {
    let translated = map.lines().find_map(|line| {
        let mut numbers = line.split_ascii_whitespace().map(|number| number.parse::<u32>());
        let (first, outside, count) = (numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?);
        let distance = here.checked_sub(first).filter(|distance| *distance < count)?;
        outside.checked_add(distance)
    });
    translated.unwrap_or(here)
}

/// The owner of a file, if it exists.
fn owner(path: &Path) -> Option<u32> {
    path.symlink_metadata().ok().map(|metadata| metadata.st_uid())
}

fn is_owned(path: &Path, uid: u32) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_dir() && metadata.st_uid() == uid)
}

fn is_closed_to_others(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.st_mode() & 0o022 == 0)
}

fn make_and_open(path: PathBuf, uid: u32) -> Result<(PathBuf, OwnedFd), RendezvousError> {
    make(&path)?;
    let directory = open_private(&path, uid)?;
    Ok((path, directory))
}

/// Makes the directory (not its parents), unless the name exists.
fn make(path: &Path) -> Result<(), RendezvousError> {
    match rustix::fs::mkdir(path, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(system("make the directory", path, error)),
    }
}

/// Opens the directory and checks that it is ours and closed to all others.
pub(super) fn open_private(path: &Path, uid: u32) -> Result<OwnedFd, RendezvousError> {
    let problem = |problem: String| RendezvousError::Unsafe { path: path.to_owned(), problem };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| match error {
        Errno::NOTDIR | Errno::LOOP => problem("it is not a directory (or a symbolic link)".into()),
        other => system("open", path, other),
    })?;
    let stat = rustix::fs::fstat(&directory).map_err(|error| system("look at", path, error))?;
    if stat.st_uid != uid {
        let text = format!(
            "it belongs to user {}, not to user {uid}; set {RUNTIME_DIR_VARIABLE} to a directory of yours",
            stat.st_uid
        );
        return Err(problem(text));
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
