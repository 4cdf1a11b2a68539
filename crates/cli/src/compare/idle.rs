//! C2: the cost of an idle process with open queue pairs.

use std::fs;
use std::io;
use std::thread;
use std::time::Duration;

/// CPU time that all threads of this process use while it sleeps for `duration`, in nanoseconds.
pub(super) fn idle_cpu_ns(duration: Duration) -> io::Result<u64> {
    let before = cpu_time_ns()?;
    thread::sleep(duration);
    Ok(cpu_time_ns()?.saturating_sub(before))
}

/// CPU time of all threads so far.
fn cpu_time_ns() -> io::Result<u64> {
    let mut total = 0;
    for task in fs::read_dir("/proc/self/task")? {
        let text = fs::read_to_string(task?.path().join("schedstat"))?;
        total += text.split_whitespace().next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(total)
}

/// Resident memory of this process in bytes.
pub(crate) fn resident_bytes() -> io::Result<u64> {
    let text = fs::read_to_string("/proc/self/statm")?;
    let pages = text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    Ok(pages.unwrap_or(0) * rustix::param::page_size() as u64)
}
