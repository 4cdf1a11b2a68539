//! Names of memory processes: a program that is started again finds the memory process that its last life has left.
//!
//! A name is an abstract Unix socket (unix(7)): it belongs to one network namespace, and ends with its process. Processes of
//! two PID namespaces cannot end each other, so their names are apart.

use std::io;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::socket_peercred;
use rustix::process::{Pid, PidfdFlags, Signal, geteuid, getuid, pidfd_open, pidfd_send_signal};

use crate::exposure::error::ExposureError;

/// The time that the kernel may take to end a process.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest name, in bytes: a socket's address has 108.
const LONGEST: usize = 48;

/// The two ends that may have a name.
#[derive(Clone, Copy)]
pub(crate) enum NameHolder {
    /// The program whose memory it is.
    Program,
    /// The process that exposes it.
    MemoryProcess,
}

impl NameHolder {
    fn address(self, name: &str) -> io::Result<SocketAddr> {
        if name.len() > LONGEST {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("a name has at most {LONGEST} bytes")));
        }
        let end = match self {
            NameHolder::Program => "program",
            NameHolder::MemoryProcess => "memory",
        };
        // Without /proc all namespaces are one here.
        let space = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        SocketAddr::from_abstract_name(format!("longarm-{end}/{}/{}/{name}", getuid().as_raw(), space.display()))
    }

    /// Takes a name, until the result is dropped.
    pub(crate) fn take(self, name: &str) -> Result<UnixListener, ExposureError> {
        UnixListener::bind_addr(&self.address(name)?).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => ExposureError::NameTaken(name.into()),
            _ => error.into(),
        })
    }
}

/// Ends the memory process of that name, whose program has ended; false if there is none. When this returns, no peer reads
/// by it any more: so the program's next life can begin with other contents.
///
/// A memory process whose program lives is left alone.
///
/// # Errors
/// If it cannot be ended: it belongs to another user, or to another PID namespace.
pub fn end_left_memory(name: &str) -> Result<bool, ExposureError> {
    match NameHolder::Program.take(name) {
        Ok(program) => {
            let ended = end_memory(name);
            drop(program);
            ended
        }
        Err(ExposureError::NameTaken(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// As [`end_left_memory`], by the holder of the program's name.
pub(crate) fn end_memory(name: &str) -> Result<bool, ExposureError> {
    while let Some(pid) = holder_of(name)? {
        let process = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(process) => process,
            // It has ended meanwhile.
            Err(rustix::io::Errno::SRCH) => continue,
            Err(error) => return Err(io::Error::from(error).into()),
        };
        // Another process may have got its number since. It has not, if the holder of the name has this number still.
        if holder_of(name)? == Some(pid) {
            kill(&process)?;
            return Ok(true);
        }
    }
    Ok(false)
}

/// The process of this user that has the name; `None` if nobody has it.
fn holder_of(name: &str) -> Result<Option<Pid>, ExposureError> {
    match UnixStream::connect_addr(&NameHolder::MemoryProcess.address(name)?) {
        Ok(stream) => {
            let holder = socket_peercred(&stream).map_err(io::Error::from)?;
            if holder.uid != geteuid() { Err(ExposureError::NameTaken(name.into())) } else { Ok(Some(holder.pid)) }
        }
        Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset) => {
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

fn kill(process: &OwnedFd) -> io::Result<()> {
    match pidfd_send_signal(process, Signal::KILL) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => {}
        Err(error) => return Err(error.into()),
    }
    let patience = Timespec::try_from(PATIENCE).ok();
    match poll(&mut [PollFd::new(process, PollFlags::IN)], patience.as_ref())? {
        0 => Err(io::Error::new(io::ErrorKind::TimedOut, "it was killed, and does not end")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_holder_and_is_free_after_it() {
        let name = format!("test-{}", std::process::id());
        let held = NameHolder::Program.take(&name).unwrap();
        assert!(matches!(NameHolder::Program.take(&name), Err(ExposureError::NameTaken(_))));
        assert!(!end_left_memory(&name).unwrap(), "the program lives");
        drop(held);
        assert!(!end_left_memory(&name).unwrap(), "there is no memory process");
        assert!(NameHolder::Program.take(&"x".repeat(49)).is_err());
    }
}
