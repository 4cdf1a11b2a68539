//! Waits for the steps of a run: the server listens, the client connects, both end.

use std::thread;
use std::time::{Duration, Instant};

use super::side::{SideProcess, code};

/// The time between two polls.
const TICK: Duration = Duration::from_millis(10);

/// The time that the other side may take after one has succeeded, and after one has failed.
const GRACE: Duration = Duration::from_secs(5);
const GRACE_AFTER_FAILURE: Duration = Duration::from_secs(2);

/// The exit code of `timeout`.
const TIMED_OUT: u8 = 124;

/// Whether a client can connect to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    Listens,
    /// It runs but does not listen.
    Silent,
    Ended,
}

/// Waits until a server listens, at most for `patience`.
pub(super) fn until_ready(server: &mut SideProcess, patience: Duration) -> Readiness {
    let deadline = Instant::now() + patience;
    loop {
        // Ask in this order: a server that listened and ended is not ready.
        let listens = server.listens();
        if server.ended().is_some() {
            return Readiness::Ended;
        }
        if listens {
            return Readiness::Listens;
        }
        if Instant::now() >= deadline {
            return Readiness::Silent;
        }
        thread::sleep(TICK);
    }
}

/// Waits for the end of both sides. Returns the exit code of the client, or of the server if that
/// failed by itself.
pub(super) fn until_over(server: &mut SideProcess, client: &mut SideProcess, deadline: Option<Instant>) -> u8 {
    loop {
        if let Some(code) = ended(client) {
            return code.max_failure(rest(server, code, deadline));
        }
        if let Some(code) = ended(server)
            && code.0 != 0
        {
            let client = rest(client, code, deadline);
            return client.unwrap_or(Code(0)).max_failure(Some(code));
        }
        if late(deadline) {
            eprintln!("longarm: timeout; ending both sides");
            client.end();
            server.end();
            return TIMED_OUT;
        }
        thread::sleep(TICK);
    }
}

/// An exit code.
#[derive(Clone, Copy)]
struct Code(u8);

impl Code {
    /// This code if it is a failure, else the other one.
    fn max_failure(self, other: Option<Code>) -> u8 {
        if self.0 == 0 { other.map_or(0, |code| code.0) } else { self.0 }
    }
}

/// Waits for the other side. Ends it and returns `None` if it does not end in time.
fn rest(side: &mut SideProcess, first: Code, deadline: Option<Instant>) -> Option<Code> {
    let grace = Instant::now() + if first.0 == 0 { GRACE } else { GRACE_AFTER_FAILURE };
    while Instant::now() < grace && !late(deadline) {
        if let Some(code) = ended(side) {
            return Some(code);
        }
        thread::sleep(TICK);
    }
    eprintln!("longarm: the {} keeps running; ending it", side.name);
    side.end();
    None
}

fn late(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| Instant::now() >= deadline)
}

fn ended(side: &mut SideProcess) -> Option<Code> {
    side.ended().map(|status| Code(code(status)))
}
