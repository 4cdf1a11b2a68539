//! Detection of AddressSanitizer in the program (`-fsanitize=address`).
//!
//! Its runtime replaces functions of the C library. It ends the program if one of them touches poisoned
//! memory: past a buffer, freed, or poisoned by the program itself. A network card ignores such marks.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_void};
use core::mem::transmute;
use std::sync::OnceLock;

/// The type of memmove(3).
pub type Memmove = unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> *mut c_void;

/// The environment variable with the runtime's options.
pub const OPTIONS_VARIABLE: &str = "ASAN_OPTIONS";

/// Options for a sanitized program with a library loaded before the runtime. They permit that order, and
/// reduce the freed memory that the runtime holds back (usually 256 MiB).
pub const OPTIONS_OF_PRELOADED: &str = "verify_asan_link_order=0:quarantine_size_mb=1";

/// True if this program was built with AddressSanitizer.
pub fn is_present() -> bool {
    static PRESENT: OnceLock<bool> = OnceLock::new();
    // SAFETY: only looks up a symbol by a zero-terminated name.
    *PRESENT.get_or_init(|| !unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__asan_init".as_ptr()) }.is_null())
}

/// The C library's own `memmove`, if the sanitizer has replaced it.
pub fn replaced_memmove() -> Option<Memmove> {
    if !is_present() {
        return None;
    }
    const C_LIBRARY: &CStr = c"libc.so.6";
    // SAFETY: finds a library that is already loaded and never unloaded, and looks up a symbol in it. The
    // symbol `memmove` there is a function of this type.
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
