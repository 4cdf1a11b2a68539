//! Executing a program as a process that has nothing to do with this one.
//!
//! ```text
//!   application --clone--> middle --clone--> program
//!       |                    | setsid           | descriptors, signals, execve
//!       | waits for middle   | ends             v
//!       v                    x               child of init
//! ```
//!
//! Both clones share the application's memory until they execute or end, while the caller is
//! suspended (`CLONE_VM | CLONE_VFORK`, as `posix_spawn` does it): no page tables of a big
//! application are copied. The middle process has no exit signal, so the application gets no
//! `SIGCHLD` and `wait` without `__WALL` does not see it.
//!
//! The children run with all signals blocked until they have none of the application's
//! handlers any more.
//!
//! A program with set-user-ID starts the hub of its effective user. The caller of such a program must have no power over
//! that hub: so the hub gets the effective ids as its only ones, and none of the caller's groups.
#![allow(unsafe_code)]

use guest::environment;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::ptr;

const STACK_BYTES: usize = 32 << 10;

/// One stack; both ends are fit for a stack pointer.
#[repr(C, align(64))]
struct Stack([MaybeUninit<u8>; STACK_BYTES]);

/// The data for the children, made before they start: they must not allocate.
struct ExecPlan {
    path: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
    stdio: [RawFd; 3],
    inner_stack_end: *mut c_void,
    /// Whether the application has more rights than its caller.
    is_privileged: bool,
    /// The children's error for the application; 0 if there is none.
    errno: c_int,
}

