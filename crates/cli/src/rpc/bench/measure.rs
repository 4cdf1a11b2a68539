//! Runs one case.

use std::thread;

use longarm_rpc::{Code, Status};

use super::case::{BenchCase, BenchMode};
use super::clients::BenchClients;
use super::figures::{BenchLine, BenchPath, CallFigures, CallTally};
use super::local::BenchServer;
use super::{latency, load, rate};
use crate::baseline::{pin_client, unpin};
use crate::error::Error;

/// Connects, measures, and reports. With `goes_on`, a way that the server does not have is a line of the report and no
/// error.
pub(super) fn line(case: &BenchCase, server: &BenchServer, path: BenchPath, goes_on: bool) -> Result<BenchLine, Error> {
    let mut clients = match connect(case, server) {
        Ok(clients) => clients,
        Err(status) => return refused(case, status, goes_on),
    };
    let mut planned_per_second = None;
    let tally = match case.mode {
        BenchMode::Latency => latency::measure(case, &mut clients[0])?,
        BenchMode::Rate => in_threads(case, &mut clients, |clients| rate::measure(case, clients))?,
        BenchMode::Load => {
            // On a busy machine a short trial may meet an unusual moment.
            let reached = in_threads(case, &mut clients, |clients| rate::measure(case, clients))?.per_second();
            let planned = reached * f64::from(case.load_percent) / 100.0;
            planned_per_second = Some(planned);
            let each = planned / f64::from(case.threads);
            in_threads(case, &mut clients, |clients| load::measure(case, clients, each))?
        }
    };
    Ok(BenchLine::Calls(figures(case, path, &tally, planned_per_second)))
}

/// Connects the clients of each thread. A client whose latency is measured stands alone.
fn connect(case: &BenchCase, server: &BenchServer) -> Result<Vec<BenchClients>, Status> {
    if case.mode == BenchMode::Latency {
        let alone = |_| Ok(BenchClients::One(Box::new(case.connect(server)?)));
        return (0..case.clients).map(alone).collect();
    }
    BenchClients::connect_threads(case, server)
}

/// The answer to a client that the server refuses. Nobody at the address is an error in any case.
pub(super) fn refused(case: &BenchCase, status: Status, goes_on: bool) -> Result<BenchLine, Error> {
    match status.code() {
        Code::Unavailable => Err(status.into()),
        _ if goes_on => Ok(BenchLine::Refused { way: case.way, reason: status.message().into() }),
        _ => Err(status.into()),
    }
}

/// Shares the clients among threads with a core each, and adds up their calls.
fn in_threads(
    case: &BenchCase,
    clients: &mut [BenchClients],
    measure: impl Fn(&mut BenchClients) -> Result<CallTally, Error> + Sync,
) -> Result<CallTally, Error> {
    let threads = case.threads as usize;
    if threads <= 1 {
        return measure(&mut clients[0]);
    }
    // The threads choose among all cores, not only that of this one.
    unpin();
    let measure = &measure;
    let outcomes = thread::scope(|scope| {
        let started: Vec<_> = clients
            .iter_mut()
            .enumerate()
            .map(|(index, clients)| {
                scope.spawn(move || {
                    pin_client(index, threads);
                    measure(clients)
                })
            })
            .collect();
        let ended = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err(Error::Peer("a thread of the measurement panicked".into())))
        };
        started.into_iter().map(ended).collect::<Vec<_>>()
    });
    let mut all = CallTally::default();
    for outcome in outcomes {
        all.merge(&outcome?);
    }
    Ok(all)
}

fn figures(case: &BenchCase, path: BenchPath, tally: &CallTally, planned_per_second: Option<f64>) -> CallFigures {
    CallFigures {
        way: case.way,
        path,
        mode: case.mode,
        size_bytes: case.size_bytes,
        reply_bytes: case.reply_bytes,
        clients: case.clients,
        threads: case.threads,
        depth: case.depth,
        calls: tally.calls,
        failed: tally.failed,
        seconds: tally.elapsed.as_secs_f64(),
        calls_per_second: tally.per_second(),
        planned_per_second,
        latency: tally.latency(),
    }
}
