//! Keeps user and group the same in a user namespace.

use std::fs;

use super::mounts::{NamespaceError, refused};

/// Effective user and group.
pub(super) struct Identity {
    uid: u32,
    gid: u32,
}

impl Identity {
    /// User and group of this process; call it before the namespace is made.
    pub(super) fn current() -> Identity {
        Identity { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() }
    }

    /// Maps user and group to themselves in this process's new namespace: files keep their
    /// owner, and the hub sees the same user.
    pub(super) fn keep(&self) -> Result<(), NamespaceError> {
        let write = |name: &str, text: String| {
            let path = format!("/proc/self/{name}");
            fs::write(&path, text).map_err(refused(format!("write {path}")))
        };
        let Identity { uid, gid } = self;
        write("uid_map", format!("{uid} {uid} 1\n"))?;
        // Without this an ordinary user may not map a group (user_namespaces(7)).
        write("setgroups", "deny\n".into())?;
        write("gid_map", format!("{gid} {gid} 1\n"))
    }
}
