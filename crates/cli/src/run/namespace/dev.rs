//! `/dev/infiniband` with a node for each device, for programs that check its existence.
//!
//! A node is a link to `/dev/null`, because no program uses it. If the directory does not exist, the
//! module replaces `/dev` as a whole and binds its entries again.

use std::path::Path;

use super::{Refused, keep, mount_memory, put_back, refused};

const DEV: &str = "/dev";
const NODES: &str = "/dev/infiniband";

pub(super) fn replace(nodes: &[String]) -> Result<(), Refused> {
    let dir = Path::new(NODES);
    if dir.is_dir() {
        mount_memory(dir)?;
    } else {
        let dev = Path::new(DEV);
        let kept = keep(dev)?;
        mount_memory(dev)?;
        put_back(dev, &kept, &[])?;
        std::fs::create_dir(dir).map_err(refused(format!("make {NODES}")))?;
    }
    for node in nodes {
        std::os::unix::fs::symlink("../null", dir.join(node)).map_err(refused(format!("make {NODES}/{node}")))?;
    }
    Ok(())
}
