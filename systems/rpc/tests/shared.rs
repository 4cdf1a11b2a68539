//! One session that several threads share.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use longarm_rpc::{ClientOptions, Method, Methods, NotStarted, Response, Server, SharedClient, Way};

const SAY: Method = Method::new("/echo.Echo/Say");
const WAIT: Method = Method::new("/echo.Echo/Wait");
/// Patience: other programs share the machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// `Say` echoes. `Wait` does, too, when the gate is open.
fn serve(gate: &Arc<AtomicBool>) -> Server {
    let gate = Arc::clone(gate);
    let echo = Methods::new("echo.Echo")
        .direct(SAY, |request, reply| {
            reply.extend_from_slice(request);
            Ok(())
        })
        .blocking(WAIT, move |request| {
            while !gate.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(Response::new(request.into_inner()))
        });
    Server::builder().add_service(echo).unwrap().bind("127.0.0.1:0").unwrap()
}

fn connect(server: &Server, way: Way) -> SharedClient {
    let options = ClientOptions { way: Some(way), connect_timeout: PATIENCE, ..ClientOptions::default() };
    SharedClient::connect(server.local_addr(), &options).unwrap()
}

/// Bytes that no other call has; some are long.
fn body(thread: usize, call: usize) -> Vec<u8> {
    let text = format!("thread {thread}, call {call};");
    text.as_bytes().repeat(if call % 40 == 39 { 1000 } else { 1 + call % 7 })
}

fn call_many(client: &mut SharedClient, thread: usize, calls: usize) {
    let until = Instant::now() + PATIENCE;
    let (mut sent, mut started, mut ended) = (HashMap::new(), 0, 0);
    while ended < calls {
        while started < calls {
            match client.start(SAY, &body(thread, started), None) {
                Ok(id) => assert!(sent.insert(id, started).is_none()),
                Err(NotStarted::Full) => break,
                Err(NotStarted::Refused(status)) => panic!("{status}"),
            }
            started += 1;
        }
        ended += client.poll(|id, reply| {
            let call = sent.remove(&id).expect("a call of this thread");
            assert_eq!(reply.unwrap(), body(thread, call));
        });
        assert!(Instant::now() < until, "{} calls do not end", sent.len());
        std::thread::yield_now();
    }
    assert_eq!(client.outstanding(), 0);
}

#[test]
fn each_thread_gets_the_replies_to_its_calls_over_one_session() {
    let server = serve(&Arc::default());
    for way in Way::ALL {
        let client = connect(&server, way);
        assert_eq!(client.way(), way);
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let mut client = client.clone();
                scope.spawn(move || call_many(&mut client, thread, 300));
            }
        });
        assert_eq!(client.stats().ok, 900);
    }
    // The clients are dropped, each with its one session.
    assert_eq!(server.stats().accepted, Way::ALL.len() as u64);
}

#[test]
fn the_outcomes_of_a_clone_that_is_gone_reach_nobody() {
    let gate = Arc::new(AtomicBool::new(false));
    let server = serve(&gate);
    for way in Way::ALL {
        gate.store(false, Ordering::Relaxed);
        let mut stays = connect(&server, way);
        let mut goes = stays.clone();
        goes.start(WAIT, b"of the one that goes", None).unwrap();
        let (kept, withdrawn) = (stays.start(WAIT, b"kept", None).unwrap(), stays.start(WAIT, b"no", None).unwrap());
        assert_eq!((goes.outstanding(), stays.outstanding()), (1, 2));
        goes.cancel(kept);
        assert_eq!(stays.outstanding(), 2, "another clone's call is not withdrawn");
        stays.cancel(withdrawn);
        drop(goes);
        // It takes the mailbox of the one that is gone.
        let mut comes = stays.clone();
        gate.store(true, Ordering::Relaxed);
        let (until, mut ended) = (Instant::now() + PATIENCE, Vec::new());
        while ended.is_empty() {
            stays.poll(|id, reply| ended.push((id, reply.unwrap().to_vec())));
            assert!(Instant::now() < until, "{way}: the call does not end");
        }
        assert_eq!(ended, [(kept, b"kept".to_vec())], "{way}");
        call_many(&mut comes, 9, 64);
        assert_eq!(stays.poll(|id, _| panic!("{id:?} is not its call")), 0, "{way}");
    }
}