/// Executes `path`; its standard input, output and error are `stdio`, which must not be 0, 1
/// or 2, and it has no other descriptors.
///
/// # Errors
/// As `clone(2)` and `execve(2)`.
pub(super) fn execute(
    path: &CStr,
    arguments: &[&CStr],
    variables: &[CString],
    stdio: [BorrowedFd<'_>; 3],
) -> io::Result<()> {
    let stdio = stdio.map(|fd| fd.as_raw_fd());
    assert!(stdio.iter().all(|fd| *fd > 2));
    let arguments = null_terminated(arguments.iter().map(|argument| argument.as_ptr()));
    let variables = null_terminated(variables.iter().map(|variable| variable.as_ptr()));
    let mut stacks = [Box::<Stack>::new_uninit(), Box::<Stack>::new_uninit()];
    let [outer_stack_end, inner_stack_end] = stacks.each_mut().map(|stack| {
        let start: *mut u8 = stack.as_mut_ptr().cast();
        start.wrapping_add(STACK_BYTES).cast::<c_void>()
    });
    let mut plan = ExecPlan {
        path: path.as_ptr(),
        arguments: arguments.as_ptr(),
        environment: variables.as_ptr(),
        stdio,
        inner_stack_end,
        is_privileged: !environment::is_trusted(),
        errno: 0,
    };
    // SAFETY: `plan`, the strings and tables that it points to, and the stacks are this function's own, and live until
    // the call returns. No other thread has a pointer to them.
    let cloned = unsafe { clone_middle(outer_stack_end, &raw mut plan) };
    cloned?;
    // SAFETY: the field is this function's own. The children that wrote to it have ended or executed the program.
    match unsafe { ptr::read_volatile(&raw const plan.errno) } {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

fn null_terminated(strings: impl Iterator<Item = *const c_char>) -> Vec<*const c_char> {
    strings.chain([ptr::null()]).collect()
}

/// Runs [`middle`] as a child and waits for its end, with signals blocked in both.
///
/// # Safety
/// Until the call returns, `stack_end` must be the end of [`STACK_BYTES`] without another user, and `plan` a
/// valid plan.
unsafe fn clone_middle(stack_end: *mut c_void, plan: *mut ExecPlan) -> io::Result<()> {
    let mut all = MaybeUninit::uninit();
    let mut before = MaybeUninit::uninit();
    // SAFETY: `sigfillset` initializes `all`, which `pthread_sigmask` reads before it initializes `before`.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    // SAFETY: the contract of this function gives the child a stack and a plan. With CLONE_VFORK this thread is
    // suspended until the child has ended, so both do not use the memory at the same time.
    let pid = unsafe { libc::clone(middle, stack_end, libc::CLONE_VM | libc::CLONE_VFORK, plan.cast()) };
    let result = if pid < 0 { Err(io::Error::last_os_error()) } else { Ok(()) };
    // SAFETY: `waitpid` accepts a null status. `before` was initialized above.
    unsafe {
        while pid > 0 && libc::waitpid(pid, ptr::null_mut(), libc::__WALL) < 0 && errno() == libc::EINTR {}
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
    }
    result
}

/// The middle process: leads a new session and starts the program, which so becomes an orphan
/// and is not the session's leader.
extern "C" fn middle(plan: *mut c_void) -> c_int {
    let plan: *mut ExecPlan = plan.cast();
    // SAFETY: the contract of `clone_middle`: `plan` is valid, and with it its inner stack. All other calls are system
    // calls on integers.
    unsafe {
        libc::setsid();
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        if libc::clone(inner, (*plan).inner_stack_end, flags, plan.cast()) < 0 {
            (*plan).errno = errno();
        }
        libc::_exit(0)
    }
}

/// The process that becomes the program.
extern "C" fn inner(plan: *mut c_void) -> c_int {
    let plan: *mut ExecPlan = plan.cast();
    // SAFETY: the contract of `clone_middle`: `plan` is valid, with three open descriptors, and strings and
    // tables that end with a zero. All calls are system calls, which neither allocate nor lock.
    unsafe {
        for (number, fd) in (*plan).stdio.iter().enumerate() {
            if libc::dup2(*fd, number as c_int) < 0 {
                (*plan).errno = errno();
                libc::_exit(127)
            }
        }
        // Kernels before 5.9 do not know it; then only those marked so are closed.
        libc::syscall(libc::SYS_close_range, 3 as c_int, c_int::MAX, 0 as c_int);
        libc::chdir(c"/".as_ptr());
        libc::umask(0o077);
        default_scheduling();
        default_signals();
        if (*plan).is_privileged && !keep_effective_rights() {
            (*plan).errno = errno();
            libc::_exit(127)
        }
        libc::execve((*plan).path, (*plan).arguments, (*plan).environment);
        (*plan).errno = errno();
        libc::_exit(127)
    }
}

/// Makes the effective ids the only ones of this process, and forbids that executing a file changes them. So the
/// kernel lets the new program trust its environment, which is the hub's. Returns whether that worked.
///
/// # Safety
/// Only for a process that is about to execute a program.
unsafe fn keep_effective_rights() -> bool {
    // SAFETY: system calls on integers and one null pointer with a count of 0. The C library's functions of these names
    // would change the application's threads, whose memory this process shares.
    unsafe {
        let user = libc::geteuid();
        // A hub of the caller's own user needs no group that only the program has.
        let group = if user == libc::getuid() { libc::getgid() } else { libc::getegid() };
        // If this fails, the groups are the caller's own.
        libc::syscall(libc::SYS_setgroups, 0, ptr::null::<libc::gid_t>());
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::syscall(libc::SYS_setresgid, group, group, group) == 0
            && libc::syscall(libc::SYS_setresuid, user, user, user) == 0
    }
}

/// Sets ordinary scheduling on all processors. An application that polls on a processor of its own, maybe
/// with real-time priority, must not starve the hub. Nor must the hub disturb it.
fn default_scheduling() {
    // SAFETY: the kernel reads the two structures, which have the lengths it is told or knows; a
    // failure leaves all as it was. An all-zero `sched_param` is a valid one.
    unsafe {
        let parameters: libc::sched_param = MaybeUninit::zeroed().assume_init();
        libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const parameters);
        let processors = [u8::MAX; size_of::<libc::cpu_set_t>()];
        libc::sched_setaffinity(0, processors.len(), processors.as_ptr().cast());
    }
}

/// Gives all signals their default actions, then unblocks them.
///
/// # Safety
/// Only for a process that shares its signal handlers with no other.
unsafe fn default_signals() {
    // SAFETY: an all-zero `sigaction` is a valid one, with the default action (0) and no
    // blocked signals; numbers that cannot be set are refused without effect.
    unsafe {
        let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
        action.sa_sigaction = libc::SIG_DFL;
        for signal in 1..=64 {
            libc::sigaction(signal, &raw const action, ptr::null_mut());
        }
        let mut none = MaybeUninit::uninit();
        libc::sigemptyset(none.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut());
    }
}

fn errno() -> c_int {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}
