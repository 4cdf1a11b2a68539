//! Runs a command and its descendants, and ends them together.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::support::Hosts;

/// Runs a command until it ends or `patience` is over, and returns its output.
pub(crate) fn ended(hosts: &Hosts, command: &mut Command, patience: Duration) -> (Option<ExitStatus>, String) {
    let path = hosts.dir().join("said");
    let file = File::create(&path).expect("a file for the output");
    let both = file.try_clone().expect("a descriptor");
    let child = command.stdin(Stdio::null()).stdout(file).stderr(both).process_group(0).spawn();
    let mut group = Group(child.expect("the command starts"));
    let start = Instant::now();
    let status = loop {
        match group.0.try_wait().expect("a child of ours") {
            None if start.elapsed() < patience => std::thread::sleep(Duration::from_millis(10)),
            status => break status,
        }
    };
    drop(group);
    (status, String::from_utf8_lossy(&std::fs::read(path).expect("the output")).into_owned())
}

/// A child and its descendants; dropping the value ends them.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        let group = format!("-{}", self.0.id());
        // No process of the group may survive.
        let _ = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
        let _ = self.0.wait();
    }
}
