//! A process and its descendants, from `/proc`.

use std::fs;

use rustix::process::{Pid, Signal};

/// The process and all its descendants.
pub(super) fn of(root: u32) -> Vec<u32> {
    let all = parents();
    let mut tree = vec![root];
    let mut next = 0;
    while let Some(parent) = tree.get(next).copied() {
        tree.extend(all.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    tree
}

/// Sends a signal to the process and all its descendants.
pub(super) fn signal(root: u32, signal: Signal) {
    for pid in of(root) {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        // The process may have ended in the meantime.
        pid.map(|pid| rustix::process::kill_process(pid, signal));
    }
}

/// All processes with their parents.
fn parents() -> Vec<(u32, u32)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| Some((pid, parent(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?))).collect()
}

/// The parent in a line of `/proc/PID/stat`: `pid (name) state parent …`. The name may contain
/// any character.
fn parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_parent_is_found_behind_any_name() {
        assert_eq!(parent("7 (a) b) (c) S 42 7 7 0"), Some(42));
        assert_eq!(parent("7 (a"), None);
    }

    #[test]
    fn a_child_of_a_child_belongs_to_it_and_is_signalled() {
        let mut shell = Command::new("sh").args(["-c", "sleep 60 & wait"]).spawn().unwrap();
        while of(shell.id()).len() < 2 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let sleeper = of(shell.id())[1];
        assert!(of(std::process::id()).contains(&sleeper));
        signal(shell.id(), Signal::KILL);
        shell.wait().unwrap();
        while fs::read_to_string(format!("/proc/{sleeper}/stat")).is_ok_and(|stat| !stat.contains(") Z ")) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert_eq!(of(shell.id()), [shell.id()]);
    }
}
