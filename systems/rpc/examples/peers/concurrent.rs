//! Asynchronous peers: one thread on each side, and one task for each outstanding call.

use std::future::Future;
use std::time::{Duration, Instant};

use tokio::task::{JoinHandle, LocalSet, spawn_local};

use super::{Outcome, PeerOptions, PeerTally};

/// Calls that do not count.
const WARM_UP: usize = 200;

/// Runs a future on a runtime with one thread.
pub(super) fn run<T>(future: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, future)
}

/// Calls in as many tasks as the depth says, each one call at a time. A clone of the client is a handle of the same
/// connection.
pub(super) async fn flood<C, F, R>(client: C, call: F, options: &PeerOptions) -> Outcome<PeerTally>
where
    C: Clone + Send + 'static,
    F: Fn(C) -> R + Copy + Send + 'static,
    R: Future<Output = Outcome<()>> + Send + 'static,
{
    warm_up(&client, call).await?;
    let (begin, duration) = (Instant::now(), options.duration());
    let start = |_| tokio::spawn(one_task(client.clone(), call, begin, duration));
    gather((0..options.depth()).map(start).collect()).await
}

/// The same for a client that stays in its thread.
pub(super) async fn flood_local<C, F, R>(client: C, call: F, options: &PeerOptions) -> Outcome<PeerTally>
where
    C: Clone + 'static,
    F: Fn(C) -> R + Copy + 'static,
    R: Future<Output = Outcome<()>> + 'static,
{
    warm_up(&client, call).await?;
    let (begin, duration) = (Instant::now(), options.duration());
    let start = |_| spawn_local(one_task(client.clone(), call, begin, duration));
    gather((0..options.depth()).map(start).collect()).await
}

async fn warm_up<C: Clone, R: Future<Output = Outcome<()>>>(client: &C, call: impl Fn(C) -> R) -> Outcome<()> {
    for _ in 0..WARM_UP {
        call(client.clone()).await?;
    }
    Ok(())
}

async fn gather(tasks: Vec<JoinHandle<Outcome<PeerTally>>>) -> Outcome<PeerTally> {
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
