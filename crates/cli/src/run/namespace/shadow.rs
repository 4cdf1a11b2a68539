//! Replaces the system's libraries with Longarm's.

use std::path::{Path, PathBuf};

use super::mounts::{NamespaceError, refused};

pub(super) fn replace(library: &Path, others: &[PathBuf]) -> Result<(), NamespaceError> {
    for other in others {
        rustix::mount::mount_bind(library, other).map_err(refused(format!("replace {}", other.display())))?;
    }
    Ok(())
}
