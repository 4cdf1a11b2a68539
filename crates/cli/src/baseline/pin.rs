//! Pins threads to cores, so that the two sides of a measurement do not share one.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores that the process could use at its start; pinned threads and their
/// children see fewer.
fn cores() -> &'static [usize] {
    static CORES: OnceLock<Vec<usize>> = OnceLock::new();
    CORES.get_or_init(|| {
        let allowed = sched_getaffinity(None).unwrap_or_default();
        (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect()
    })
}

static PINS: AtomicBool = AtomicBool::new(true);

/// Turns pinning off: the scheduler decides where each thread runs.
pub(crate) fn never_pin() {
    PINS.store(false, Relaxed);
}

/// Whether threads are pinned.
pub(crate) fn pins() -> bool {
    PINS.load(Relaxed)
}

/// Pins the calling thread to the `index`-th core of the process, modulo their number.
/// Without permission the thread stays unpinned.
pub(crate) fn pin_to_core(index: usize) {
    if pins() && cores().len() >= 2 {
        restrict_to(&cores()[index % cores().len()..][..1]);
    }
}

/// The core of the client's thread `index`; each side has `threads` threads. The two sides
/// use different cores if there are enough.
fn client_core(index: usize, threads: usize) -> usize {
    if cores().len() >= 2 * threads { 2 * index } else { index }
}

/// The core of the server's thread `index`.
fn server_core(index: usize, threads: usize) -> usize {
    if cores().len() >= 2 * threads { 2 * index + 1 } else { threads + index }
}

/// Pins the calling thread to [`client_core`].
pub(crate) fn pin_client(index: usize, threads: usize) {
    pin_to_core(client_core(index, threads));
}

/// Pins the calling thread to [`server_core`].
pub(crate) fn pin_server(index: usize, threads: usize) {
    pin_to_core(server_core(index, threads));
}

/// The system's number of the `index`-th core of the process.
pub(crate) fn core_number(index: usize) -> usize {
    cores().get(index % cores().len().max(1)).copied().unwrap_or(0)
}

/// Lets the calling thread, and the processes that it starts, use all cores again.
pub(crate) fn unpin() {
    restrict_to(cores());
}

fn restrict_to(cores: &[usize]) {
    let mut set = CpuSet::new();
    cores.iter().for_each(|core| set.set(*core));
    let _ = sched_setaffinity(None, &set);
}
