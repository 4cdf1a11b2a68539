//! The environment of a program on our device.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Names the directory that stands for `/sys`: `class/infiniband` is below it.
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
    /// The variables, each with its whole new value.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, &OsStr)> {
        self.variables.iter().map(|(name, value)| (*name, value.as_os_str()))
    }

    pub(super) fn set(&mut self, name: &'static str, value: impl Into<OsString>) {
        self.variables.push((name, value.into()));
    }

    /// Lets the loader look for libraries here first.
    pub(super) fn library_path(&mut self, dir: &Path) {
        self.set(LIBRARY_PATH, first(dir, env::var_os(LIBRARY_PATH)));
    }

    /// Lets programs here be found before others of their names.
    pub(super) fn programs(&mut self, dir: &Path) {
        // Without a list the system has one of its own, which ours would hide.
        if let Some(list) = env::var_os(PATH) {
            self.set(PATH, first(dir, Some(list)));
        }
    }

    /// Lets the loader load a library before all others, whatever a program's run path says.
    pub(super) fn preload(&mut self, library: &Path) {
        self.set(PRELOAD, first(library, env::var_os(PRELOAD)));
    }
}

/// A list of paths that begins with `path`, and has it once.
fn first(path: &Path, list: Option<OsString>) -> OsString {
    let list = list.unwrap_or_default();
    let rest = env::split_paths(&list).filter(|other| other != path && !other.as_os_str().is_empty());
    // No path here has a colon: it came out of such a list, or is refused by the loader.
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
