//! Calls that start at a fixed rate.
//!
//! The time of a call counts from its planned start. So calls that wait behind a slow one count with their wait. A
//! loop that starts a call after each reply would not see it: Gil Tene calls this "coordinated omission".

use std::time::{Duration, Instant};

use longarm_rpc::CallId;

use super::calls::BenchCall;
use super::case::BenchCase;
use super::clients::BenchClients;
use super::figures::CallTally;
use crate::error::Error;

/// The time for which there is nothing to do but to wait for replies.
fn longest_idle(planned: Instant, is_full: bool) -> Duration {
    let longest = Duration::from_millis(1);
    if is_full { longest } else { planned.saturating_duration_since(Instant::now()).min(longest) }
}

/// Drives the clients of one thread: calls start `per_second` times a second, by each client in turn.
pub(super) fn measure(case: &BenchCase, clients: &mut BenchClients, per_second: f64) -> Result<CallTally, Error> {
    let (call, mut tally) = (BenchCall::of(case), CallTally::default());
    let gap = Duration::from_secs_f64(1.0 / per_second.max(1e-3));
    let (most, mut started, mut turn) = (case.calls_of_thread(), 0, 0);
    let count = clients.len();
    // The planned starts of each client's outstanding calls.
    let mut outstanding: Vec<Vec<(CallId, Instant)>> = vec![Vec::new(); count];
    let begin = Instant::now();
    let mut planned = begin;
    loop {
        let now = Instant::now();
        if now - begin >= case.duration || tally.ended() >= most {
            tally.elapsed = now - begin;
            break;
        }
        let mut full = 0;
        while planned <= now && started < most && full < count {
            let has_room = clients.outstanding(turn) < usize::from(case.depth);
            match if has_room { clients.start(turn, &call)? } else { None } {
                Some(id) => {
                    outstanding[turn].push((id, planned));
                    (planned, started, full) = (planned + gap, started + 1, 0);
                }
                None => full += 1,
            }
            turn = (turn + 1) % count;
        }
        clients.poll_for(longest_idle(planned, full > 0), |index, id, reply| {
            tally.count(call.is_answered(&reply));
            let planned = &mut outstanding[index];
            if let Some(at) = planned.iter().position(|(known, _)| *known == id) {
                tally.record(planned.swap_remove(at).1.elapsed());
            }
        });
    }
    tally.failed += clients.drain();
    Ok(tally)
}
