//! `/dev/infiniband` with a node for each device, for programs that look whether it is there.
//!
//! A node is a link to `/dev/null`: nobody talks to it. Where the directory does not exist,
//! `/dev` as a whole is replaced, and its entries are bound in again.

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
