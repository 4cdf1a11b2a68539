//! Permission for peers to reach this process's memory through the kernel, where Yama restricts that
//! (`ptrace_scope` 1).
//!
//! There only ancestors reach a process' memory, and the one process that it names by `PR_SET_PTRACER`. So
//! this process names the first peer that a link leads to, until that peer ends. For further peers frames
//! carry the bytes that the kernel would copy. Naming all processes would open this one to every program of
//! its user, debuggers and malware included. `LONGARM_PTRACER=any` requests that nevertheless.
//!
//! Without Yama's restriction, and in processes without a peer on this host, this module does nothing.

use std::os::fd::{AsFd, OwnedFd};

use parking_lot::Mutex;
use rustix::event::PollFlags;

use crate::sys;

const VARIABLE: &str = "LONGARM_PTRACER";
const ANY: &str = "any";

static NAMED: Mutex<Option<Named>> = Mutex::new(None);

/// The process that may reach this process' memory.
struct Named {
    pid: i32,
    /// Readable when it has ended.
    process: OwnedFd,
}

impl Named {
    fn has_ended(&self) -> bool {
        sys::ready_now(self.process.as_fd(), PollFlags::IN).contains(PollFlags::IN)
    }
}

/// Permits a peer to reach this process' memory, if possible.
pub(crate) fn admit(pid: u32) {
    if !sys::is_ptrace_restricted() {
        return;
    }
    if guest::environment::text(VARIABLE).as_deref() == Some(ANY) {
        return sys::name_ptracer(None);
    }
    if let Some(process) = i32::try_from(pid).ok().filter(|pid| *pid > 0).and_then(|pid| name(&mut NAMED.lock(), pid)) {
        sys::name_ptracer(Some(process));
    }
}

/// The process to name for this peer; `None` if another one is named already.
fn name(named: &mut Option<Named>, pid: i32) -> Option<i32> {
    // Withdrawing the right from a live peer would make its requests fail.
    if named.as_ref().is_some_and(|named| named.pid != pid && !named.has_ended()) {
        return None;
    }
    *named = Some(Named { pid, process: sys::pidfd(pid)? });
    Some(pid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    fn process() -> (Child, i32) {
        let child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let pid = child.id() as i32;
        (child, pid)
    }

    #[test]
    fn one_peer_is_named_until_it_ends() {
        let ((mut first, a), (mut second, b)) = (process(), process());
        let mut named = None;
        assert_eq!(name(&mut named, a), Some(a));
        assert_eq!(name(&mut named, b), None, "the first one lives");
        assert_eq!(name(&mut named, a), Some(a));
        first.kill().unwrap();
        first.wait().unwrap();
        assert_eq!(name(&mut named, b), Some(b));
        second.kill().unwrap();
        second.wait().unwrap();
        assert_eq!(name(&mut named, b), None, "it has ended");
    }
}
