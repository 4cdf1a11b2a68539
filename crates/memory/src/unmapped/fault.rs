//! The handler of SIGSEGV, which passes other faults on to the previous one.

use core::ffi::{c_int, c_void};
use std::io;
use std::ptr;
use std::sync::OnceLock;

use libc::{sigaction, siginfo_t};

use super::{put_page, reset_readers};
use crate::region::{checked, page_bytes};

const SIGNAL: c_int = libc::SIGSEGV;
/// The fault code for an unmapped address, <asm-generic/siginfo.h>.
const SEGV_MAPERR: c_int = 1;

/// The previous action for the signal.
static BEFORE: OnceLock<sigaction> = OnceLock::new();

/// Sets the handler, once.
pub(super) fn handle() -> io::Result<()> {
    static DONE: OnceLock<Result<(), c_int>> = OnceLock::new();
    let done = DONE.get_or_init(|| set().map_err(|error| error.raw_os_error().unwrap_or(libc::EINVAL)));
    done.map_err(io::Error::from_raw_os_error)
}

fn set() -> io::Result<()> {
    // Cached here, since the handler may not ask for it.
    page_bytes();
    // SAFETY: the structures are zeroed, which is valid for them, or come from the kernel. The handler makes
    // only calls that a signal handler may make, and stays loaded.
    unsafe {
        let mut action: sigaction = core::mem::zeroed();
        checked(libc::sigaction(SIGNAL, ptr::null(), &mut action))?;
        match libc::pthread_atfork(None, None, Some(reset_readers)) {
            0 => {}
            refused => return Err(io::Error::from_raw_os_error(refused)),
        }
        let before = *BEFORE.get_or_init(|| action);
        // A previous handler still finds the same signals blocked, and may leave by a jump.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | before.sa_flags & libc::SA_NODEFER;
        action.sa_sigaction = on_fault as *const () as usize;
        checked(libc::sigaction(SIGNAL, &action, ptr::null_mut()))?;
    }
    Ok(())
}

/// The signal handler, called by the kernel.
unsafe extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: `info` is the kernel's own structure, which has an address for this code; the error number is
    // this thread's own.
    let mended = unsafe {
        let errno = *libc::__errno_location();
        let mended = (*info).si_code == SEGV_MAPERR && put_page((*info).si_addr().addr());
        *libc::__errno_location() = errno;
        mended
    };
    if !mended {
        // SAFETY: the arguments are those of the kernel.
        unsafe { pass_on(signal, info, context) }
    }
}

/// Does what the previous action would have done.
unsafe fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let Some(before) = BEFORE.get() else { return };
    // SAFETY: the handler is called with the signature that its SA_SIGINFO flag declares, with the kernel's
    // arguments.
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
    // SAFETY: an all-zero `sigaction` is valid and means the default action.
    unsafe {
        let default: sigaction = core::mem::zeroed();
        libc::sigaction(SIGNAL, &default, ptr::null_mut());
    }
}
