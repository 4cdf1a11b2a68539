//! Threads that take none of the program's signals.
//!
//! The kernel gives a signal for the process to any thread that does not block it. A program may block
//! `SIGUSR1` in its own threads, to read it from a signalfd. On a thread of this library the signal would
//! kill it. So this library's threads block every signal from their first instruction on: a new thread
//! inherits the mask of its maker.
//!
//! Signals that an instruction raises stay unblocked. A blocked one would end the process without a call of
//! its handler, and `memory::unmapped` has such a handler.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::thread::{Builder, JoinHandle};

use crate::ours::{ListedThread, StartingThread};

/// Signals that an instruction raises, for the thread that executes it.
const RAISED_BY_INSTRUCTIONS: [libc::c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

/// Starts a thread that takes none of the program's signals.
///
/// # Errors
/// If the system has no thread left.
// The only function that starts threads of this library.
#[allow(clippy::disallowed_methods)]
pub fn spawn<T, F>(name: &str, run: F) -> io::Result<JoinHandle<T>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let _blocked = Blocked::new();
    let starting = StartingThread::new();
    Builder::new().name(name.into()).spawn(|| {
        let _ours = ListedThread::new();
        drop(starting);
        run()
    })
}

/// Blocks all signals in the calling thread while this value lives, except those that instructions raise.
struct Blocked {
    before: libc::sigset_t,
}

impl Blocked {
    fn new() -> Blocked {
        let mut all = MaybeUninit::uninit();
        let mut before = MaybeUninit::uninit();
        // SAFETY: `sigfillset` initialises the set before any other use; the signals removed from it exist.
        // `pthread_sigmask` reads it and writes the old one, and can fail only for an unknown `how`.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            for signal in RAISED_BY_INSTRUCTIONS {
                libc::sigdelset(all.as_mut_ptr(), signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr());
            Blocked { before: before.assume_init() }
        }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: the set is the one that `pthread_sigmask` returned in `new`.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The signals that the calling thread blocks, as a mask.
    fn blocked() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    }

    fn bit(signal: libc::c_int) -> u64 {
        1 << (signal - 1)
    }

    #[test]
    fn a_thread_blocks_what_is_sent_and_not_what_is_raised() {
        let before = blocked();
        let its = spawn("test", blocked).unwrap().join().unwrap();
        assert_eq!(blocked(), before, "the caller's mask is unchanged");
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGUSR1, libc::SIGCHLD, libc::SIGALRM, libc::SIGPIPE, 64] {
            assert!(its & bit(signal) != 0, "signal {signal} is not blocked");
        }
        for signal in RAISED_BY_INSTRUCTIONS {
            assert!(its & bit(signal) == 0, "signal {signal} is blocked");
        }
    }
}
