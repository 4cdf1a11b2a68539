//! Servers and clients that are killed or stopped, over every way.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use longarm_rpc::{Channel, Client, Code, Executed, NotStarted, Request, Way};
use support::{
    ADDRESS, ECHO, Journal, NOTE, Outcomes, PATIENCE, ProcessHold, TestProcess, body_of, connected, figures,
    fill_pools, load, options, with_hub,
};

/// Clients that a killed server had.
const CLIENTS: u64 = 3;

/// Rounds for each way. A long run has `LONGARM_RPC_KILLS` kills in all.
fn rounds(usual: u64) -> u64 {
    let kills = std::env::var("LONGARM_RPC_KILLS").ok().and_then(|kills| kills.parse::<u64>().ok());
    kills.map_or(usual, |kills| kills.div_ceil(Way::ALL.len() as u64))
}

/// Tasks that call over one channel, whatever happens to the server.
struct ChannelLoad {
    runtime: tokio::runtime::Runtime,
    stop: Arc<AtomicBool>,
    ok: Arc<AtomicU64>,
    tasks: Vec<tokio::task::JoinHandle<Outcomes>>,
}

impl ChannelLoad {
    fn start(way: Way, first: u64) -> ChannelLoad {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let channel = Channel::lazy(ADDRESS, options(way)).unwrap();
        let (stop, ok) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let task = |at: u64| {
            let (channel, stop, ok) = (channel.clone(), Arc::clone(&stop), Arc::clone(&ok));
            runtime.spawn(async move { call_on(&channel, first + (at << 40), &stop, &ok).await })
        };
        let tasks = (0..4).map(task).collect();
        ChannelLoad { runtime, stop, ok, tasks }
    }

    fn end(self) -> Outcomes {
        self.stop.store(true, Ordering::Relaxed);
        let mut outcomes = Outcomes::default();
        for task in self.tasks {
            outcomes.merge(self.runtime.block_on(task).unwrap());
        }
        outcomes
    }
}

async fn call_on(channel: &Channel, first: u64, stop: &AtomicBool, ok: &AtomicU64) -> Outcomes {
    let mut outcomes = Outcomes::default();
    for number in first.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let body = Bytes::from(body_of(number));
        match channel.call(NOTE, Request::new(body.clone())).await {
            Ok(reply) => {
                assert!(reply.into_inner() == body, "another reply");
                ok.fetch_add(1, Ordering::Relaxed);
                outcomes.end(number, Ok(()));
            }
            Err(status) => {
                outcomes.end(number, Err(status));
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
    }
    outcomes
}

/// One life of a server: several clients load it, then it is killed.
fn kill_a_server(way: Way, round: u64, channel: &ChannelLoad) -> Outcomes {
    let server = TestProcess::server();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|at| {
            let mut client = connected(way);
            std::thread::spawn(move || load(&mut client, (round * CLIENTS + at) << 32))
        })
        .collect();
    let (ran, called) = (Journal::count(), channel.ok.load(Ordering::Relaxed));
    testkit::wait_until("the clients' calls run", || Journal::count() > ran + 100);
    testkit::wait_until("the channel finds the new server", || channel.ok.load(Ordering::Relaxed) > called);
    std::thread::sleep(Duration::from_micros(round % 7 * 1300));
    server.kill();
    let mut outcomes = Outcomes::default();
    clients.into_iter().for_each(|client| outcomes.merge(client.join().unwrap()));
    assert!(outcomes.ok > 0, "{way}, round {round}: no call succeeded");
    outcomes
}

#[test]
fn a_killed_server_leaves_true_outcomes() {
    with_hub("a_killed_server_leaves_true_outcomes", || {
        let mut unknown = 0;
        for way in Way::ALL {
            Journal::clear();
            let channel = ChannelLoad::start(way, 1 << 60);
            let mut outcomes = Outcomes::default();
            for round in 0..rounds(2) {
                outcomes.merge(kill_a_server(way, round, &channel));
            }
            outcomes.merge(channel.end());
            outcomes.must_be_true(way.name());
            unknown += outcomes.unknown;
        }
        assert!(unknown > 0, "no call was under way when a server was killed");
    });
}

/// Victims are killed while they have calls under way; the server serves its other client meanwhile.
fn kill_clients(steady: &mut Client, way: Way, rounds: u64) {
    for _ in 0..rounds {
        let requests = figures(steady).requests;
        let victims = [TestProcess::client(way), TestProcess::client(way)];
        testkit::wait_until("both victims load the server", || {
            let figures = figures(steady);
            figures.sessions == 3 && figures.requests > requests + 500
        });
        victims.into_iter().for_each(TestProcess::kill);
        for number in 0..64 {
            assert!(steady.call(ECHO, &body_of(number), PATIENCE).unwrap() == body_of(number), "{way}");
        }
        testkit::wait_until("the sessions of the dead are gone", || figures(steady).sessions == 1);
    }
}

