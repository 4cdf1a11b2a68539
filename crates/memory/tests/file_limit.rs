//! A limit on file sizes. The test has its own process since the limit holds for all of it.

use std::sync::Arc;

use longarm_memory::{Access, Region, Registry};

#[test]
fn beyond_a_limit_on_file_sizes_memory_is_private() {
    let limit = libc::rlimit { rlim_cur: 1 << 20, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: lowers a limit of this process.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) }, 0);
    let large = Arc::new(Region::allocate((1 << 20) + 1).expect("memory, and no signal"));
    assert!(large.fd().is_none() && large.object_file().is_none());
    large.span().part(1 << 20, 1).expect("the last byte").write(&[7]);
    let registry = Registry::new(1);
    let pd = registry.alloc_pd();
    let keys = registry.register_region(pd, Arc::clone(&large), None, Access::REMOTE_READ).expect("keys");
    registry.deregister(keys.id).expect("registered");
    // Rounded up to whole huge pages this region would exceed the limit.
    assert!(Region::allocate(1 << 20).expect("memory").fd().is_some());
}
