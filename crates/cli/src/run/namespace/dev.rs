//! `/dev/infiniband` with a node for each device, for programs that check its existence.
//!
//! A node is a link to `/dev/null`, because no program uses it. If the directory does not exist, the
//! module replaces `/dev` as a whole and binds its entries again.

use std::path::Path;

use super::mounts::{NamespaceError, mount_memory, open_entries, refused, restore_entries};

const DEV: &str = "/dev";
const NODES: &str = "/dev/infiniband";

pub(super) fn replace(nodes: &[String]) -> Result<(), NamespaceError> {
    let dir = Path::new(NODES);
    if dir.is_dir() {
        mount_memory(dir)?;
    } else {
        let dev = Path::new(DEV);
        let saved = open_entries(dev)?;
        mount_memory(dev)?;
        restore_entries(dev, &saved, &[])?;
        std::fs::create_dir(dir).map_err(refused(format!("make {NODES}")))?;
    }
    for node in nodes {
        std::os::unix::fs::symlink("../null", dir.join(node)).map_err(refused(format!("make {NODES}/{node}")))?;
    }
    Ok(())
}
