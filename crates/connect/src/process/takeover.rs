//! A daemon goes on with what its parent made.
//!
//! A program that makes its channel and its listener and then calls `daemon(3)` goes on as a child of itself. In the
//! kernel the objects are the child's as well. Here the child takes them over as soon as the parent has ended: it
//! attaches itself to the hub in the parent's place, asks for the same ports, and starts the thread anew.
//!
//! While the parent lives the objects are the parent's alone, and the child's calls are refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

use super::{PROCESS, Process, serve};

/// How long a child waits, once, for the end of its parent: `daemon` ends it at once.
const PARENT_ENDS: Duration = Duration::from_millis(300);
/// How long a hub may take to answer.
const HUB_ANSWERS: Duration = Duration::from_secs(5);
/// How long the child waits for a lock that its parent may have held when it forked.
const LOCK_WAIT: Duration = Duration::from_secs(1);
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// Whose objects this process has taken over, and which process that is.
static PARENT: AtomicU32 = AtomicU32::new(0);
static CHILD: AtomicU32 = AtomicU32::new(0);
/// A child has waited for its parent's end already.
static WAITED: AtomicBool = AtomicBool::new(false);

/// Whether this process has taken over what that one made.
pub(crate) fn is_taken_from(process: u32) -> bool {
    PARENT.load(SeqCst) == process && CHILD.load(SeqCst) == std::process::id()
}

/// Takes over what a parent made that has ended, if this process is its child.
pub fn take_over() -> bool {
    let process = PROCESS.try_lock_for(LOCK_WAIT).and_then(|place| place.as_ref()?.upgrade());
    let Some(guard) = process else { return false };
    let taken = guard.process.is_ours() || attempt(&guard.process);
    // A parent's is not ours to end.
    if !guard.process.is_ours() {
        std::mem::forget(guard);
    }
    taken
}

/// Likewise; false if the parent lives.
pub(super) fn attempt(process: &Process) -> bool {
    let parent = process.pid.load(SeqCst);
    has_ended(parent) && go_on(process, parent).is_some()
}

fn has_ended(parent: u32) -> bool {
    let patience = if WAITED.swap(true, SeqCst) { Duration::ZERO } else { PARENT_ENDS };
    let end = Instant::now() + patience;
    loop {
        // The hub must know as well: it gives the ports to one process only.
        if !is_our_parent(parent) && !hub_knows(parent) {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
}

fn is_our_parent(process: u32) -> bool {
    rustix::process::getppid().is_some_and(|parent| parent.as_raw_nonzero().get() as u32 == process)
}

fn hub_knows(process: u32) -> bool {
    hub::client::status(None).is_ok_and(|status| status.managers.iter().any(|manager| manager.pid == process))
}

fn go_on(process: &Process, parent: u32) -> Option<()> {
    let guard = process.guard.get()?.upgrade()?;
    let mut state = process.state.try_lock_for(LOCK_WAIT)?;
    state.session.take_over();
    let end = Instant::now() + HUB_ANSWERS;
    state.maintain(&guard.process);
    while !state.session.is_attached() {
        if Instant::now() >= end {
            return None;
        }
        std::thread::sleep(LOOK_INTERVAL);
        state.maintain(&guard.process);
    }
    let watched = guest::copy(state.session.poll_fd()).ok()?;
    process.pid.store(std::process::id(), SeqCst);
    PARENT.store(parent, SeqCst);
    CHILD.store(std::process::id(), SeqCst);
    WAITED.store(false, SeqCst);
    drop(state);
    let serving = Arc::clone(&guard.process);
    let thread = guest::spawn("longarm-cm", move || serve(&serving, &watched)).ok()?;
    // The parent's thread is not in this process.
    std::mem::forget(guard.thread.lock().replace(thread));
    log::info!("went on with what process {parent} made");
    Some(())
}
