//! A daemon continues with its parent's objects.
//!
//! A program that makes its event channel and its listener and then calls `daemon(3)` continues as its own
//! child. In Linux the kernel's objects are the child's as well. Here the child takes them over as soon as
//! the parent has ended. It attaches itself to the hub in the parent's place, asks for the same ports, and
//! starts a thread of its own.
//!
//! While the parent lives the objects are the parent's alone, and the child's calls are refused.
//!
//! Outside this module: the child's thread and the locks are `process`'s.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::connections::Connections;

/// The time that a child waits, once, for the end of its parent: `daemon` ends it immediately.
const PARENT_ENDS: Duration = Duration::from_millis(300);
/// The time that a hub may take to answer.
const HUB_ANSWERS: Duration = Duration::from_secs(5);
/// The time between two checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// The process whose objects were taken over, and the process that took them.
static PARENT: AtomicU32 = AtomicU32::new(0);
static CHILD: AtomicU32 = AtomicU32::new(0);
/// Whether a child has waited for its parent's end already.
static WAITED: AtomicBool = AtomicBool::new(false);

/// Whether this process has taken over the objects of that one.
pub(crate) fn is_taken_from(process: u32) -> bool {
    PARENT.load(SeqCst) == process && CHILD.load(SeqCst) == std::process::id()
}

/// Records that this process has taken over the objects of `parent`.
pub(crate) fn record(parent: u32) {
    PARENT.store(parent, SeqCst);
    CHILD.store(std::process::id(), SeqCst);
    WAITED.store(false, SeqCst);
}

/// Whether the process that made the objects has ended. The first call waits a little for that.
pub(crate) fn has_ended(parent: u32) -> bool {
    let wait = if WAITED.swap(true, SeqCst) { Duration::ZERO } else { PARENT_ENDS };
    let end = Instant::now() + wait;
    loop {
        // The hub must know as well: it gives the ports to one process only.
        if !is_our_parent(parent) && !hub_knows(parent) {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(CHECK_INTERVAL);
    }
}

/// Attaches to the hub in the parent's place. Returns whether the hub has answered.
pub(crate) fn reattach(connections: &mut Connections) -> bool {
    connections.session_mut().take_over();
    let end = Instant::now() + HUB_ANSWERS;
    connections.maintain();
    while !connections.session_mut().is_attached() {
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(CHECK_INTERVAL);
        connections.maintain();
    }
    true
}

fn is_our_parent(process: u32) -> bool {
    rustix::process::getppid().is_some_and(|parent| parent.as_raw_nonzero().get() as u32 == process)
}

fn hub_knows(process: u32) -> bool {
    hub::client::status(None).is_ok_and(|status| status.managers.iter().any(|manager| manager.pid == process))
}
