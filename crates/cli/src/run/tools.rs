//! Programs of Longarm that replace the system's in `PATH`.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::error::StartFailure;
use super::library::set_link;

/// Makes a directory of links to this program with their names. Only this user can enter `runtime_dir`.
///
/// # Errors
/// [`StartFailure::System`].
pub(super) fn directory(runtime_dir: &Path) -> Result<PathBuf, StartFailure> {
    let own = env::current_exe().map_err(StartFailure::system("find this program"))?;
    let dir = runtime_dir.join(format!("bin-{:016x}", super::stable_hash(&own)));
    let make = || {
        match fs::create_dir(&dir) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        set_link(&dir.join(crate::rdma::NAME), Some(&own))
    };
    make().map_err(StartFailure::system(format!("make the directory {}", dir.display())))?;
    Ok(dir)
}
