//! Requests whose handlers wait for a thread for longer than their callers wait.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use longarm_rpc::{
    BoxFuture, CallId, Client, ClientOptions, Code, Method, Methods, Request, Response, RunOn, Server, ServerOptions,
    Status, Way,
};

/// Blocks its thread until the test says go.
const HOLD: Method = Method::new("/wait.Wait/Hold");
/// Answers at once, on the polling thread.
const PROBE: Method = Method::new("/wait.Wait/Probe");
/// Counts.
const COUNT: Method = Method::new("/wait.Wait/Count");
/// Patience: other programs share the machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// The time that a caller waits.
const DEADLINE: Duration = Duration::from_millis(20);

struct OneThread {
    server: Server,
    runs: Arc<AtomicU32>,
    go: Sender<()>,
    held: Receiver<()>,
}

impl OneThread {
    /// Polls until the handler blocks its thread.
    fn must_hold(&self, client: &mut Client) {
        testkit::wait_until("the handler has begun", || {
            client.poll(|id, reply| panic!("{id:?}: {reply:?}"));
            self.held.try_recv().is_ok()
        });
    }
}

/// A server with one thread for the handlers of `run_on`.
fn serve(run_on: RunOn) -> OneThread {
    let (go, gate) = channel();
    let (holds, held) = channel();
    let (gate, runs) = (Arc::new(Mutex::new(gate)), Arc::new(AtomicU32::new(0)));
    let counter = Arc::clone(&runs);
    let hold = move |request: Request<Bytes>| {
        let (gate, holds) = (Arc::clone(&gate), holds.clone());
        async move {
            holds.send(()).unwrap();
            let _ = gate.lock().unwrap().recv();
            Ok(Response::new(request.into_inner()))
        }
    };
    let count = move |request: Request<Bytes>| {
        // This part runs in the handler's thread, too.
        counter.fetch_add(1, Ordering::SeqCst);
        async move { Ok(Response::new(request.into_inner())) }
    };
    let methods = Methods::new("wait.Wait")
        .asynchronous(HOLD, run_on, hold)
        .asynchronous(COUNT, run_on, count)
        .direct(PROBE, |_, _| Ok(()));
    let options = ServerOptions { pool_threads: 1, ..ServerOptions::default() };
    let mut builder = Server::builder().options(options).add_service(methods).unwrap();
    if run_on == RunOn::Executor {
        let executor = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        builder = builder.executor(move |future: BoxFuture<()>| drop(executor.spawn(future)));
    }
    OneThread { server: builder.bind("127.0.0.1:0").unwrap(), runs, go, held }
}

fn connect(server: &Server, way: Way) -> Client {
    let options = ClientOptions { way: Some(way), connect_timeout: PATIENCE, ..ClientOptions::default() };
    Client::connect(server.local_addr(), &options).unwrap()
}

/// Polls until the calls have ended.
fn outcomes<const N: usize>(client: &mut Client, calls: [CallId; N]) -> [Result<(), Status>; N] {
    let mut ended = std::collections::HashMap::new();
    testkit::wait_until("the calls end", || {
        client.poll(|id, reply| assert!(ended.insert(id, reply.map(drop)).is_none()));
        ended.len() == N
    });
    calls.map(|id| ended.remove(&id).unwrap())
}

const PLACES: [RunOn; 2] = [RunOn::Pool, RunOn::Executor];

#[test]
fn a_request_that_expires_while_it_waits_for_a_thread_is_not_executed() {
    for (run_on, way) in PLACES.into_iter().flat_map(|run_on| Way::ALL.map(|way| (run_on, way))) {
        let one = serve(run_on);
        let mut client = connect(&one.server, way);
        let hold = client.start(HOLD, b"", None).unwrap();
        one.must_hold(&mut client);
        let late = client.start(COUNT, b"", Some(Instant::now() + DEADLINE)).unwrap();
        // The client does not look, so it withdraws nothing.
        std::thread::sleep(DEADLINE * 3);
        one.go.send(()).unwrap();
        let [held, ended] = outcomes(&mut client, [hold, late]);
        held.unwrap();
        let status = ended.unwrap_err();
        assert_eq!(status.code(), Code::DeadlineExceeded, "{way}, {run_on:?}: {status}");
        client.call(COUNT, b"", PATIENCE).unwrap();
        assert_eq!(one.runs.load(Ordering::SeqCst), 1, "{way}, {run_on:?}: the late request ran");
        drop(client);
        // The withdrawal of a client that sees the deadline pass may come first.
        let counted = || one.server.stats().late + one.server.stats().cancelled;
        testkit::wait_until("the server has counted it", || counted() == 1);
    }
}

#[test]
fn a_request_that_is_withdrawn_while_it_waits_for_a_thread_is_not_executed() {
    for (run_on, way) in PLACES.into_iter().flat_map(|run_on| Way::ALL.map(|way| (run_on, way))) {
        let one = serve(run_on);
        let (mut client, mut other) = (connect(&one.server, way), connect(&one.server, way));
        let hold = client.start(HOLD, b"", None).unwrap();
        one.must_hold(&mut client);
        let withdrawn = other.start(COUNT, b"", None).unwrap();
        other.cancel(withdrawn);
        // The withdrawal goes over the connection. The second answer shows that the server has looked there since.
        other.call(PROBE, b"", PATIENCE).unwrap();
        std::thread::sleep(DEADLINE);
        other.call(PROBE, b"", PATIENCE).unwrap();
        one.go.send(()).unwrap();
        let [held] = outcomes(&mut client, [hold]);
        held.unwrap();
        testkit::wait_until("the slot comes back", || {
            other.poll(|id, _| panic!("{id:?} was withdrawn"));
            other.outstanding() == 0
        });
        client.call(COUNT, b"", PATIENCE).unwrap();
        assert_eq!(one.runs.load(Ordering::SeqCst), 1, "{way}, {run_on:?}: the withdrawn request ran");
        drop((client, other));
        testkit::wait_until("the server has counted it", || one.server.stats().cancelled == 1);
    }
}
