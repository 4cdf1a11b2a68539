//! Running a test in a network namespace of its own.
//!
//! On Linux each thread has its network namespace: threads and processes that it starts
//! later inherit it. So root runs the test on a new thread in a new namespace. An ordinary
//! user needs a user namespace for that, which only a process with one thread can enter:
//! there the test binary is executed once more, for that one test, in a new user and network
//! namespace, in which it is root.
//!
//! A process that a test starts has copies of all descriptors of the process until it executes its program; so tests
//! that run beside one another in one process and start some may find a port still held that was just closed.
//!
//! `/proc/net` and `/sys/class/net` show the namespace of the process; use
//! `/proc/thread-self/net`.

use super::link::Link;
use std::any::type_name;
use std::io;
use std::os::unix::process::CommandExt;
use std::panic::resume_unwind;
use std::process::Command;
use std::{env, fs, thread};

/// Set in the test binary that runs in its own namespaces; names the file to be made when
/// the test has been found and has passed.
const PASSED_FILE: &str = "LONGARM_TEST_NETNS_PASSED_FILE";

/// Runs a test in a new network namespace where only `lo` exists and is up. Panics go
/// through.
///
/// To be called from the test function itself, since an ordinary user's run finds the test
/// again by its name.
///
/// # Panics
/// If the test does, or if namespaces are not to be had here.
pub fn in_new_netns<F: FnOnce() + Send>(test: F) {
    if let Ok(passed) = env::var(PASSED_FILE) {
        up_loopback();
        test();
        fs::write(passed, "passed").expect("the file of the test run can be written");
    } else if is_root() {
        on_new_thread(test);
    } else {
        in_new_process(&test_name::<F>());
    }
}

fn is_root() -> bool {
    // SAFETY: has no arguments and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

fn unshare(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: takes plain flags. CLONE_NEWNET and CLONE_NEWUSER change what names of the
    // system mean for this thread, and no memory or descriptor.
    crate::sys::check(unsafe { libc::unshare(flags) }).map(drop)
}

/// Moves this thread into a new network namespace.
pub(super) fn enter_new() {
    unshare(libc::CLONE_NEWNET)
        .expect("a new network namespace: tests of the network need root or unprivileged user namespaces");
    up_loopback();
}

fn up_loopback() {
    Link::named("lo").set_up(true);
}

fn on_new_thread<F: FnOnce() + Send>(test: F) {
    let name = thread::current().name().unwrap_or("netns").to_owned();
    thread::scope(|scope| {
        let entered = || {
            enter_new();
            test();
        };
        let thread = thread::Builder::new().name(name).spawn_scoped(scope, entered);
        let result = thread.expect("a thread for the namespace").join();
        result.unwrap_or_else(|panic| resume_unwind(panic));
    });
}

/// The name by which the test harness knows the calling test: that of its thread, or, where
/// it runs on the main thread, the path of the function in which the closure was written
/// without the crate's name.
fn test_name<F>() -> String {
    match thread::current().name() {
        Some(name) if name != "main" => name.to_owned(),
        _ => {
            let path = type_name::<F>().trim_end_matches("::{{closure}}");
            path.split_once("::").map_or(path, |(_crate, path)| path).to_owned()
        }
    }
}

fn in_new_process(test: &str) {
    let passed = env::temp_dir().join(format!("netns-{}-{test}", std::process::id()));
    let mut command = Command::new(env::current_exe().expect("the test binary has a path"));
    command.args([test, "--exact"]).env(PASSED_FILE, &passed);
    // SAFETY: runs in a forked child that has only this thread; makes system calls and
    // touches only the copies of two short strings that were made before the fork.
    unsafe { command.pre_exec(enter_as_root()) };
    let output = command
        .output()
        .expect("the test binary can be run again in new namespaces (unprivileged user namespaces are needed)");
    let found = fs::remove_file(&passed).is_ok();
    if !output.status.success() {
        print!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        panic!("{test} failed in its own namespaces: {}", output.status);
    }
    assert!(found, "{test} was not found: call in_new_netns from the test function itself");
}

/// For the child before it executes the test binary: new namespaces in which the user is root.
fn enter_as_root() -> impl FnMut() -> io::Result<()> + Send + Sync + 'static {
    // SAFETY: these have no arguments and cannot fail.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    let maps = [
        (c"/proc/self/setgroups", String::from("deny")),
        (c"/proc/self/uid_map", format!("0 {uid} 1")),
        (c"/proc/self/gid_map", format!("0 {gid} 1")),
    ];
    move || {
        unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET)?;
        maps.iter().try_for_each(|(path, text)| write_file(path, text.as_bytes()))
    }
}

/// Writes a file without allocating, as is needed between fork and exec.
fn write_file(path: &std::ffi::CStr, text: &[u8]) -> io::Result<()> {
    // SAFETY: `path` ends with a zero, and the descriptor is opened, used and closed here,
    // with the slice's true length.
    unsafe {
        let fd = crate::sys::check(libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC))?;
        let written = libc::write(fd, text.as_ptr().cast(), text.len());
        let error = io::Error::last_os_error();
        libc::close(fd);
        if written < 0 { Err(error) } else { Ok(()) }
    }
}
