//! Calls that start at a fixed rate.
//!
//! The time of a call counts from its planned start. So calls that wait behind a slow one count with their wait. A
//! loop that starts a call after each reply would not see it: Gil Tene calls this "coordinated omission".

use std::time::{Duration, Instant};

use longarm_rpc::{CallId, Client};

use super::calls::{BenchCall, drain};
use super::case::BenchCase;
use super::figures::CallTally;
use crate::error::Error;

/// A client with the planned starts of its outstanding calls.
struct LoadedClient<'a> {
    client: &'a mut Client,
    planned: Vec<(CallId, Instant)>,
}

impl LoadedClient<'_> {
    /// Takes the replies that are there.
    fn take_replies(&mut self, call: &BenchCall, tally: &mut CallTally, longest: Duration) {
        let planned = &mut self.planned;
        self.client.poll_for(longest, |id, reply| {
            tally.count(call.is_answered(&reply));
            if let Some(at) = planned.iter().position(|(known, _)| *known == id) {
                tally.record(planned.swap_remove(at).1.elapsed());
            }
        });
    }

    /// Starts a call that was planned for that moment. Returns false if the client has no room.
    fn start(&mut self, call: &BenchCall, depth: u16, planned: Instant) -> Result<bool, Error> {
        if self.client.outstanding() >= usize::from(depth) {
            return Ok(false);
        }
        let id = call.start(self.client)?;
        self.planned.extend(id.map(|id| (id, planned)));
        Ok(id.is_some())
    }
}

/// The time for which there is nothing to do but to wait for replies.
fn longest_idle(planned: Instant, is_full: bool) -> Duration {
    let longest = Duration::from_millis(1);
    if is_full { longest } else { planned.saturating_duration_since(Instant::now()).min(longest) }
}

/// Drives the clients of one thread: calls start `per_second` times a second, by each client in turn.
pub(super) fn measure(case: &BenchCase, clients: &mut [Client], per_second: f64) -> Result<CallTally, Error> {
    let (call, mut tally) = (BenchCall::of(case), CallTally::default());
    let gap = Duration::from_secs_f64(1.0 / per_second.max(1e-3));
    let (most, mut started, mut turn) = (case.calls_of_thread(), 0, 0);
    let mut loaded: Vec<LoadedClient<'_>> =
        clients.iter_mut().map(|client| LoadedClient { client, planned: Vec::new() }).collect();
    let begin = Instant::now();
    let mut planned = begin;
    loop {
        let now = Instant::now();
        if now - begin >= case.duration || tally.ended() >= most {
            tally.elapsed = now - begin;
            break;
        }
        let mut full = 0;
        while planned <= now && started < most && full < loaded.len() {
            match loaded[turn].start(&call, case.depth, planned)? {
                true => (planned, started, full) = (planned + gap, started + 1, 0),
                false => full += 1,
            }
            turn = (turn + 1) % loaded.len();
        }
        // A thread with several clients looks at all of them all the time.
        let idle = if loaded.len() > 1 { Duration::ZERO } else { longest_idle(planned, full > 0) };
        loaded.iter_mut().for_each(|client| client.take_replies(&call, &mut tally, idle));
    }
    drop(loaded);
    tally.failed += drain(clients);
    Ok(tally)
}
