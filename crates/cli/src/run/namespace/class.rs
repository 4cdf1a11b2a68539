//! `/sys/class` with our devices.
//!
//! Sysfs allows no new directories, so the module replaces `/sys/class` as a whole. It binds the other
//! entries again at the same paths, where their relative links still lead to `/sys/devices`, and
//! the entries remain live.

use std::path::Path;

use super::mounts::{NamespaceError, mount_memory, open_entries, refused, restore_entries};
use crate::sysfs::{DEVICES, NODES, Tree};

pub(super) const CLASS: &str = "/sys/class";

pub(super) fn replace(tree: &Tree) -> Result<(), NamespaceError> {
    let class = Path::new(CLASS);
    let saved = open_entries(class)?;
    mount_memory(class)?;
    restore_entries(class, &saved, &[DEVICES, NODES])?;
    tree.write(class).map_err(refused("write the devices' files"))
}
