//! Mounts an empty file system over a directory and restores entries of the directory in it.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::mount::MountFlags;

/// The reason why there is no namespace.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what}: {source}")]
pub(crate) struct NamespaceError {
    what: String,
    source: io::Error,
}

/// For `map_err`: adds the action that failed.
pub(super) fn refused<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> NamespaceError {
    let what = what.into();
    move |source| NamespaceError { what, source: source.into() }
}

/// Mounts an empty tmpfs.
pub(super) fn mount_memory(at: &Path) -> Result<(), NamespaceError> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount("longarm", at, "tmpfs", flags, c"mode=0755")
        .map_err(refused(format!("mount on {}", at.display())))
}

/// Binds a file or directory that was opened before something was mounted over it.
fn bind(what: &OwnedFd, at: &Path) -> Result<(), NamespaceError> {
    let source = format!("/proc/self/fd/{}", what.as_raw_fd());
    rustix::mount::mount_bind_recursive(source, at).map_err(refused(format!("bind {}", at.display())))
}

/// An entry that a directory had before a mount covered it.
pub(super) struct SavedEntry {
    name: OsString,
    what: EntryKind,
}

/// The kind and contents of an entry.
enum EntryKind {
    Directory(OwnedFd),
    Other(OwnedFd),
    Link(PathBuf),
}

/// Opens all entries of a directory.
pub(super) fn open_entries(dir: &Path) -> Result<Vec<SavedEntry>, NamespaceError> {
    let entries = fs::read_dir(dir).map_err(refused(format!("read {}", dir.display())))?;
    let entries = entries.flatten().map(|entry| {
        let path = entry.path();
        let kind = entry.file_type()?;
        let open = || rustix::fs::open(&path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
        let what = match (kind.is_symlink(), kind.is_dir()) {
            (true, _) => EntryKind::Link(fs::read_link(&path)?),
            (_, true) => EntryKind::Directory(open()?),
            (_, false) => EntryKind::Other(open()?),
        };
        Ok(SavedEntry { name: entry.file_name(), what })
    });
    // An entry may disappear in the meantime; that does not matter.
    Ok(entries.filter_map(io::Result::ok).collect())
}

/// Restores the entries, except those with names in `except`.
pub(super) fn restore_entries(dir: &Path, saved: &[SavedEntry], except: &[&str]) -> Result<(), NamespaceError> {
    for SavedEntry { name, what } in saved.iter().filter(|saved| !except.iter().any(|name| saved.name == *name)) {
        let at = dir.join(name);
        let make = |done: io::Result<()>| done.map_err(refused(format!("make {}", at.display())));
        match what {
            EntryKind::Link(target) => make(std::os::unix::fs::symlink(target, &at))?,
            EntryKind::Directory(fd) => {
                make(fs::create_dir(&at))?;
                bind(fd, &at)?;
            }
            EntryKind::Other(fd) => {
                make(fs::write(&at, ""))?;
                bind(fd, &at)?;
            }
        }
    }
    Ok(())
}
