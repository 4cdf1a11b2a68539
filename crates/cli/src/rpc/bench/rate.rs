//! As many calls as the depth allows.

use std::time::{Duration, Instant};

use longarm_rpc::CallId;

use super::calls::BenchCall;
use super::case::BenchCase;
use super::clients::BenchClients;
use super::figures::CallTally;
use crate::error::Error;

/// Polls between two reads of the clock.
const POLLS: usize = 16;

/// The longest time for which a thread gives its processor away.
const IDLE: Duration = Duration::from_millis(1);

/// The call of a thread whose time is taken; the others' is not, for the sake of the rate.
struct TimedCall {
    client: usize,
    id: CallId,
    start: Instant,
}

/// Drives the clients of one thread.
pub(super) fn measure(case: &BenchCase, clients: &mut BenchClients) -> Result<CallTally, Error> {
    let (call, mut tally) = (BenchCall::of(case), CallTally::default());
    for index in 0..clients.len() {
        clients.finish_one(index, &call)?;
    }
    let (most, mut started, mut timed) = (case.calls_of_thread(), 0, None::<TimedCall>);
    let (begin, mut polls) = (Instant::now(), 0);
    // Clients with room for a call. The first time that is all of them.
    let mut with_room: Vec<usize> = (0..clients.len()).collect();
    loop {
        while let Some(index) = with_room.pop() {
            while clients.outstanding(index) < usize::from(case.depth) && started < most {
                let start = timed.is_none().then(Instant::now);
                let Some(id) = clients.start(index, &call)? else { break };
                timed = timed.or_else(|| Some(TimedCall { client: index, id, start: start? }));
                started += 1;
            }
        }
        clients.poll_for(IDLE, |index, id, reply| {
            tally.count(call.is_answered(&reply));
            if with_room.last() != Some(&index) {
                with_room.push(index);
            }
            if let Some(call) = timed.take_if(|call| call.client == index && call.id == id) {
                tally.record(call.start.elapsed());
            }
        });
        polls += 1;
        let is_over = polls >= POLLS && {
            polls = 0;
            begin.elapsed() >= case.duration
        };
        if is_over || tally.ended() >= most {
            tally.elapsed = begin.elapsed();
            break;
        }
    }
    tally.failed += clients.drain();
    Ok(tally)
}
