//! The system's figures for the calling thread.
#![allow(unsafe_code)]

use crate::clock;
use crate::engine::rest::ThreadUsage;

/// Makes two system calls: `getrusage` counts the time to the last tick only, so the clock tells the time.
pub(crate) fn of_this_thread() -> ThreadUsage {
    let ran = clock::thread_cpu_time();
    // SAFETY: `rusage` is a plain C structure of integers, for which all zeros is a value.
    let mut usage: libc::rusage = unsafe { core::mem::zeroed() };
    // SAFETY: the pointer is to a local value of the type that `getrusage` writes.
    if unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) } != 0 {
        return ThreadUsage::default();
    }
    ThreadUsage { ran, preempted: usage.ru_nivcsw as u64, waited: usage.ru_nvcsw as u64 }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_sleeping_thread_waits_and_a_computing_thread_runs() {
        let before = of_this_thread();
        std::thread::sleep(Duration::from_millis(1));
        let slept = of_this_thread();
        assert!(slept.waited > before.waited);
        while of_this_thread().ran < slept.ran + Duration::from_millis(1) {}
    }
}
