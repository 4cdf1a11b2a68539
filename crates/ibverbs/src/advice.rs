//! The program's calls of `madvise`, which come here first: they change the fate of registered pages (`memory::advise`).
//!
//! Programs find this function instead of the C library's because they are linked to this library, and it comes first.
//! One that was linked in another way (`dlopen`, a copy of its own) does not; then no memory of it is adopted.

use std::io;
use std::sync::OnceLock;

use crate::boundary::{Errno, set_errno};
use abi::{c_int, c_void};

type Madvise = unsafe extern "C" fn(*mut c_void, usize, c_int) -> c_int;

/// As madvise(2).
///
/// # Safety
/// As madvise(2).
#[cfg(not(test))]
#[unsafe(no_mangle)]
#[allow(unreachable_pub, reason = "the symbol is what is reached")]
pub unsafe extern "C" fn madvise(start: *mut c_void, len_bytes: usize, advice: c_int) -> c_int {
    // SAFETY: the contract of madvise(2), which the program keeps.
    unsafe { watched(start, len_bytes, advice) }
}

/// Asks whether the program's calls come here; from then on memory may be adopted.
pub(crate) fn watch() {
    #[cfg(not(test))]
    {
        // SAFETY: `dlsym` takes a string and changes nothing.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"madvise".as_ptr()) };
        if found == madvise as *const () as *mut c_void && next().is_some() {
            device::set_advice_watched();
        }
    }
}

#[cfg_attr(test, allow(dead_code, reason = "only the shared library exports it"))]
unsafe fn watched(start: *mut c_void, len_bytes: usize, advice: c_int) -> c_int {
    let otherwise = |start: usize, len_bytes: usize| {
        // SAFETY: the contract of madvise(2), which the program keeps.
        let result = unsafe { by_the_library(start, len_bytes, advice) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    // SAFETY: the contract of madvise(2), which the program keeps.
    match unsafe { device::advise(start.expose_provenance(), len_bytes, advice, otherwise) } {
        Ok(()) => 0,
        Err(error) => {
            set_errno(Errno(error.raw_os_error().unwrap_or(libc::EINVAL)));
            -1
        }
    }
}

/// The C library's function, or the one that another library has put in its place.
unsafe fn by_the_library(start: usize, len_bytes: usize, advice: c_int) -> c_int {
    let start = core::ptr::with_exposed_provenance_mut(start);
    // SAFETY: the contract of madvise(2), which the program keeps.
    unsafe {
        match next() {
            Some(madvise) => madvise(start, len_bytes, advice),
            None => libc::syscall(libc::SYS_madvise, start, len_bytes, advice) as c_int,
        }
    }
}

fn next() -> Option<Madvise> {
    static NEXT: OnceLock<Option<Madvise>> = OnceLock::new();
    *NEXT.get_or_init(|| {
        // SAFETY: looks a name up; what has it is such a function.
        unsafe {
            let found = libc::dlsym(libc::RTLD_NEXT, c"madvise".as_ptr());
            core::mem::transmute::<*mut c_void, Option<Madvise>>(found)
        }
    })
}
