//! Hindrances of a measured server: programs that compute on its core, or a signal that stops it.

use std::fmt;
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use crate::baseline::{core_number, pins, unpin};
use crate::error::Error;

/// The time that computing programs run before a measurement starts.
const HEAD_START: Duration = Duration::from_millis(300);
const MOST_SPINNING: u16 = 64;

/// The state of a server's core during a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(super) enum ServerLoad {
    /// So many programs compute on it, beside the server.
    Spinning(u16),
    /// The server's process is stopped.
    Stopped,
}

impl FromStr for ServerLoad {
    type Err = String;

    fn from_str(text: &str) -> Result<ServerLoad, String> {
        let spinning = || text.parse().ok().filter(|number| *number <= MOST_SPINNING).map(ServerLoad::Spinning);
        let load = if text == "stopped" { Some(ServerLoad::Stopped) } else { spinning() };
        load.ok_or_else(|| format!("{text}: give `stopped`, or a number of programs up to {MOST_SPINNING}"))
    }
}

impl TryFrom<String> for ServerLoad {
    type Error = String;

    fn try_from(text: String) -> Result<ServerLoad, String> {
        text.parse()
    }
}

impl From<ServerLoad> for String {
    fn from(load: ServerLoad) -> String {
        load.to_string()
    }
}

impl fmt::Display for ServerLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerLoad::Spinning(number) => write!(f, "{number}"),
            ServerLoad::Stopped => f.write_str("stopped"),
        }
    }
}

/// A hindered server. It is free again when the value is dropped.
pub(super) struct HinderedServer {
    spinning: Vec<Child>,
    stopped: Option<Pid>,
}

impl HinderedServer {
    /// Hinders the server with this process.
    ///
    /// # Errors
    /// If a program does not start, or the server is gone.
    pub(super) fn start(load: ServerLoad, server: Option<&Child>) -> Result<HinderedServer, Error> {
        let mut hindered = HinderedServer { spinning: Vec::new(), stopped: None };
        match load {
            ServerLoad::Spinning(0) => {}
            ServerLoad::Spinning(number) => {
                unpin();
                for _ in 0..number {
                    hindered.spinning.push(spin()?);
                }
                std::thread::sleep(HEAD_START);
            }
            ServerLoad::Stopped => {
                let server = server.ok_or_else(|| Error::Usage("only a server of this command is stopped".into()))?;
                let pid = Pid::from_child(server);
                kill_process(pid, Signal::STOP).map_err(std::io::Error::from)?;
                hindered.stopped = Some(pid);
            }
        }
        Ok(hindered)
    }
}

impl Drop for HinderedServer {
    fn drop(&mut self) {
        for program in &mut self.spinning {
            let _ = program.kill();
            let _ = program.wait();
        }
        if let Some(pid) = self.stopped {
            let _ = kill_process(pid, Signal::CONT);
        }
    }
}

/// A program that only computes, on the server's core. It ends with this process at the latest.
fn spin() -> Result<Child, Error> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["tied", &std::process::id().to_string()]);
    if pins() {
        command.args(["taskset", "-c", &core_number(1).to_string()]);
    }
    Ok(command.args(["sh", "-c", "while :; do :; done"]).stdin(Stdio::null()).spawn()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_numbers_or_stopped() {
        for (text, load) in
            [("0", ServerLoad::Spinning(0)), ("4", ServerLoad::Spinning(4)), ("stopped", ServerLoad::Stopped)]
        {
            assert_eq!((text.parse(), load.to_string()), (Ok(load), text.to_owned()));
        }
        for wrong in ["", "-1", "65", "busy"] {
            assert!(wrong.parse::<ServerLoad>().is_err());
        }
    }

    #[test]
    fn a_server_stands_until_it_is_free_again() {
        let mut server = Command::new("sleep").arg("600").spawn().unwrap();
        let state = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.id())).unwrap();
            stat.rsplit(") ").next().unwrap().chars().next()
        };
        let hindered = HinderedServer::start(ServerLoad::Stopped, Some(&server)).unwrap();
        testkit::wait_until("it stands", || state() == Some('T'));
        drop(hindered);
        testkit::wait_until("it goes on", || state() != Some('T'));
        server.kill().unwrap();
        server.wait().unwrap();
    }
}
