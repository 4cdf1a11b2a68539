//! The handler of SIGSEGV, and whom it passes faults on to.

use core::ffi::{c_int, c_void};
use std::io;
use std::ptr;
use std::sync::OnceLock;

use libc::{sigaction, siginfo_t};

use super::{nobody_looks, put_page};
use crate::region::{checked, page_bytes};

const SIGNAL: c_int = libc::SIGSEGV;
/// Nothing is mapped at the address, <asm-generic/siginfo.h>.
const SEGV_MAPERR: c_int = 1;

/// What was done about the signal before.
static BEFORE: OnceLock<sigaction> = OnceLock::new();

/// Sets the handler, once.
pub(super) fn handle() -> io::Result<()> {
    static DONE: OnceLock<Result<(), c_int>> = OnceLock::new();
    let done = DONE.get_or_init(|| set().map_err(|error| error.raw_os_error().unwrap_or(libc::EINVAL)));
    done.map_err(io::Error::from_raw_os_error)
}

fn set() -> io::Result<()> {
    // Asked here, since the handler may not.
    page_bytes();
    // SAFETY: the structures are all zeros, which are such ones, or come from the kernel; the
    // handler keeps to what it may do, and stays loaded.
    unsafe {
        let mut action: sigaction = core::mem::zeroed();
        checked(libc::sigaction(SIGNAL, ptr::null(), &mut action))?;
        match libc::pthread_atfork(None, None, Some(nobody_looks)) {
            0 => {}
            refused => return Err(io::Error::from_raw_os_error(refused)),
        }
        let before = *BEFORE.get_or_init(|| action);
        // Whoever handled it finds the same signals blocked, and may leave the handler by a jump.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | before.sa_flags & libc::SA_NODEFER;
        action.sa_sigaction = on_fault as *const () as usize;
        checked(libc::sigaction(SIGNAL, &action, ptr::null_mut()))?;
    }
    Ok(())
}

/// Called by the kernel.
unsafe extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel's own structure, of a kind that has an address if the code says so; the
    // thread's own error number.
    let mended = unsafe {
        let errno = *libc::__errno_location();
        let mended = (*info).si_code == SEGV_MAPERR && put_page((*info).si_addr().addr());
        *libc::__errno_location() = errno;
        mended
    };
    if !mended {
        // SAFETY: as they came.
        unsafe { pass_on(signal, info, context) }
    }
}

/// Does what would have been done without us.
unsafe fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let Some(before) = BEFORE.get() else { return };
    // SAFETY: a handler is called as it was set to be called, by the flag that says how.
    unsafe {
        if before.sa_flags & libc::SA_RESETHAND != 0 {
            set_default();
        }
        let sent = (*info).si_code <= 0;
        match before.sa_sigaction {
            libc::SIG_IGN if sent => {}
            // Without a handler the fault comes again when this returns, and ends the process.
            libc::SIG_DFL | libc::SIG_IGN => {
                set_default();
                if sent {
                    libc::raise(signal);
                }
            }
            handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
                let handler: unsafe extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = core::mem::transmute(handler);
                handler(signal, info, context);
            }
            handler => {
                let handler: unsafe extern "C" fn(c_int) = core::mem::transmute(handler);
                handler(signal);
            }
        }
    }
}

fn set_default() {
    // SAFETY: all zeros are the default.
    unsafe {
        let default: sigaction = core::mem::zeroed();
        libc::sigaction(SIGNAL, &default, ptr::null_mut());
    }
}
