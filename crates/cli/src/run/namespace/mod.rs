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
mod mounts;
mod shadow;

use std::path::{Path, PathBuf};

use rustix::fs::FsWord;
use rustix::io::Errno;
use rustix::mount::MountPropagationFlags;
use rustix::thread::UnshareFlags;

use crate::sysfs::Tree;
use class::CLASS;
use mounts::{NamespaceError, refused};

/// The root of the generated tree in a namespace: the same path as the kernel's.
pub(crate) const SYSFS_ROOT: &str = "/sys";

const TMPFS_MAGIC: FsWord = 0x0102_1994;

/// The contents of a namespace.
#[derive(Debug)]
pub(crate) struct NamespaceView<'a> {
    /// The tree below `/sys/class`.
    pub(crate) class: &'a Tree,
    /// The names of the nodes in `/dev/infiniband`.
    pub(crate) nodes: &'a [String],
    /// The library that replaces others.
    pub(crate) library: &'a Path,
    /// The replaced files.
    pub(crate) replaced: &'a [PathBuf],
}

/// Moves this process, which has one thread, into a new namespace with these contents.
///
/// # Errors
/// [`NamespaceError`]: the process may be in an incomplete namespace and must end.
pub(crate) fn enter(view: &NamespaceView<'_>) -> Result<(), NamespaceError> {
    unshare()?;
    let private = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", private).map_err(refused("make mounts private"))?;
    class::replace(view.class)?;
    dev::replace(view.nodes)?;
    shadow::replace(view.library, view.replaced)
}

/// Whether this process is in such a namespace already, with a device of that name.
pub(crate) fn is_inside(device: &str) -> bool {
    let on_tmpfs = rustix::fs::statfs(CLASS).is_ok_and(|stat| stat.f_type == TMPFS_MAGIC);
    on_tmpfs && Path::new(CLASS).join(crate::sysfs::DEVICES).join(device).exists()
}

fn unshare() -> Result<(), NamespaceError> {
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
/// [`NamespaceError`], as for [`enter`].
pub(crate) fn unshare_user(others: UnshareFlags) -> Result<(), NamespaceError> {
    let own = identity::Identity::current();
    unshare_flags(UnshareFlags::NEWUSER | others).map_err(refused("make a user namespace"))?;
    own.keep()
}

/// The safe function is deprecated because it accepts `CLONE_FILES`; no caller here passes that.
#[allow(deprecated)]
pub(crate) fn unshare_flags(flags: UnshareFlags) -> rustix::io::Result<()> {
    rustix::thread::unshare(flags)
}
