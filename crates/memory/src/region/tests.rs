use super::*;
use crate::testing::contents;

#[test]
fn a_region_is_zeroed_memory_of_the_length_asked_for() {
    for len_bytes in [1, 4095, 4096, 4097, 1 << 20, (2 << 20) - 1, 2 << 20, (4 << 20) + 1] {
        let region = Region::allocate(len_bytes).expect("memory");
        assert_eq!(region.len_bytes(), len_bytes);
        let unit = if region.is_huge() { HUGE_BYTES } else { page_bytes() } as u64;
        assert_eq!(region.mapped_bytes(), len_bytes.next_multiple_of(unit));
        assert!(contents(&region).iter().all(|byte| *byte == 0));
        region.span().write(&vec![7; len_bytes as usize]);
        assert!(contents(&region).iter().all(|byte| *byte == 7));
    }
}

#[test]
fn small_regions_never_lie_on_huge_pages() {
    assert!(!Region::allocate(HUGE_BYTES as u64 - 1).expect("memory").is_huge());
}

#[test]
fn impossible_sizes_are_refused() {
    let refused = |len_bytes| Region::allocate(len_bytes).map(|_| ()).map_err(|e| e.kind());
    assert_eq!(refused(0), Err(io::ErrorKind::InvalidInput));
    for len_bytes in [u64::MAX, u64::MAX / 2, 1 << 62] {
        assert!(refused(len_bytes).is_err());
    }
}

#[test]
fn nobody_can_resize_the_memfd() {
    let region = Region::allocate(8192).expect("memory");
    let fd = region.fd().expect("a file").as_raw_fd();
    for size in [0, 4096, 16384] {
        // SAFETY: a system call on a live descriptor.
        let result = checked(unsafe { libc::ftruncate(fd, size) });
        let error = result.expect_err("sealed").raw_os_error();
        assert_eq!(error, Some(libc::EPERM));
    }
    // SAFETY: a system call on a live descriptor.
    let seals = unsafe { libc::fcntl(fd, libc::F_GET_SEALS) };
    let expected = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    assert_eq!(seals, expected);
}

#[test]
fn the_memfd_is_the_memory_and_is_not_inherited() {
    let region = Region::allocate(100).expect("memory");
    let again =
        Region::map(region.fd().expect("a file").try_clone_to_owned().expect("descriptors"), 100, page_bytes(), false)
            .expect("a second mapping");
    region.span().write(&[3; 100]);
    assert_eq!(contents(&again), [3; 100]);
    // SAFETY: a system call on a live descriptor.
    let flags = unsafe { libc::fcntl(region.fd().expect("a file").as_raw_fd(), libc::F_GETFD) };
    assert_eq!(flags & libc::FD_CLOEXEC, libc::FD_CLOEXEC);
}

#[test]
fn dropping_a_region_unmaps_it() {
    use std::os::unix::fs::MetadataExt;
    let region = Region::allocate(3 * page_bytes() as u64).expect("memory");
    let file = std::fs::File::from(region.fd().expect("a file").try_clone_to_owned().expect("descriptors"));
    let inode = format!(" {} ", file.metadata().expect("a file").ino());
    let is_mapped = || {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("the list of mappings");
        let mut ours = maps.lines().filter(|line| line.contains("longarm-region"));
        ours.any(|line| line.contains(&inode))
    };
    assert!(is_mapped());
    drop(region);
    assert!(!is_mapped());
}

#[test]
fn lengths_round_up_without_wrapping() {
    assert_eq!(round_up(1, 4096).ok(), Some(4096));
    assert_eq!(round_up(4096, 4096).ok(), Some(4096));
    assert!(round_up(usize::MAX, 4096).is_err());
    assert!(round_up(isize::MAX as usize, 4096).is_err());
}
