//! One call at a time.
//!
//! The clock is read once per sample, because a read costs as much as the transfer of a cache line to the other core.

use std::time::Instant;

use super::calls::BenchCall;
use super::case::BenchCase;
use super::clients::BenchClients;
use super::figures::CallTally;
use crate::error::Error;

/// Calls that do not count, while caches and windows warm up.
const WARM_UP: u64 = 200;

/// Measures one client. Others may be connected, in groups of their own; they do nothing.
pub(super) fn measure(case: &BenchCase, client: &mut BenchClients) -> Result<CallTally, Error> {
    let (call, mut tally) = (BenchCall::of(case), CallTally::default());
    let most = case.calls.unwrap_or(u64::MAX);
    for _ in 0..WARM_UP.min(most) {
        client.finish_one(0, &call)?;
    }
    let begin = Instant::now();
    let mut start = begin;
    loop {
        for _ in 0..case.together {
            client.finish_one(0, &call)?;
            tally.count(true);
        }
        let end = Instant::now();
        tally.record((end - start) / case.together);
        start = end;
        if end - begin >= case.duration || tally.ended() >= most {
            tally.elapsed = end - begin;
            return Ok(tally);
        }
    }
}
