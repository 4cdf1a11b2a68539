//! What the system says of the calling thread.
#![allow(unsafe_code)]

use crate::clock;
use crate::engine::rest::Usage;

/// Two system calls. `getrusage` counts the time to the last tick only, so the clock is asked for it.
pub(crate) fn of_this_thread() -> Usage {
    let ran = clock::thread_cpu_time();
    // SAFETY: zeros are a value of this plain structure.
    let mut usage: libc::rusage = unsafe { core::mem::zeroed() };
    // SAFETY: a place of ours.
    if unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) } != 0 {
        return Usage::default();
    }
    Usage { ran, preempted: usage.ru_nivcsw as u64, waited: usage.ru_nvcsw as u64 }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn who_sleeps_has_waited_and_who_computes_has_run() {
        let before = of_this_thread();
        std::thread::sleep(Duration::from_millis(1));
        let slept = of_this_thread();
        assert!(slept.waited > before.waited);
        while of_this_thread().ran < slept.ran + Duration::from_millis(1) {}
    }
}
