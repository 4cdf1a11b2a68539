//! Asynchronous peers: one thread on each side, and one task for each outstanding call.

use std::future::Future;
use std::time::{Duration, Instant};

use super::{Outcome, PeerOptions, PeerTally};

/// Calls that do not count.
const WARM_UP: usize = 200;

/// Runs a future on a runtime with one thread.
pub(super) fn run<T>(future: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(future)
}

/// Calls in as many tasks as the depth says, each one call at a time. A clone of the client is a handle of the same
/// connection.
pub(super) async fn flood<C, F, R>(client: C, call: F, options: &PeerOptions) -> Outcome<PeerTally>
where
    C: Clone + Send + 'static,
    F: Fn(C) -> R + Copy + Send + 'static,
    R: Future<Output = Outcome<()>> + Send + 'static,
{
    for _ in 0..WARM_UP {
        call(client.clone()).await?;
    }
    let (begin, duration) = (Instant::now(), options.duration());
    let tasks: Vec<_> =
        (0..options.depth()).map(|_| tokio::spawn(one_task(client.clone(), call, begin, duration))).collect();
    let mut all = PeerTally::default();
    for task in tasks {
        all.merge(&task.await??);
    }
    Ok(all)
}

async fn one_task<C, F, R>(client: C, call: F, begin: Instant, duration: Duration) -> Outcome<PeerTally>
where
    C: Clone,
    F: Fn(C) -> R,
    R: Future<Output = Outcome<()>>,
{
    let (mut tally, mut start) = (PeerTally::default(), Instant::now());
    while start - begin < duration {
        call(client.clone()).await?;
        let end = Instant::now();
        tally.record(end - start);
        tally.calls += 1;
        start = end;
    }
    tally.elapsed = start - begin;
    Ok(tally)
}
