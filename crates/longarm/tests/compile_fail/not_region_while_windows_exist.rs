//! A region cannot be dropped while windows onto it exist.
use std::time::Duration;

use longarm::{Access, MemoryRegion, QueuePair};

fn misuse(qp: &QueuePair, region: MemoryRegion) {
    let window = region.window(0..8, Access::REMOTE_READ).unwrap();
    let bound = qp.bind(window).wait(Duration::from_secs(1)).unwrap();
    drop(region);
    println!("{:?}", bound.key());
}

fn main() {}
