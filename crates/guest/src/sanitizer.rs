//! AddressSanitizer in the program (`-fsanitize=address`).
//!
//! Its runtime takes the place of functions of the C library, and ends the program if one of them touches memory that is
//! marked: behind a buffer, freed, or poisoned by the program itself. A network card looks at no marks.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_void};
use core::mem::transmute;
use std::sync::OnceLock;

/// As memmove(3).
pub type Memmove = unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> *mut c_void;

/// The runtime's options.
pub const OPTIONS_VARIABLE: &str = "ASAN_OPTIONS";

/// The environment for a sanitized program with a library loaded before it: leave to do so. And it keeps
/// less freed memory back than the 256 MiB that are usual.
pub const OPTIONS_OF_PRELOADED: &str = "verify_asan_link_order=0:quarantine_size_mb=1";

/// Whether this program was built with it.
pub fn is_present() -> bool {
    static PRESENT: OnceLock<bool> = OnceLock::new();
    // SAFETY: looks a name up.
    *PRESENT.get_or_init(|| !unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__asan_init".as_ptr()) }.is_null())
}

/// The C library's own `memmove`, if the sanitizer has taken its place.
pub fn replaced_memmove() -> Option<Memmove> {
    if !is_present() {
        return None;
    }
    const C_LIBRARY: &CStr = c"libc.so.6";
    // SAFETY: finds a library that is loaded already, which is never unloaded, and looks a name up in it. What has
    // that name there is such a function.
    unsafe {
        let library = libc::dlopen(C_LIBRARY.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if library.is_null() {
            return None;
        }
        transmute::<*mut c_void, Option<Memmove>>(libc::dlsym(library, c"memmove".as_ptr()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_it_keeps_its_functions() {
        assert!(!is_present() && replaced_memmove().is_none());
    }
}
