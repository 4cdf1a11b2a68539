//! Processes of a test: a server, clients, and what they leave behind. Each test has a hub and a network namespace.
#![allow(dead_code, unused_imports, reason = "each test file uses a part")]

mod journal;
mod load;
mod resources;
pub(crate) mod rogue;
mod server;

use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;

pub(crate) use journal::{Journal, Outcomes};
pub(crate) use load::{body_of, connected, fill_pools, load, options};
pub(crate) use resources::{ProcessCost, ProcessHold};
pub(crate) use rustix::process::Signal;
pub(crate) use server::{ECHO, Figures, LATER, NOTE, figures};

/// The server's address in the namespace of the test.
pub(crate) const ADDRESS: &str = "127.0.0.1:7471";
/// Patience: other programs share the machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// The variable with the way, for a client process.
const WAY: &str = "RPC_TEST_WAY";

/// Runs `body` with a hub and a namespace. To be called from the test function of that name itself. In a process that
/// [`spawn`] started, it runs that process's part instead.
pub(crate) fn with_hub(test: &str, body: impl FnOnce()) {
    let Some(role) = testkit::role() else {
        return hub::testing::passes_with_hub(&format!("rpc-{test}"), testkit::run_again(test, "body"));
    };
    match role.as_str() {
        "body" => body(),
        role => {
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
            match role {
                "server" => server::serve(),
                "client" => load::load_for_ever(std::env::var(WAY).unwrap().parse().unwrap()),
                role => panic!("no role {role}"),
            }
        }
    }
}

/// A process of the test. Dropping it kills it.
pub(crate) struct TestProcess(Child);

impl TestProcess {
    /// The server, which listens soon.
    pub(crate) fn server() -> TestProcess {
        TestProcess(again("server").spawn().unwrap())
    }

    /// A client with many calls outstanding all the time.
    pub(crate) fn client(way: longarm_rpc::Way) -> TestProcess {
        TestProcess(again("client").env(WAY, way.name()).spawn().unwrap())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Stops it, and returns when all its threads stand.
    pub(crate) fn stop(&self) {
        self.signal(Signal::STOP);
        testkit::wait_until("the process stands", || resources::has_stopped(self.pid()));
    }

    pub(crate) fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    /// Kills it at once, and returns when it is dead.
    pub(crate) fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for TestProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The same test in another process.
fn again(role: &str) -> Command {
    testkit::run_again(std::thread::current().name().expect("the thread of a test"), role)
}

/// A file beside the hub's directory, which goes with it.
fn file(name: &str) -> PathBuf {
    PathBuf::from(std::env::var("LONGARM_RUNTIME_DIR").unwrap()).with_file_name(name)
}
