//! `/sys/class` with our devices.
//!
//! Nobody can make a directory in sysfs, so `/sys/class` as a whole is replaced: its other
//! entries are bound in again at the same place, where their relative links still lead to
//! `/sys/devices`, and stay alive.

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
