//! Resources of a process, as the system counts them.

use std::fs;
use std::time::Duration;

/// Things that a process holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessHold {
    pub(crate) descriptors: usize,
    pub(crate) threads: usize,
    /// Memory with contents, of its own and shared, in KiB.
    pub(crate) resident_kib: u64,
    /// Pieces of address space.
    pub(crate) mappings: usize,
}

impl ProcessHold {
    pub(crate) fn of(pid: u32) -> ProcessHold {
        let count = |directory: &str| fs::read_dir(format!("/proc/{pid}/{directory}")).unwrap().count();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        ProcessHold {
            descriptors: count("fd"),
            threads: count("task"),
            resident_kib: resident.trim().trim_end_matches(" kB").parse().unwrap(),
            mappings: fs::read_to_string(format!("/proc/{pid}/maps")).unwrap().lines().count(),
        }
    }

    /// True if a process that once held `before` has lost nothing since. The pools of registered memory may have grown
    /// by some pieces: each has a descriptor.
    pub(crate) fn is_back_to(&self, before: &ProcessHold, pieces: usize) -> bool {
        self.descriptors <= before.descriptors + pieces
            && self.threads <= before.threads
            && self.resident_kib <= before.resident_kib + 24 * 1024
    }
}

/// Processor time that a process has used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessCost(Duration);

impl ProcessCost {
    pub(crate) fn of(pid: u32) -> ProcessCost {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let nanos = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("schedstat")).ok());
        ProcessCost(nanos.map(|line| Duration::from_nanos(line.split(' ').next().unwrap().parse().unwrap())).sum())
    }

    pub(crate) fn since(self, earlier: ProcessCost) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// True if all threads of a process stand still by a signal.
pub(super) fn has_stopped(pid: u32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let mut states = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("stat")).ok());
    states.all(|stat| stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T')))
}
