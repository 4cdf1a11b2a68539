//! The hosts of the two sides: both are this host, or two network namespaces stand for two hosts.
//!
//! A network namespace belongs to a thread. The server's host is the namespace of this thread. The
//! client's host belongs to a second thread, which starts the client and stays as long as it is needed.
//! An ordinary user gets a user namespace around both, in which it may make network interfaces.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::{CapabilitySet, UnshareFlags};

use super::side::SideProcess;
use crate::run::{Environment, RunOptions, StartFailure, prepare, unshare_flags, unshare_user};

const SERVER: &str = "server";
const CLIENT: &str = "client";
const LOOPBACK: &str = "127.0.0.1";

/// Addresses for documentation (RFC 5737); no other host in these namespaces has them.
const SERVER_ADDRESS: &str = "192.0.2.1";
const CLIENT_ADDRESS: &str = "192.0.2.2";

/// The interface at either end of the wire.
const WIRE: &str = "wire0";

/// The number of checks until the wire is up, and the time between them: the kernel takes up to a
/// second.
const CARRIER_LOOKS: usize = 150;
const CARRIER_PAUSE: Duration = Duration::from_millis(20);

/// The two hosts and their environments.
pub(super) struct Hosts {
    environment: Environment,
    address: String,
    second: Option<SecondHost>,
}

/// The thread that owns the client's host.
struct SecondHost {
    orders: Option<Sender<ClientRequest>>,
    results: Receiver<Result<SideProcess, StartFailure>>,
    thread: Option<JoinHandle<()>>,
}

/// A request to start a client.
struct ClientRequest {
    program: PathBuf,
    arguments: Vec<OsString>,
}

/// Puts the loop-back device first, which has the largest MTU, for two programs of one host that take
/// the first device.
fn loopback_first(options: &RunOptions) -> Result<RunOptions, StartFailure> {
    let mut options = options.clone();
    if options.devices.is_empty() {
        let mut records = hub::client::devices(None)?;
        records.sort_by_key(|record| !record.loopback);
        options.devices = records.into_iter().map(|record| record.name).collect();
    }
    Ok(options)
}

impl Hosts {
    /// Both sides on this host.
    pub(super) fn one(program: &Path, options: &RunOptions, address: Option<&str>) -> Result<Hosts, StartFailure> {
        let environment = match address {
            Some(_) => prepare(program, options)?,
            None => prepare(program, &loopback_first(options)?)?,
        };
        Ok(Hosts { environment, address: address.unwrap_or(LOOPBACK).into(), second: None })
    }

    /// One host for each side.
    pub(super) fn two(program: &Path, options: &RunOptions) -> Result<Hosts, StartFailure> {
        new_network()?;
        let second = SecondHost::start(program, options)?;
        wait_for_carrier()?;
        let environment = prepare(program, options)?;
        Ok(Hosts { environment, address: SERVER_ADDRESS.into(), second: Some(second) })
    }

    /// The server's address.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Starts the server.
    pub(super) fn start_server(&self, program: &Path, arguments: &[OsString]) -> Result<SideProcess, StartFailure> {
        SideProcess::start(SERVER, program, arguments, &self.environment)
    }

    /// Starts the client.
    pub(super) fn start_client(&self, program: &Path, arguments: &[OsString]) -> Result<SideProcess, StartFailure> {
        match &self.second {
            None => SideProcess::start(CLIENT, program, arguments, &self.environment),
            Some(second) => second.client(ClientRequest { program: program.into(), arguments: arguments.to_vec() }),
        }
    }
}

impl Drop for Hosts {
    /// Ends the hubs of the two hosts, whose networks become unreachable.
    fn drop(&mut self) {
        let Some(second) = &mut self.second else { return };
        second.orders = None;
        if let Some(thread) = second.thread.take() {
            let _ = thread.join();
        }
        end_hub();
    }
}

impl SecondHost {
    /// Makes the second host and the wire to it.
    fn start(program: &Path, options: &RunOptions) -> Result<SecondHost, StartFailure> {
        let (told, tells) = channel();
        let (wired, wire) = channel();
        let (orders, ordered) = channel();
        let (done, results) = channel();
        let (program, options) = (program.to_path_buf(), options.clone());
        let thread = thread::spawn(move || {
            let made = unshare_flags(UnshareFlags::NEWNET).map(|()| rustix::thread::gettid().as_raw_nonzero().get());
            // A closed channel means that the first thread has given up.
            if told.send(made).is_ok() && wire.recv().is_ok() {
                let environment =
                    take_wire().and_then(|()| wait_for_carrier()).and_then(|()| prepare(&program, &options));
                serve(environment, &ordered, &done);
                end_hub();
            }
        });
        let second = tells.recv().unwrap_or(Err(Errno::SRCH)).map_err(refused("make a second network namespace"))?;
        make_wire(second)?;
        let _ = wired.send(());
        Ok(SecondHost { orders: Some(orders), results, thread: Some(thread) })
    }

