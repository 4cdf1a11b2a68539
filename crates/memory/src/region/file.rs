//! Memory that another process of this host has allocated, mapped here by its memfd.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::region::{HUGE_BYTES, Region, check_length, checked, page_bytes, round_up};

/// The kernel's number of a file system of huge pages (statfs(2)).
const HUGETLBFS_MAGIC: u64 = 0x9584_58f6;

impl Region {
    /// The first `len_bytes` bytes of a memfd of another [`Region`], usually one of another process. Both reach the same bytes.
    ///
    /// # Errors
    /// `InvalidInput` for no bytes, for more than the file has, and for a file that somebody could cut off under its users:
    /// one that is no memfd, or is not sealed against it (`F_SEAL_SHRINK`, memfd_create(2)). Also the kernel's errors.
    pub fn of_file(file: OwnedFd, len_bytes: u64) -> io::Result<Region> {
        let refused = |why: &str| io::Error::new(io::ErrorKind::InvalidInput, why.to_owned());
        let len_bytes = check_length(len_bytes)?;
        // SAFETY: a system call on a live descriptor. Files of other kinds have no seals, and the call fails.
        let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
        if seals == -1 || seals & libc::F_SEAL_SHRINK == 0 {
            return Err(refused("the file is no memfd that is sealed against shrinking"));
        }
        let huge = is_huge(&file)?;
        let mapped_bytes = round_up(len_bytes, if huge { HUGE_BYTES } else { page_bytes() })?;
        if mapped_bytes as u64 > file_bytes(&file)? {
            return Err(refused("the file is shorter than the memory"));
        }
        let region = Region::map(file, len_bytes, mapped_bytes, huge)?;
        if huge {
            // The file's maker has populated it; but a hole in it would be a SIGBUS if no page is left.
            region.advise(libc::MADV_POPULATE_WRITE)?;
        }
        Ok(region)
    }
}

fn file_bytes(file: &OwnedFd) -> io::Result<u64> {
    // SAFETY: plain numbers, for which zeros are valid.
    let mut status: libc::stat = unsafe { core::mem::zeroed() };
    // SAFETY: fills one structure.
    checked(unsafe { libc::fstat(file.as_raw_fd(), &mut status) })?;
    Ok(status.st_size.try_into().unwrap_or(0))
}

fn is_huge(file: &OwnedFd) -> io::Result<bool> {
    // SAFETY: plain numbers, for which zeros are valid.
    let mut status: libc::statfs = unsafe { core::mem::zeroed() };
    // SAFETY: fills one structure.
    checked(unsafe { libc::fstatfs(file.as_raw_fd(), &mut status) })?;
    Ok(status.f_type as u64 & 0xffff_ffff == HUGETLBFS_MAGIC)
}

#[cfg(test)]
mod tests {
    use std::os::fd::FromRawFd;

    use super::*;
    use crate::testing::contents;

    fn file_of(region: &Region) -> OwnedFd {
        region.fd().expect("a file").try_clone_to_owned().expect("descriptors")
    }

    #[test]
    fn two_regions_of_one_file_are_the_same_bytes() {
        let first = Region::allocate(5000).expect("memory");
        let second = Region::of_file(file_of(&first), 5000).expect("its file");
        first.span().write(&[3; 5000]);
        assert_eq!(contents(&second), [3; 5000]);
        drop(first);
        assert_eq!(contents(&second), [3; 5000], "the other one keeps the bytes");
        assert_eq!((second.len_bytes(), second.mapped_bytes()), (5000, 8192));
    }

    #[test]
    fn files_that_could_be_cut_and_lengths_beyond_their_end_are_refused() {
        let region = Region::allocate(8192).expect("memory");
        for len_bytes in [0, 8193, 1 << 40, u64::MAX] {
            assert!(Region::of_file(file_of(&region), len_bytes).is_err(), "{len_bytes}");
        }
        assert!(Region::of_file(file_of(&region), 8192).is_ok());
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: a system call with a name that lives long enough.
        let open = checked(unsafe { libc::memfd_create(c"open".as_ptr(), flags) }).expect("a memfd");
        // SAFETY: a new descriptor that nothing else owns.
        let open = unsafe { OwnedFd::from_raw_fd(open) };
        // SAFETY: a system call on a live descriptor.
        checked(unsafe { libc::ftruncate(open.as_raw_fd(), 8192) }).expect("a length");
        let ordinary = OwnedFd::from(std::fs::File::open("/dev/zero").expect("a device"));
        for file in [open, ordinary] {
            let refused = Region::of_file(file, 8192).expect_err("no seal");
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
        }
    }
}
