//! Memory that the library allocates: shared, so that peers on the same host can map
//! it, and on huge pages where there are some.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::{Arc, Once, OnceLock};

use crate::calls;
use crate::mirror::ObjectFile;
use crate::span::Span;

/// The huge page that is asked for.
pub(crate) const HUGE_BYTES: usize = 2 << 20;
const NAME: &CStr = c"longarm-region";

/// A range of zeroed memory behind a memfd, mapped until it is dropped.
///
/// The memfd is sealed against resizing, so nobody who gets the descriptor can cut
/// the memory off under those who use it.
#[derive(Debug)]
pub struct Region {
    /// None if the process may make no file of that size: then no peer can map the memory.
    fd: Option<Arc<OwnedFd>>,
    start: *mut u8,
    len_bytes: usize,
    mapped_bytes: usize,
    huge: bool,
}

// SAFETY: a region is a mapping and a descriptor, tied to no thread; its bytes are
// reached through raw pointers and spans only.
unsafe impl Send for Region {}
// SAFETY: as for Send.
unsafe impl Sync for Region {}

impl Region {
    /// Allocates `len_bytes` of zeros. From 2 MiB on huge pages are taken, and touched at
    /// once, if enough are reserved on this machine; if not, ordinary ones, which are
    /// touched when they are first used and may become huge later.
    ///
    /// # Errors
    /// `InvalidInput` for no bytes, `OutOfMemory` or what the kernel says for too many.
    pub fn allocate(len_bytes: u64) -> io::Result<Region> {
        let len_bytes = check_length(len_bytes)?;
        // Beyond the limit the kernel would not only refuse but send SIGXFSZ.
        if file_limit_bytes() < round_up(len_bytes, page_bytes())? as u64 {
            return Region::private(len_bytes);
        }
        if len_bytes >= HUGE_BYTES
            && let Ok(region) = Region::on_huge_pages(len_bytes)
        {
            return Ok(region);
        }
        Region::on_small_pages(len_bytes)
    }

    /// The first byte.
    pub fn ptr(&self) -> *mut u8 {
        self.start
    }

    /// The length that was asked for.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes as u64
    }

    /// The length of the mapping and of the memfd: whole pages.
    pub fn mapped_bytes(&self) -> u64 {
        self.mapped_bytes as u64
    }

    /// Whether it lies on reserved huge pages.
    pub fn is_huge(&self) -> bool {
        self.huge
    }

    /// The memfd, for a peer to map.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(|fd| fd.as_fd())
    }

    /// All of it, as peers are told of it.
    pub fn object_file(&self) -> Option<ObjectFile> {
        let fd = Arc::clone(self.fd.as_ref()?);
        Some(ObjectFile { fd, start: 0, len_bytes: self.mapped_bytes() })
    }

    /// The memfd, to share.
    pub(crate) fn file(&self) -> Option<&Arc<OwnedFd>> {
        self.fd.as_ref()
    }

    /// All of it, to copy to and from.
    pub fn span(&self) -> Span<'_> {
        // SAFETY: mapped for reading and writing until dropped; nobody is handed a reference
        // to the bytes, and who makes one from `ptr` answers for it.
        unsafe { Span::new(self.start, self.len_bytes) }
    }

    fn on_huge_pages(len_bytes: usize) -> io::Result<Region> {
        let mapped_bytes = round_up(len_bytes, HUGE_BYTES)?;
        let fd = memfd(NAME, mapped_bytes, libc::MFD_HUGETLB | libc::MFD_HUGE_2MB)?;
        // The mapping reserves its pages or fails. A control group may still refuse them
        // when they are touched, and the refusal would be a SIGBUS: so touch them now,
        // in a way that reports it.
        let region = Region::map(fd, len_bytes, mapped_bytes, true)?;
        region.advise(libc::MADV_POPULATE_WRITE)?;
        Ok(region)
    }

    fn on_small_pages(len_bytes: usize) -> io::Result<Region> {
        let mapped_bytes = round_up(len_bytes, page_bytes())?;
        let fd = memfd(NAME, mapped_bytes, 0)?;
        let region = Region::map(fd, len_bytes, mapped_bytes, false)?;
        if len_bytes >= HUGE_BYTES {
            // A wish; the kernel may not know it.
            let _ = region.advise(libc::MADV_HUGEPAGE);
        }
        Ok(region)
    }

    fn map(fd: OwnedFd, len_bytes: usize, mapped_bytes: usize, huge: bool) -> io::Result<Region> {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start =
            unsafe { libc::mmap(core::ptr::null_mut(), mapped_bytes, rights, libc::MAP_SHARED, fd.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Region { fd: Some(Arc::new(guest::high(fd))), start: start.cast(), len_bytes, mapped_bytes, huge })
    }

    /// Memory that peers reach as they reach a program's own: by `process_vm_readv(2)` or frames.
    fn private(len_bytes: usize) -> io::Result<Region> {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            log::warn!(
                "a limit on file sizes (`ulimit -f`) keeps peers on this host from mapping memory of {len_bytes} bytes"
            );
        });
        let mapped_bytes = round_up(len_bytes, page_bytes())?;
        let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe { libc::mmap(core::ptr::null_mut(), mapped_bytes, rights, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Region { fd: None, start: start.cast(), len_bytes, mapped_bytes, huge: false })
    }

    fn advise(&self, advice: libc::c_int) -> io::Result<()> {
        // SAFETY: the range is our own mapping, and the advice takes no contents away.
        let result = unsafe { calls::madvise(self.start.cast(), self.mapped_bytes, advice) };
        checked(result).map(drop)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: our own mapping; spans borrow the region, and a registry that
        // reaches it holds an `Arc` of it.
        let result = unsafe { libc::munmap(self.start.cast(), self.mapped_bytes) };
        debug_assert_eq!(result, 0, "a whole mapping can always be unmapped");
    }
}

/// The size of an ordinary page.
pub(crate) fn page_bytes() -> usize {
    static PAGE: OnceLock<usize> = OnceLock::new();
    *PAGE.get_or_init(|| {
        // SAFETY: asks for a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        usize::try_from(page).expect("every machine has a page size")
    })
}

fn check_length(len_bytes: u64) -> io::Result<usize> {
    if len_bytes == 0 {
        let message = "a region of no bytes cannot be allocated";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    usize::try_from(len_bytes).map_err(|_| io::ErrorKind::OutOfMemory.into())
}

/// The longest file that this process may make (getrlimit(2), `RLIMIT_FSIZE`): beyond it the kernel sends SIGXFSZ.
pub fn file_limit_bytes() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: fills one structure; if it fails, there is no limit that we know of.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) };
    limit.rlim_cur
}

fn round_up(len_bytes: usize, unit: usize) -> io::Result<usize> {
    let rounded = len_bytes.checked_next_multiple_of(unit);
    let fits = rounded.filter(|bytes| *bytes <= isize::MAX as usize);
    fits.ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// A memfd of that size, sealed against changing it.
pub(crate) fn memfd(name: &CStr, bytes: usize, flags: libc::c_uint) -> io::Result<OwnedFd> {
    let flags = flags | libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    let size = libc::off_t::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: plain system calls on a descriptor that is ours from its birth.
    unsafe {
        let fd = checked(libc::memfd_create(name.as_ptr(), flags))?;
        let fd = guest::high(OwnedFd::from_raw_fd(fd));
        checked(libc::ftruncate(fd.as_raw_fd(), size))?;
        checked(libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals))?;
        Ok(fd)
    }
}

pub(crate) fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(result),
    }
}

#[cfg(test)]
mod tests;
