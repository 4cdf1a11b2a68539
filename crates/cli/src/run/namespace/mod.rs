//! A mount namespace in which `/sys/class/infiniband`, `/dev/infiniband` and the system's
//! libibverbs are Longarm's, for programs that use these paths only.
//!
//! A user with the right to mount gets a mount namespace only. An ordinary user also gets a user
//! namespace, which maps user and group to themselves. The network namespace stays the caller's,
//! so the hub and UDP port 4791 are the same as outside.
//!
//! [`super::needs`] decides whether a program needs a namespace; this module does not.

mod class;
mod dev;
mod identity;
mod shadow;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FsWord, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags};
use rustix::thread::UnshareFlags;

use crate::sysfs::Tree;

/// The root of the generated tree in a namespace: the same path as the kernel's.
pub(crate) const SYSFS_ROOT: &str = "/sys";

const CLASS: &str = "/sys/class";
const TMPFS_MAGIC: FsWord = 0x0102_1994;

/// The contents of a namespace.
#[derive(Debug)]
pub(crate) struct View<'a> {
    /// The tree below `/sys/class`.
    pub(crate) class: &'a Tree,
    /// The names of the nodes in `/dev/infiniband`.
    pub(crate) nodes: &'a [String],
    /// The library that replaces others.
    pub(crate) library: &'a Path,
    /// The replaced files.
    pub(crate) replaced: &'a [PathBuf],
}

/// The reason why there is no namespace.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what}: {source}")]
pub(crate) struct Refused {
    what: String,
    source: io::Error,
}

/// For `map_err`: adds the action that failed.
fn refused<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Refused {
    let what = what.into();
    move |source| Refused { what, source: source.into() }
}

/// Moves this process, which has one thread, into a new namespace with these contents.
///
/// # Errors
/// [`Refused`]: the process may be in an incomplete namespace and must end.
pub(crate) fn enter(view: &View<'_>) -> Result<(), Refused> {
    unshare()?;
    let private = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", private).map_err(refused("keep mounts to myself"))?;
    class::replace(view.class)?;
    dev::replace(view.nodes)?;
    shadow::replace(view.library, view.replaced)
}

/// Whether this process is in such a namespace already, with a device of that name.
pub(crate) fn is_inside(device: &str) -> bool {
    let on_tmpfs = rustix::fs::statfs(CLASS).is_ok_and(|stat| stat.f_type == TMPFS_MAGIC);
    on_tmpfs && Path::new(CLASS).join(crate::sysfs::DEVICES).join(device).exists()
}

fn unshare() -> Result<(), Refused> {
    match unshare_flags(UnshareFlags::NEWNS) {
        Err(Errno::PERM) => {}
        other => return other.map_err(refused("make a mount namespace")),
    }
    unshare_user(UnshareFlags::NEWNS)
}

/// Moves this process, which has one thread, into a new user namespace that keeps its user, and into
/// the `others`, which belong to it.
///
/// # Errors
/// [`Refused`], as for [`enter`].
pub(crate) fn unshare_user(others: UnshareFlags) -> Result<(), Refused> {
    let own = identity::Identity::current();
    unshare_flags(UnshareFlags::NEWUSER | others).map_err(refused("make a user namespace"))?;
    own.keep()
}

/// The safe function is deprecated because it accepts `CLONE_FILES`; no caller here passes that.
#[allow(deprecated)]
pub(crate) fn unshare_flags(flags: UnshareFlags) -> rustix::io::Result<()> {
    rustix::thread::unshare(flags)
}

/// Mounts an empty tmpfs.
fn mount_memory(at: &Path) -> Result<(), Refused> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount("longarm", at, "tmpfs", flags, c"mode=0755")
        .map_err(refused(format!("mount on {}", at.display())))
}

/// Binds a file or directory that was opened before something was mounted over it.
fn bind(what: &OwnedFd, at: &Path) -> Result<(), Refused> {
    let source = format!("/proc/self/fd/{}", what.as_raw_fd());
    rustix::mount::mount_bind_recursive(source, at).map_err(refused(format!("bind {}", at.display())))
}

/// An entry that a directory had before a mount covered it.
struct Kept {
    name: OsString,
    what: What,
}

/// The kind and contents of an entry.
enum What {
    Directory(OwnedFd),
    Other(OwnedFd),
    Link(PathBuf),
}

/// Opens all entries of a directory.
fn keep(dir: &Path) -> Result<Vec<Kept>, Refused> {
    let entries = fs::read_dir(dir).map_err(refused(format!("read {}", dir.display())))?;
    let entries = entries.flatten().map(|entry| {
        let path = entry.path();
        let kind = entry.file_type()?;
        let open = || rustix::fs::open(&path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
        let what = match (kind.is_symlink(), kind.is_dir()) {
            (true, _) => What::Link(fs::read_link(&path)?),
            (_, true) => What::Directory(open()?),
            (_, false) => What::Other(open()?),
        };
        Ok(Kept { name: entry.file_name(), what })
    });
    // An entry may disappear in the meantime; that does not matter.
    Ok(entries.filter_map(io::Result::ok).collect())
}

/// Restores the entries, except those with names in `except`.
fn put_back(dir: &Path, kept: &[Kept], except: &[&str]) -> Result<(), Refused> {
    for Kept { name, what } in kept.iter().filter(|kept| !except.iter().any(|name| kept.name == *name)) {
        let at = dir.join(name);
        let make = |done: io::Result<()>| done.map_err(refused(format!("make {}", at.display())));
        match what {
            What::Link(target) => make(std::os::unix::fs::symlink(target, &at))?,
            What::Directory(fd) => {
                make(fs::create_dir(&at))?;
                bind(fd, &at)?;
            }
            What::Other(fd) => {
                make(fs::write(&at, ""))?;
                bind(fd, &at)?;
            }
        }
    }
    Ok(())
}
