//! As many calls as the depth allows.

use std::time::{Duration, Instant};

use longarm_rpc::{CallId, Client};

use super::calls::{BenchCall, drain};
use super::case::BenchCase;
use super::figures::CallTally;
use crate::error::Error;

/// Polls between two reads of the clock, if the thread has fewer clients.
const POLLS: usize = 16;

/// The longest time for which a thread with one client gives its processor away.
const IDLE: Duration = Duration::from_millis(1);

/// The call of a thread whose time is taken; the others' is not, for the sake of the rate.
struct TimedCall {
    client: usize,
    id: CallId,
    start: Instant,
}

/// Drives the clients of one thread.
pub(super) fn measure(case: &BenchCase, clients: &mut [Client]) -> Result<CallTally, Error> {
    let (call, mut tally) = (BenchCall::of(case), CallTally::default());
    for client in clients.iter_mut() {
        call.finish_one(client)?;
    }
    let (most, mut started, mut timed) = (case.calls_of_thread(), 0, None);
    // A thread with several clients looks at all of them all the time.
    let longest = if clients.len() > 1 { Duration::ZERO } else { IDLE };
    let (begin, mut polls) = (Instant::now(), 0);
    loop {
        for (index, client) in clients.iter_mut().enumerate() {
            take_replies(&call, (index, client), longest, &mut timed, &mut tally);
            while client.outstanding() < usize::from(case.depth) && started < most {
                let start = timed.is_none().then(Instant::now);
                let Some(id) = call.start(client)? else { break };
                timed = timed.or_else(|| Some(TimedCall { client: index, id, start: start? }));
                started += 1;
            }
        }
        polls += clients.len();
        let is_over = polls >= POLLS && {
            polls = 0;
            begin.elapsed() >= case.duration
        };
        if is_over || tally.ended() >= most {
            tally.elapsed = begin.elapsed();
            break;
        }
    }
    tally.failed += drain(clients);
    Ok(tally)
}

fn take_replies(
    call: &BenchCall,
    (index, client): (usize, &mut Client),
    longest: Duration,
    timed: &mut Option<TimedCall>,
    tally: &mut CallTally,
) {
    client.poll_for(longest, |id, reply| {
        tally.count(call.is_answered(&reply));
        if let Some(call) = timed.take_if(|call| call.client == index && call.id == id) {
            tally.record(call.start.elapsed());
        }
    });
}
