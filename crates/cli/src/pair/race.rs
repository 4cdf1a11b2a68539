//! The course: the server listens, the client connects, both end.

use std::thread;
use std::time::{Duration, Instant};

use super::side::{Side, code};

/// From one look to the next.
const TICK: Duration = Duration::from_millis(10);

/// What the other side may take after one has ended as it should, and if it has failed.
const GRACE: Duration = Duration::from_secs(5);
const GRACE_AFTER_FAILURE: Duration = Duration::from_secs(2);

/// The exit code of `timeout`.
const TIMED_OUT: u8 = 124;

/// Whether a server can be connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    Listens,
    /// It listens nowhere, but is there.
    Silent,
    Ended,
}

/// Waits until a server listens, for as long as `patience`.
pub(super) fn until_ready(server: &mut Side, patience: Duration) -> Readiness {
    let deadline = Instant::now() + patience;
    loop {
        // In this order: one that listened and ended is not ready.
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

/// Waits for the end of both. The exit code is the client's, or the server's if that failed
/// by itself.
pub(super) fn until_over(server: &mut Side, client: &mut Side, deadline: Option<Instant>) -> u8 {
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
            eprintln!("longarm: it takes too long; both are ended");
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
    /// This one, or the other one's if this is no failure.
    fn max_failure(self, other: Option<Code>) -> u8 {
        if self.0 == 0 { other.map_or(0, |code| code.0) } else { self.0 }
    }
}

/// Waits for the other side, and ends it if it does not by itself; `None` then.
fn rest(side: &mut Side, first: Code, deadline: Option<Instant>) -> Option<Code> {
    let grace = Instant::now() + if first.0 == 0 { GRACE } else { GRACE_AFTER_FAILURE };
    while Instant::now() < grace && !late(deadline) {
        if let Some(code) = ended(side) {
            return Some(code);
        }
        thread::sleep(TICK);
    }
    eprintln!("longarm: the {} goes on; it is ended", side.name);
    side.end();
    None
}

fn late(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| Instant::now() >= deadline)
}

fn ended(side: &mut Side) -> Option<Code> {
    side.ended().map(|status| Code(code(status)))
}
