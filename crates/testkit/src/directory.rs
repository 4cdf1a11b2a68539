//! Directories for one test.

use std::fs::{create_dir, remove_dir_all};
use std::path::{Path, PathBuf};

/// A new directory. Dropping the value removes it.
#[derive(Debug)]
pub struct TestDir(PathBuf);

impl TestDir {
    /// A directory whose name has `name` and the process number in it.
    ///
    /// # Panics
    /// If the system refuses it.
    pub fn new(name: &str) -> TestDir {
        let path = std::env::temp_dir().join(format!("longarm-{name}-{}", std::process::id()));
        let _ = remove_dir_all(&path);
        create_dir(&path).expect("a directory for the test");
        TestDir(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The runtime directory for a hub of the test's own. The hub makes it.
    pub fn runtime_dir(&self) -> PathBuf {
        self.0.join("run")
    }
}

impl Drop for TestDir {
    fn drop(&mut self) {
        let _ = remove_dir_all(&self.0);
    }
}
