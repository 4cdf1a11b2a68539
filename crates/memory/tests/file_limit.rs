//! A limit on file sizes, in a process of its own since it holds for all of it.

use longarm_memory::Region;

#[test]
fn a_limit_on_file_sizes_is_an_error_and_no_signal() {
    let limit = libc::rlimit { rlim_cur: 1 << 20, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: lowers a limit of this process.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) }, 0);
    let refused = Region::allocate((1 << 20) + 1).expect_err("over the limit");
    assert_eq!(refused.raw_os_error(), Some(libc::EFBIG));
    // Rounded up to whole huge pages this one would exceed the limit.
    assert!(Region::allocate(1 << 20).is_ok());
}
