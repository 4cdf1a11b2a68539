//! Memory that the library allocates: shared, so that peers on the same host can map it, and on huge pages if
//! the machine has reserved some. Or memory that the program has given.

mod file;

use std::ffi::CStr;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::{Arc, Once, OnceLock};

use crate::calls;
use crate::mirror::ObjectFile;
use crate::owned::{BorrowedMemory, OwnedMemory, RegionOwner};
use crate::span::Span;

/// The size of the huge pages that are requested.
pub(crate) const HUGE_BYTES: usize = 2 << 20;
const NAME: &CStr = c"longarm-region";

/// A range of memory that stays mapped until it is dropped: zeros behind a memfd, or [given](Region::of_owner) by the
/// program.
///
/// The memfd is sealed against resizing, so no holder of the descriptor can cut the memory off under its
/// users.
#[derive(Debug)]
pub struct Region {
    /// `None` if the process may make no file of that size: then no peer can map the memory.
    fd: Option<Arc<OwnedFd>>,
    start: *mut u8,
    len_bytes: usize,
    mapped_bytes: usize,
    huge: bool,
    /// The owner of memory that the program has given.
    owner: Option<RegionOwner>,
}

// SAFETY: a region is a mapping and a descriptor, tied to no thread; its bytes are accessed only through raw
// pointers and spans.
unsafe impl Send for Region {}
// SAFETY: shared use is sound too: the methods only read the fields, and the bytes are accessed only through
// raw pointers and spans.
unsafe impl Sync for Region {}

impl Region {
    /// Allocates `len_bytes` of zeros. From 2 MiB on it takes reserved huge pages and populates them
    /// immediately, if there are enough on this machine. Otherwise it takes ordinary pages, which are
    /// populated on first use and may become huge later.
    ///
    /// # Errors
    /// `InvalidInput` for no bytes, `OutOfMemory` or the kernel's error for too many.
    pub fn allocate(len_bytes: u64) -> io::Result<Region> {
        let len_bytes = check_length(len_bytes)?;
        // Beyond the limit the kernel would not only refuse but also send SIGXFSZ.
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

    /// The memory that the program gives; the region frees it. Peers access it like other memory of the program.
    ///
    /// # Errors
    /// `InvalidInput` for no bytes.
    pub fn of_owner(memory: impl OwnedMemory) -> io::Result<Region> {
        let mut owner: Box<dyn OwnedMemory> = Box::new(memory);
        let (start, len_bytes) = (owner.as_mut_ptr(), owner.len_bytes());
        check_length(len_bytes as u64)?;
        let owner = Some(RegionOwner(owner));
        Ok(Region { fd: None, start, len_bytes, mapped_bytes: len_bytes, huge: false, owner })
    }

    /// Lends `bytes` to `body` as a region. When it returns, or panics, they are the caller's alone again.
    ///
    /// The process is aborted if something still holds the region then: the device would go on to use memory that is
    /// not its any more.
    ///
    /// # Errors
    /// `InvalidInput` for no bytes.
    pub fn lend<R>(bytes: &mut [u8], body: impl FnOnce(&Arc<Region>) -> R) -> io::Result<R> {
        // SAFETY: the borrow outlives this call. At its end the loan makes sure that nothing has the region any more.
        let memory = unsafe { BorrowedMemory::new(bytes.as_mut_ptr(), bytes.len()) };
        let loan = RegionLoan(Arc::new(Region::of_owner(memory)?));
        Ok(body(&loan.0))
    }

    /// True if the program gave the memory.
    pub fn is_given(&self) -> bool {
        self.owner.is_some()
    }

    /// True if the program gave the memory as a value of this type.
    pub fn was_given_as<M: OwnedMemory>(&self) -> bool {
        self.owner.as_ref().is_some_and(RegionOwner::is::<M>)
    }

    /// The value that the program gave, if nothing else holds the region: no registration, no piece.
    ///
    /// # Errors
    /// The region, if something does, or the memory was given as another type or not at all.
    pub fn into_owner<M: OwnedMemory>(region: Arc<Region>) -> Result<M, Arc<Region>> {
        if !region.was_given_as::<M>() {
            return Err(region);
        }
        // Without its owner the region would unmap memory that it did not map. It has nothing else to drop.
        let mut region = ManuallyDrop::new(Arc::try_unwrap(region)?);
        let owner = region.owner.take().and_then(RegionOwner::into_value);
        Ok(owner.expect("its type was compared above"))
    }

    /// The first byte.
    pub fn ptr(&self) -> *mut u8 {
        self.start
    }

    /// The length that was requested.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes as u64
    }

