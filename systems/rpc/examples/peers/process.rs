//! The serving process, and the cores of both.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::{Outcome, PeerKind, PeerOptions};

/// Lets this process run on one of its cores only, unless it has but one or the options forbid it.
pub(super) fn pin(index: usize, options: &PeerOptions) {
    let allowed = sched_getaffinity(None).unwrap_or_default();
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect();
    if cores.len() >= 2 && !options.unpinned {
        let mut one = CpuSet::new();
        one.set(cores[index % cores.len()]);
        let _ = sched_setaffinity(None, &one);
    }
}

/// A server. Dropping the value ends its process.
pub(super) struct PeerProcess {
    child: Child,
    place: String,
    file: Option<PathBuf>,
}

impl PeerProcess {
    pub(super) fn start(peer: PeerKind, options: &PeerOptions) -> Outcome<PeerProcess> {
        let file = std::env::temp_dir().join(format!("longarm-peers-{}-{}", std::process::id(), peer.name()));
        let file = (!peer.uses_tcp()).then_some(file);
        let asked = file.as_ref().map_or("127.0.0.1:0".to_string(), |file| file.to_string_lossy().into_owned());
        // The child pins itself. It inherits the core of this process, so that is widened meanwhile.
        let own = sched_getaffinity(None)?;
        sched_setaffinity(None, &all_cores())?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(peer.name()).args(["--serve", &asked]).stdout(Stdio::piped());
        if options.unpinned {
            command.arg("--unpinned");
        }
        let child = command.spawn();
        sched_setaffinity(None, &own)?;
        let mut server = PeerProcess { child: child?, place: String::new(), file };
        let stdout = server.child.stdout.take().ok_or("the server has no output")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let place = line.trim().strip_prefix("listening on ").ok_or("the server did not start")?;
        server.place = place.to_string();
        Ok(server)
    }

    /// The address or the file at which it listens.
    pub(super) fn place(&self) -> &str {
        &self.place
    }
}

/// All cores; the kernel leaves out those that this process may not use.
fn all_cores() -> CpuSet {
    let mut set = CpuSet::new();
    (0..CpuSet::MAX_CPU).for_each(|core| set.set(core));
    set
}

impl Drop for PeerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(file) = &self.file {
            let _ = std::fs::remove_file(file);
        }
    }
}