#[test]
fn killed_clients_leave_nothing_behind() {
    with_hub("killed_clients_leave_nothing_behind", || {
        for way in Way::ALL {
            let server = TestProcess::server();
            let mut steady = connected(way);
            fill_pools(way);
            // The pools grow until they have what the worst moment needs: a long run has had some by then.
            kill_clients(&mut steady, way, 1 + rounds(0) / 10);
            let before = ProcessHold::of(server.pid());
            kill_clients(&mut steady, way, rounds(4));
            let after = ProcessHold::of(server.pid());
            assert!(after.is_back_to(&before, 48), "{way}: {before:?} became {after:?}");
        }
    });
}

/// Starts calls until there is no room, each with a deadline `after` from now.
fn start_some(client: &mut Client, first: u64, after: Duration) -> Vec<u64> {
    let mut numbers = Vec::new();
    for number in first.. {
        match client.start(NOTE, &number.to_le_bytes(), Some(Instant::now() + after)) {
            Ok(_) => numbers.push(number),
            Err(NotStarted::Full) => break,
            Err(NotStarted::Refused(status)) => panic!("{status}"),
        }
    }
    numbers
}

/// A server that stands still for longer than the deadlines of a full set of calls.
fn stop_a_server(way: Way, server: &TestProcess, client: &mut Client, round: u64) {
    server.stop();
    let numbers = start_some(client, round << 32, Duration::from_millis(400));
    assert!(!numbers.is_empty(), "{way}: no call was sent to a server that stands");
    let (mut ended, start) = (0, Instant::now());
    while ended < numbers.len() {
        client.poll(|_, reply| {
            let status = reply.map(<[u8]>::len).expect_err("a reply of a server that stands");
            assert_eq!((status.code(), status.executed()), (Code::DeadlineExceeded, Executed::Unknown), "{way}");
            ended += 1;
        });
        assert!(start.elapsed() < PATIENCE, "{way}: {ended} of {} calls have ended", numbers.len());
    }
    let late = client.call(ECHO, b"", Duration::from_millis(20)).unwrap_err();
    assert_eq!((late.code(), late.executed()), (Code::DeadlineExceeded, Executed::No), "{way}: there is no room");
    server.go_on();
    testkit::wait_until("the slots come back", || {
        client.poll(|id, _| panic!("{way}: {id:?} has ended twice"));
        client.outstanding() == 0
    });
    assert!(client.call(ECHO, b"again", PATIENCE).unwrap() == "again", "{way}");
}

#[test]
fn a_server_that_stood_still_does_not_run_expired_requests() {
    with_hub("a_server_that_stood_still_does_not_run_expired_requests", || {
        for way in Way::ALL {
            Journal::clear();
            let server = TestProcess::server();
            let mut client = connected(way);
            for round in 0..3 {
                stop_a_server(way, &server, &mut client, round);
            }
            assert_eq!(Journal::count(), 0, "{way}: expired requests ran");
        }
    });
}

/// A server that stands for longer than the deadlines, and a client that does not look meanwhile, so it withdraws nothing.
fn stop_a_server_shortly(way: Way, server: &TestProcess, client: &mut Client, round: u64) {
    client.call(ECHO, b"deadlines are in use", PATIENCE).unwrap();
    server.stop();
    let mut numbers = start_some(client, round << 32, Duration::from_millis(20)).len();
    assert!(numbers > 0, "{way}: no call was sent to a server that stands");
    std::thread::sleep(Duration::from_millis(60));
    server.go_on();
    let start = Instant::now();
    while numbers > 0 {
        client.poll(|_, reply| {
            assert_eq!(reply.map(<[u8]>::len).unwrap_err().code(), Code::DeadlineExceeded, "{way}");
            numbers -= 1;
        });
        assert!(start.elapsed() < PATIENCE, "{way}: {numbers} calls have no end");
    }
    testkit::wait_until("the slots come back", || {
        client.poll(|id, _| panic!("{way}: {id:?} has ended twice"));
        client.outstanding() == 0
    });
}

#[test]
fn a_short_stop_runs_no_expired_request() {
    with_hub("a_short_stop_runs_no_expired_request", || {
        for way in Way::ALL {
            Journal::clear();
            let server = TestProcess::server();
            let mut client = connected(way);
            for round in 0..5 {
                stop_a_server_shortly(way, &server, &mut client, round);
            }
            assert_eq!(Journal::count(), 0, "{way}: expired requests ran");
        }
    });
}

#[test]
fn a_client_that_stands_still_delays_nobody() {
    with_hub("a_client_that_stands_still_delays_nobody", || {
        for way in Way::ALL {
            let _server = TestProcess::server();
            let mut steady = connected(way);
            let idler = TestProcess::client(way);
            let requests = figures(&mut steady).requests;
            testkit::wait_until("the other client loads the server", || figures(&mut steady).requests > requests + 500);
            idler.stop();
            for number in 0..2000 {
                let reply = steady.call(ECHO, &body_of(number), PATIENCE).unwrap();
                assert!(reply == body_of(number), "{way}: another reply");
            }
            let requests = figures(&mut steady).requests;
            idler.go_on();
            testkit::wait_until("it goes on", || figures(&mut steady).requests > requests + 500);
        }
    });
}
