//! The handler of SIGSEGV and SIGBUS, which passes other faults on to the previous one.

use core::ffi::{c_int, c_void};
use std::io;
use std::ptr;
use std::sync::OnceLock;

use libc::{sigaction, siginfo_t};

use super::{put_page, replace_page, reset_readers};
use crate::region::{checked, page_bytes};

/// The fault code of SIGSEGV for an unmapped address, <asm-generic/siginfo.h>.
const SEGV_MAPERR: c_int = 1;
/// The fault code of SIGBUS for an address beyond the end of a mapped file.
const BUS_ADRERR: c_int = 2;

const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];
/// The previous actions for the signals.
static BEFORE: [OnceLock<sigaction>; 2] = [OnceLock::new(), OnceLock::new()];

/// Sets the handlers, once.
pub(super) fn handle() -> io::Result<()> {
    static DONE: OnceLock<Result<(), c_int>> = OnceLock::new();
    let done = DONE.get_or_init(|| set().map_err(|error| error.raw_os_error().unwrap_or(libc::EINVAL)));
    done.map_err(io::Error::from_raw_os_error)
}

fn set() -> io::Result<()> {
    // Cached here, since the handler may not ask for it.
    page_bytes();
    // SAFETY: registers a function that only stores to atomics.
    match unsafe { libc::pthread_atfork(None, None, Some(reset_readers)) } {
        0 => {}
        refused => return Err(io::Error::from_raw_os_error(refused)),
    }
    SIGNALS.iter().zip(&BEFORE).try_for_each(|(signal, before)| set_one(*signal, before))
}

fn set_one(signal: c_int, before: &OnceLock<sigaction>) -> io::Result<()> {
    // SAFETY: the structures are zeroed, which is valid for them, or come from the kernel. The handler makes
    // only calls that a signal handler may make, and stays loaded.
    unsafe {
        let mut action: sigaction = core::mem::zeroed();
        checked(libc::sigaction(signal, ptr::null(), &mut action))?;
        let before = *before.get_or_init(|| action);
        // A previous handler still finds the same signals blocked, and may leave by a jump.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | before.sa_flags & libc::SA_NODEFER;
        action.sa_sigaction = on_fault as *const () as usize;
        checked(libc::sigaction(signal, &action, ptr::null_mut()))?;
    }
    Ok(())
}

/// The signal handler, called by the kernel.
unsafe extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: `info` is the kernel's own structure, which has an address for this code; the error number is
    // this thread's own.
    let mended = unsafe {
        let errno = *libc::__errno_location();
        let mended = match (signal, (*info).si_code) {
            (libc::SIGSEGV, SEGV_MAPERR) => put_page((*info).si_addr().addr()),
            (libc::SIGBUS, BUS_ADRERR) => replace_page((*info).si_addr().addr()),
            _ => false,
        };
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
    let before = SIGNALS.iter().zip(&BEFORE).find(|(known, _)| **known == signal);
    let Some(before) = before.and_then(|(_, before)| before.get()) else { return };
    // SAFETY: the handler is called with the signature that its SA_SIGINFO flag declares, with the kernel's
    // arguments.
    unsafe {
        if before.sa_flags & libc::SA_RESETHAND != 0 {
            set_default(signal);
        }
        let sent = (*info).si_code <= 0;
        match before.sa_sigaction {
            libc::SIG_IGN if sent => {}
            // Without a handler the fault comes again when this returns, and ends the process.
            libc::SIG_DFL | libc::SIG_IGN => {
                set_default(signal);
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

fn set_default(signal: c_int) {
    // SAFETY: an all-zero `sigaction` is valid and means the default action.
    unsafe {
        let default: sigaction = core::mem::zeroed();
        libc::sigaction(signal, &default, ptr::null_mut());
    }
}
