//! Shared by the examples: arguments, and the start of the other side.
#![allow(dead_code, reason = "each example uses part of it")]

use std::error::Error;
use std::fmt;
use std::net::SocketAddr;
use std::process::{Child, Command, exit};
use std::str::FromStr;
use std::time::Duration;

use longarm::Device;

pub(crate) type Result<T> = std::result::Result<T, Complaint>;

/// Any error, shown in words when `main` returns it.
pub(crate) struct Complaint(String);

impl<E: Into<Box<dyn Error>>> From<E> for Complaint {
    fn from(error: E) -> Complaint {
        Complaint(error.into().to_string())
    }
}

impl fmt::Debug for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The longest wait for the other side. The connection manager repeats a lost message after some seconds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A free port at the default device's address, to listen at.
pub(crate) fn any_port() -> Result<SocketAddr> {
    let device = Device::open()?;
    let address = device.addresses().first().copied();
    let no_address = || format!("{} has no address", device.info().name);
    Ok(SocketAddr::new(address.ok_or_else(no_address)?, 0))
}

/// The side that this process takes.
pub(crate) enum Role {
    /// `--listen ADDRESS`: waits for the other side at this address.
    Listen(String),
    /// `--connect ADDRESS`: connects to the other side.
    Connect(String),
    /// Neither argument: both sides, in two processes on this machine.
    Both,
}

/// Arguments: names that begin with `--`, each with a value.
pub(crate) struct Args {
    given: Vec<(String, String)>,
}

impl Args {
    /// Reads the arguments. On `--help` prints `help` and exits.
    pub(crate) fn parse(help: &str, known: &[&str]) -> Result<Args> {
        let mut given = Vec::new();
        let mut words = std::env::args().skip(1);
        while let Some(name) = words.next() {
            if name == "--help" || name == "-h" {
                println!("{help}");
                exit(0);
            }
            if !known.contains(&name.as_str()) {
                return Err(format!("no such argument: {name}\n\n{help}").into());
            }
            let value = words.next().ok_or_else(|| format!("{name} needs a value\n\n{help}"))?;
            given.push((name, value));
        }
        Ok(Args { given })
    }

    pub(crate) fn role(&self) -> Role {
        match (self.all("--listen").next(), self.all("--connect").next()) {
            (_, Some(address)) => Role::Connect(address.to_owned()),
            (Some(address), None) => Role::Listen(address.to_owned()),
            (None, None) => Role::Both,
        }
    }

    /// All values of an argument.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.given.iter().filter(move |(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// The value of an argument, or `default`.
    pub(crate) fn get<T: FromStr>(&self, name: &str, default: T) -> Result<T> {
        match self.all(name).last() {
            None => Ok(default),
            Some(text) => Ok(text.parse().map_err(|_| format!("{name} cannot be {text}"))?),
        }
    }

    /// Starts this program once more, with the same arguments, to connect to `address`.
    pub(crate) fn start_client(&self, address: SocketAddr) -> Result<Other> {
        let same = self.given.iter().flat_map(|(name, value)| [name.clone(), value.clone()]);
        Other::start(same.chain(["--connect".into(), address.to_string()]))
    }
}

/// The process of the other side, started by this one.
pub(crate) struct Other(Child);

impl Other {
    /// Starts this program once more.
    pub(crate) fn start(arguments: impl IntoIterator<Item = String>) -> Result<Other> {
        Ok(Other(Command::new(std::env::current_exe()?).args(arguments).spawn()?))
    }

    /// Waits for the process; fails unless it succeeds.
    pub(crate) fn finish(mut self) -> Result<()> {
        let status = self.0.wait()?;
        if status.success() { Ok(()) } else { Err(format!("the other side: {status}").into()) }
    }
}

impl Drop for Other {
    /// Kills the process, so that it does not outlive this one.
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
