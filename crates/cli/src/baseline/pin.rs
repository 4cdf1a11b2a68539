//! Keeping a thread on one core, so that both sides of a measurement do not share one.

use std::sync::OnceLock;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores that the process might use when it began; pinned threads and their
/// children see fewer.
fn cores() -> &'static [usize] {
    static CORES: OnceLock<Vec<usize>> = OnceLock::new();
    CORES.get_or_init(|| {
        let allowed = sched_getaffinity(None).unwrap_or_default();
        (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect()
    })
}

/// Pins the calling thread to the `index`-th core of the process, counted round.
/// Without permission the thread stays where it is.
pub(crate) fn pin_to_core(index: usize) {
    if cores().len() >= 2 {
        restrict_to(&cores()[index % cores().len()..][..1]);
    }
}

/// Lets the calling thread, and the processes it starts, use every core again.
pub(crate) fn unpin() {
    restrict_to(cores());
}

fn restrict_to(cores: &[usize]) {
    let mut set = CpuSet::new();
    cores.iter().for_each(|core| set.set(*core));
    let _ = sched_setaffinity(None, &set);
}
