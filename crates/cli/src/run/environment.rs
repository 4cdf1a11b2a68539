//! The environment variables of a program on Longarm's devices.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The variable that names the directory in place of `/sys`; it contains `class/infiniband`.
pub(super) const SYSFS_VARIABLE: &str = "LONGARM_SYSFS";

const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";
const PRELOAD: &str = "LD_PRELOAD";
const PATH: &str = "PATH";

/// Variables for the program.
#[derive(Debug, Default)]
pub(crate) struct Environment {
    variables: Vec<(&'static str, OsString)>,
}

impl Environment {
    /// The variables with their complete new values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, &OsStr)> {
        self.variables.iter().map(|(name, value)| (*name, value.as_os_str()))
    }

    pub(super) fn set(&mut self, name: &'static str, value: impl Into<OsString>) {
        self.variables.push((name, value.into()));
    }

    /// Makes the loader search this directory for libraries first.
    pub(super) fn library_path(&mut self, dir: &Path) {
        self.set(LIBRARY_PATH, first(dir, env::var_os(LIBRARY_PATH)));
    }

    /// Puts this directory first in `PATH`.
    pub(super) fn programs(&mut self, dir: &Path) {
        // Without the variable the system uses a default list, which a new value would hide.
        if let Some(list) = env::var_os(PATH) {
            self.set(PATH, first(dir, Some(list)));
        }
    }

    /// Makes the loader load a library before all others, regardless of a program's run path.
    pub(super) fn preload(&mut self, library: &Path) {
        self.set(PRELOAD, first(library, env::var_os(PRELOAD)));
    }
}

/// The list of paths with `path` first, and only there.
fn first(path: &Path, list: Option<OsString>) -> OsString {
    let list = list.unwrap_or_default();
    let rest = env::split_paths(&list).filter(|other| other != path && !other.as_os_str().is_empty());
    // No path here has a colon: it comes from such a list, or the loader refuses it.
    env::join_paths([path.to_path_buf()].into_iter().chain(rest)).unwrap_or_else(|_| path.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_comes_first_and_once() {
        let dir = Path::new("/run/x");
        for (before, after) in [
            (None, "/run/x"),
            (Some(""), "/run/x"),
            (Some("/a:/b"), "/run/x:/a:/b"),
            (Some("/a:/run/x:/b"), "/run/x:/a:/b"),
        ] {
            assert_eq!(first(dir, before.map(OsString::from)), after, "{before:?}");
        }
    }
}
