//! What `fork` does with adopted memory.
//!
//! A fork copies private pages and shares those of a memfd. So in the child every adopted range
//! is replaced by a private copy before `fork` returns there, and the thread that forks waits
//! in the parent until that is done: the child's copy is of the time of the fork, but for what
//! other threads of the parent wrote meanwhile.
//!
//! ```text
//!   prepare: lock the table, note what is mapped, make a pipe
//!   child:   copy, forget the table, unlock, write to the pipe
//!   parent:  wait for the pipe (or its end: no child, or a dead one), unlock
//! ```
//!
//! In the child only system calls are made and nothing is allocated or freed.

use std::cell::UnsafeCell;
use std::io;
use std::os::fd::{AsFd, RawFd};
use std::sync::{Arc, MutexGuard, OnceLock};

use super::moves::{self, Pages};
use super::{Adopted, Table, lock};

/// How long the parent waits for a child that lives but does not copy, in milliseconds.
const PATIENCE_MS: libc::c_int = 5000;

/// What is kept from `prepare` to the handlers after the fork.
struct Forking {
    table: MutexGuard<'static, Table>,
    parts: Vec<(Pages, Arc<Adopted>)>,
    pipe: Option<[RawFd; 2]>,
}

/// Touched by the thread that holds the table's lock alone.
struct Held(UnsafeCell<Option<Forking>>);

// SAFETY: the lock that lies in it keeps threads apart; and it is given back by the thread
// that took it, or by its copy in the child.
unsafe impl Sync for Held {}

static HELD: Held = Held(UnsafeCell::new(None));

/// From now on forks by the C library's `fork` are taken care of.
///
/// # Errors
/// If the C library has no memory for that.
pub(super) fn watch() -> io::Result<()> {
    static DONE: OnceLock<libc::c_int> = OnceLock::new();
    let refused = *DONE.get_or_init(|| {
        // SAFETY: the handlers keep to what they may do, and live as long as the program.
        unsafe { libc::pthread_atfork(Some(prepare), Some(in_parent), Some(in_child)) }
    });
    if refused == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(refused)) }
}

extern "C" fn prepare() {
    let table = lock();
    let mut parts = Vec::new();
    for entry in table.ranges.values() {
        let adopted = &entry.adopted;
        let mapped = adopted.mapped_parts(&adopted.pages.range);
        parts.extend(mapped.into_iter().map(|pages| (pages, Arc::clone(adopted))));
    }
    let pipe = if parts.is_empty() { None } else { pipe() };
    // SAFETY: this thread holds the lock.
    unsafe { *HELD.0.get() = Some(Forking { table, parts, pipe }) };
}

extern "C" fn in_parent() {
    // SAFETY: this thread has held the lock since `prepare`.
    let Some(forking) = (unsafe { (*HELD.0.get()).take() }) else {
        return;
    };
    if let Some([reader, writer]) = forking.pipe {
        // SAFETY: descriptors of our own.
        unsafe {
            // If there is no child, nobody has the other end now.
            libc::close(writer);
            let mut waiting = libc::pollfd { fd: reader, events: libc::POLLIN, revents: 0 };
            while libc::poll(&mut waiting, 1, PATIENCE_MS) < 0 && interrupted() {}
            libc::close(reader);
        }
    }
}

extern "C" fn in_child() {
    // SAFETY: this thread is the copy of the one that holds the lock.
    let Some(forking) = (unsafe { (*HELD.0.get()).take() }) else {
        return;
    };
    let Forking { mut table, parts, pipe } = forking;
    for (pages, adopted) in &parts {
        // SAFETY: the memfd was mapped there a moment ago, and no other thread is in this process.
        unsafe { moves::copy_in_child(pages, adopted.fd.as_fd()) };
    }
    // The allocator may be the program's own, and is left alone.
    core::mem::forget(core::mem::take(&mut table.ranges));
    core::mem::forget(parts);
    drop(table);
    if let Some([reader, writer]) = pipe {
        // SAFETY: descriptors of our own.
        unsafe {
            libc::write(writer, [1u8].as_ptr().cast(), 1);
            libc::close(reader);
            libc::close(writer);
        }
    }
}

fn pipe() -> Option<[RawFd; 2]> {
    let mut ends = [-1; 2];
    // SAFETY: fills two numbers.
    let made = unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } == 0;
    made.then_some(ends)
}

fn interrupted() -> bool {
    io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
}