    fn client(&self, order: ClientRequest) -> Result<SideProcess, StartFailure> {
        let sent = self.orders.as_ref().is_some_and(|orders| orders.send(order).is_ok());
        let result = if sent { self.results.recv().ok() } else { None };
        result.unwrap_or_else(|| Err(StartFailure::NoHosts("the thread of the second host has ended".into())))
    }
}

/// Starts a client for each request, and returns when no more requests can come.
fn serve(
    environment: Result<Environment, StartFailure>,
    orders: &Receiver<ClientRequest>,
    done: &Sender<Result<SideProcess, StartFailure>>,
) {
    let Ok(order) = orders.recv() else { return };
    let side = environment.and_then(|e| SideProcess::start(CLIENT, &order.program, &order.arguments, &e));
    if done.send(side).is_ok() {
        // `recv` fails as soon as the sender is dropped.
        let _ = orders.recv();
    }
}

/// Ends the hub of this thread's host, if it still runs.
fn end_hub() {
    drop(hub::client::shutdown(None, true));
}

/// Moves this process, which has one thread, into a new network namespace.
fn new_network() -> Result<(), StartFailure> {
    match unshare_flags(UnshareFlags::NEWNET) {
        Err(Errno::PERM) => {}
        other => return other.map_err(refused("make a network namespace")),
    }
    unshare_user(UnshareFlags::NEWNET).map_err(|problem| StartFailure::NoHosts(problem.to_string()))?;
    // Lets `ip` inherit the capability.
    let mut own = rustix::thread::capabilities(None).map_err(refused("read the capabilities of this thread"))?;
    own.inheritable |= CapabilitySet::NET_ADMIN;
    rustix::thread::set_capabilities(None, own).map_err(refused("pass on a capability"))
}

fn refused(what: &'static str) -> impl FnOnce(Errno) -> StartFailure {
    move |error| StartFailure::system(what)(error.into())
}

/// Makes the wire from this thread's network to that of the thread `other`, and gives this end its address.
fn make_wire(other: i32) -> Result<(), StartFailure> {
    ip(&format!(
        "link set lo up\nlink add {WIRE} type veth peer name {WIRE} netns {other}\n\
         addr add {SERVER_ADDRESS}/24 dev {WIRE}\nlink set {WIRE} up\n"
    ))
}

/// Gives the client's end its address.
fn take_wire() -> Result<(), StartFailure> {
    ip(&format!("link set lo up\naddr add {CLIENT_ADDRESS}/24 dev {WIRE}\nlink set {WIRE} up\n"))
}

/// Waits until the kernel reports both ends as up: a hub or program that starts earlier would find
/// the port down. Gives up after a while, so that the program reports the problem.
fn wait_for_carrier() -> Result<(), StartFailure> {
    for _ in 0..CARRIER_LOOKS {
        let output = Command::new("ip").args(["-o", "link", "show", WIRE]).stdin(Stdio::null()).output();
        let output = output.map_err(StartFailure::system("run ip, of the package iproute2"))?;
        if String::from_utf8_lossy(&output.stdout).contains(" state UP ") {
            break;
        }
        thread::sleep(CARRIER_PAUSE);
    }
    Ok(())
}

/// Runs `ip` in this thread's network, with the right to change it.
fn ip(changes: &str) -> Result<(), StartFailure> {
    // Only ordinary users need this: without it `ip` loses the right.
    let hand_on = |enable| rustix::thread::configure_capability_in_ambient_set(CapabilitySet::NET_ADMIN, enable);
    let ambient = hand_on(true).is_ok();
    let outcome = run_ip(changes);
    if ambient {
        hand_on(false).map_err(refused("keep a capability"))?;
    }
    outcome
}

fn run_ip(changes: &str) -> Result<(), StartFailure> {
    let mut ip = Command::new("ip");
    ip.args(["-batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut ip = ip.spawn().map_err(StartFailure::system("run ip, of the package iproute2"))?;
    if let Some(mut stdin) = ip.stdin.take() {
        stdin.write_all(changes.as_bytes()).map_err(StartFailure::system("write to ip"))?;
    }
    let output = ip.wait_with_output().map_err(StartFailure::system("wait for ip"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(StartFailure::NoHosts(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    }
}
