//! A client process as the test sees it: commands in, lines out.

use super::TestHub;
use std::cell::RefCell;
use std::env;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use testkit::PATIENCE;

/// A process that plays a role. Killed when dropped.
pub struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    /// Lines that the test has not waited for yet.
    passed: RefCell<Vec<String>>,
}

impl Client {
    /// Starts a process that attaches; does not wait for it.
    pub fn start(place: &TestHub, role: &str) -> Client {
        Client::start_with(place, role, &[])
    }

    /// As [`start`](Client::start), with more in its environment.
    pub fn start_with(place: &TestHub, role: &str, environment: &[(&str, &str)]) -> Client {
        let mut command = place.command(&env::current_exe().unwrap());
        command.envs(environment.iter().copied());
        command.args(["role", "--exact", "--nocapture", "--test-threads=1"]);
        command.env(testkit::ROLE, role);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = mpsc::channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                // The harness may write on the same line before us.
                let Some((_, line)) = line.split_once('@') else { continue };
                if sender.send(line.to_owned()).is_err() {
                    break;
                }
            }
        });
        let stdin = child.stdin.take();
        Client { child, stdin, lines, passed: RefCell::default() }
    }

    /// Starts a process that attaches, and waits until it has. Returns its slot, too.
    pub fn attached(place: &TestHub) -> (Client, u8) {
        let client = Client::start(place, "client");
        let slot = client.expect("attached ").parse().unwrap();
        (client, slot)
    }

    /// Starts a process that manages connections. Returns its number, too.
    pub fn managing(place: &TestHub) -> (Client, u16) {
        let client = Client::start(place, "manager");
        let number = client.expect("number ").parse().unwrap();
        (client, number)
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a command to the process.
    pub fn tell(&mut self, command: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{command}").unwrap();
    }

    /// The next line that begins with `prefix`; returns the rest. Other lines are kept for
    /// later, as events come when they come.
    pub fn expect(&self, prefix: &str) -> String {
        let mut passed = self.passed.borrow_mut();
        if let Some(at) = passed.iter().position(|line| line.starts_with(prefix)) {
            return passed.remove(at)[prefix.len()..].to_owned();
        }
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => match line.strip_prefix(prefix) {
                    Some(rest) => return rest.to_owned(),
                    None => passed.push(line),
                },
                Err(error) => panic!("waited for {prefix:?}, got {passed:?}: {error}"),
            }
        }
    }

    /// Kills the process, and returns when it is gone.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Lets the process end by itself.
    pub fn quit(mut self) {
        self.tell("quit");
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
