//! `/sys/class` with our devices.
//!
//! Sysfs allows no new directories, so the module replaces `/sys/class` as a whole. It binds the other
//! entries again at the same paths, where their relative links still lead to `/sys/devices`, and
//! the entries remain live.

use std::path::Path;

use super::{CLASS, Refused, keep, mount_memory, put_back, refused};
use crate::sysfs::{DEVICES, NODES, Tree};

pub(super) fn replace(tree: &Tree) -> Result<(), Refused> {
    let class = Path::new(CLASS);
    let kept = keep(class)?;
    mount_memory(class)?;
    put_back(class, &kept, &[DEVICES, NODES])?;
    tree.write(class).map_err(refused("write the devices' files"))
}
