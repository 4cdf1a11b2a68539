//! Runs a test in its own network namespace.
//!
//! On Linux each thread has a network namespace, which later threads and processes inherit from it. So root
//! runs the test on a new thread in a new namespace. An ordinary user needs a user namespace for that, and
//! only a process with one thread can enter one. There the test binary is executed once more, for that one
//! test, in a new user and network namespace in which it is root.
//!
//! A process that a test starts has copies of all descriptors of the test's process until it executes its
//! program. So if tests in one process start such processes concurrently, a port may still be held just after
//! a test has closed it.
//!
//! `/proc/net` and `/sys/class/net` show the namespace of the process; use `/proc/thread-self/net`.

use super::link::TestInterface;
use std::any::type_name;
use std::io;
use std::os::unix::process::CommandExt;
use std::panic::resume_unwind;
use std::process::Command;
use std::{env, fs, thread};

/// Set in the test binary that runs in its own namespaces. Names the file to create when the test has been
/// found and has passed.
const PASSED_FILE: &str = "LONGARM_TEST_NETNS_PASSED_FILE";

/// Runs a test in a new network namespace where only `lo` exists and is up. Panics propagate to the caller.
///
/// Call it from the test function itself, since an ordinary user's run finds the test again by its name.
///
/// # Panics
/// If the test does, or if the system allows no namespaces.
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
    // SAFETY: the call has no arguments and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

fn unshare(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: takes flags only. CLONE_NEWNET and CLONE_NEWUSER change namespaces of this thread, and no
    // memory or descriptor.
    crate::sys::check(unsafe { libc::unshare(flags) }).map(drop)
}

/// Moves this thread into a new network namespace.
pub(super) fn enter_new() {
    unshare(libc::CLONE_NEWNET)
        .expect("a new network namespace: tests of the network need root or unprivileged user namespaces");
    up_loopback();
}

fn up_loopback() {
    TestInterface::named("lo").set_up(true);
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

/// The test harness's name for the calling test: the name of its thread. On the main thread it is the path of
/// the function in which the closure was written, without the crate's name.
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
    // SAFETY: the closure runs in a forked child that has only this thread. It makes system calls and touches
    // only copies of two short strings that were made before the fork.
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
    // SAFETY: the calls have no arguments and cannot fail.
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

/// Writes a file without allocating, as required between fork and exec.
fn write_file(path: &std::ffi::CStr, text: &[u8]) -> io::Result<()> {
    // SAFETY: `path` ends with a zero; the descriptor is opened, used and closed here, with the slice's true
    // length.
    unsafe {
        let fd = crate::sys::check(libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC))?;
        let written = libc::write(fd, text.as_ptr().cast(), text.len());
        let error = io::Error::last_os_error();
        libc::close(fd);
        if written < 0 { Err(error) } else { Ok(()) }
    }
}
