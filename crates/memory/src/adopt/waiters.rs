//! Threads that wait on a word of memory by its page: futexes shared between processes.
//!
//! The kernel files such a wait by process and address in private memory, and by file and offset in shared
//! memory. If the memory changes its kind, the waking thread searches under another key than the waiter's.

use std::fs;
use std::ops::Range;

/// True if a thread of this process waits on a word in one of these ranges, as far as the kernel tells.
pub(super) fn exist(ranges: &[Range<usize>]) -> bool {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else { return true };
    tasks.flatten().any(|task| {
        let call = fs::read_to_string(task.path().join("syscall")).unwrap_or_default();
        waits(&call, ranges)
    })
}

/// `call` is the number of a system call and its arguments, or "running".
fn waits(call: &str, ranges: &[Range<usize>]) -> bool {
    let mut words = call.split_ascii_whitespace();
    let number: Option<libc::c_long> = words.next().and_then(|word| word.parse().ok());
    let mut argument = || words.next().and_then(|word| usize::from_str_radix(word.trim_start_matches("0x"), 16).ok());
    match number {
        Some(libc::SYS_futex) => {
            let (address, operation) = (argument(), argument());
            let is_private = operation.is_some_and(|operation| operation & libc::FUTEX_PRIVATE_FLAG as usize != 0);
            !is_private && address.is_none_or(|address| ranges.iter().any(|range| range.contains(&address)))
        }
        // It takes a list of words, which is not parsed here.
        Some(libc::SYS_futex_waitv) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_recognized() {
        let ranges = [0x1000..0x3000, 0x8000..0x9000];
        let private = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        for (call, expected) in [
            (format!("{} 0x2ff8 0x0 0x0 0x0 0x0 0x0 0x7ffc 0x7f00", libc::SYS_futex), true),
            (format!("{} 0x8000 0x189 0x0 0x0 0x0 0xffffffff 0x7ffc 0x7f00", libc::SYS_futex), false),
            (format!("{} 0x8000 0x109 0x0 0x0 0x0 0xffffffff 0x7ffc 0x7f00", libc::SYS_futex), true),
            (format!("{} 0x2000 {private:#x} 0x0 0x0 0x0 0x0 0x7ffc 0x7f00", libc::SYS_futex), false),
            (format!("{} 0x3000 0x0 0x0 0x0 0x0 0x0 0x7ffc 0x7f00", libc::SYS_futex), false),
            (format!("{} 0x7ffc 0x1 0x0 0x0 0x0 0x0 0x7ffc 0x7f00", libc::SYS_futex_waitv), true),
            ("0 0x2000 0x10 0x0 0x0 0x0 0x0 0x7ffc 0x7f00".into(), false),
            ("running\n".into(), false),
            (String::new(), false),
        ] {
            assert_eq!(waits(&call, &ranges), expected, "{call}");
        }
    }
}