    /// The length of the mapping and of the memfd: whole pages.
    pub fn mapped_bytes(&self) -> u64 {
        self.mapped_bytes as u64
    }

    /// True if it lies on reserved huge pages.
    pub fn is_huge(&self) -> bool {
        self.huge
    }

    /// The memfd, for a peer to map; `None` if a file size limit prevented one.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(|fd| fd.as_fd())
    }

    /// The whole region as an object for peers; `None` without a memfd.
    pub fn object_file(&self) -> Option<ObjectFile> {
        let fd = Arc::clone(self.fd.as_ref()?);
        Some(ObjectFile { fd, start: 0, len_bytes: self.mapped_bytes() })
    }

    /// The memfd, as a shared handle.
    pub(crate) fn file(&self) -> Option<&Arc<OwnedFd>> {
        self.fd.as_ref()
    }

    /// A span of the whole region, for copies.
    pub fn span(&self) -> Span<'_> {
        // SAFETY: mapped for reading and writing until `self` is dropped. This crate makes no reference to
        // the bytes except by `Piece`; for references made from `ptr`, their maker answers.
        unsafe { Span::new(self.start, self.len_bytes) }
    }

    fn on_huge_pages(len_bytes: usize) -> io::Result<Region> {
        let mapped_bytes = round_up(len_bytes, HUGE_BYTES)?;
        let fd = memfd(NAME, mapped_bytes, libc::MFD_HUGETLB | libc::MFD_HUGE_2MB)?;
        // The mapping reserves its pages or fails. A control group may still refuse them on first touch, by a
        // SIGBUS. So populate them now, with a call that returns an error.
        let region = Region::map(fd, len_bytes, mapped_bytes, true)?;
        region.advise(libc::MADV_POPULATE_WRITE)?;
        Ok(region)
    }

    fn on_small_pages(len_bytes: usize) -> io::Result<Region> {
        let mapped_bytes = round_up(len_bytes, page_bytes())?;
        let fd = memfd(NAME, mapped_bytes, 0)?;
        let region = Region::map(fd, len_bytes, mapped_bytes, false)?;
        if len_bytes >= HUGE_BYTES {
            // Only a hint; the kernel may not know it.
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
        Ok(Region {
            fd: Some(Arc::new(guest::high(fd))),
            start: start.cast(),
            len_bytes,
            mapped_bytes,
            huge,
            owner: None,
        })
    }

    /// Memory that peers access like a program's own: by `process_vm_readv(2)` or frames.
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
        Ok(Region { fd: None, start: start.cast(), len_bytes, mapped_bytes, huge: false, owner: None })
    }

    fn advise(&self, advice: libc::c_int) -> io::Result<()> {
        // SAFETY: the range is this region's own mapping, and the advice discards no contents.
        let result = unsafe { calls::madvise(self.start.cast(), self.mapped_bytes, advice) };
        checked(result).map(drop)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.owner.is_some() {
            return;
        }
        // SAFETY: this region's own mapping. Spans borrow the region, and a registry that reaches it holds an
        // `Arc` of it, so no access remains.
        let result = unsafe { libc::munmap(self.start.cast(), self.mapped_bytes) };
        debug_assert_eq!(result, 0, "a whole mapping can always be unmapped");
    }
}

/// A region of borrowed bytes. Its end is the end of the borrow.
struct RegionLoan(Arc<Region>);

impl Drop for RegionLoan {
    fn drop(&mut self) {
        if Arc::strong_count(&self.0) > 1 {
            log::error!("{} borrowed bytes are still registered at the end of their scope", self.0.len_bytes);
            std::process::abort();
        }
    }
}

/// The size of an ordinary page in bytes.
pub(crate) fn page_bytes() -> usize {
    static PAGE: OnceLock<usize> = OnceLock::new();
    *PAGE.get_or_init(|| {
        // SAFETY: only reads a constant of the system.
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

/// The longest file that this process may make (getrlimit(2), `RLIMIT_FSIZE`), in bytes: beyond it the kernel
/// sends SIGXFSZ.
pub fn file_limit_bytes() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: fills one structure; if the call fails, the structure keeps "no limit".
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) };
    limit.rlim_cur
}

fn round_up(len_bytes: usize, unit: usize) -> io::Result<usize> {
    let rounded = len_bytes.checked_next_multiple_of(unit);
    let fits = rounded.filter(|bytes| *bytes <= isize::MAX as usize);
    fits.ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// A memfd of `bytes`, sealed against resizing.
pub(crate) fn memfd(name: &CStr, bytes: usize, flags: libc::c_uint) -> io::Result<OwnedFd> {
    let flags = flags | libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    let size = libc::off_t::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: plain system calls on a new descriptor that nothing else owns.
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
