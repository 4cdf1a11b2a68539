//! Sessions with several servers, polled together.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use longarm_rpc::{
    CallId, ClientGroup, ClientOptions, Code, Executed, Method, Methods, NotStarted, Server, SessionId, Status, Way,
};

const SAY: Method = Method::new("/echo.Echo/Say");
const WAIT: Method = Method::new("/echo.Echo/Wait");
/// Patience: other programs share the machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server that puts its number before what it is told. `Wait` waits until the gate is open.
fn serve(number: u8, gate: &Arc<AtomicBool>) -> Server {
    let gate = Arc::clone(gate);
    let echo = Methods::new("echo.Echo")
        .direct(SAY, move |request, reply| {
            reply.push(number);
            reply.extend_from_slice(request);
            Ok(())
        })
        .blocking(WAIT, move |request| {
            while !gate.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(longarm_rpc::Response::new(request.into_inner()))
        });
    Server::builder().add_service(echo).unwrap().bind("127.0.0.1:0").unwrap()
}

fn group(way: Way) -> ClientGroup {
    ClientGroup::new(&ClientOptions { way: Some(way), connect_timeout: PATIENCE, ..ClientOptions::default() })
}

fn bytes(number: usize) -> Vec<u8> {
    // Some are long: the server READs them, and the client the replies.
    let len = if number % 50 == 49 { 40_000 } else { number % 600 };
    (0..len).map(|at| ((at + number) % 251) as u8).collect()
}

/// Polls until `is_over`, and hands each outcome to `ended`.
#[track_caller]
fn poll_until(
    group: &mut ClientGroup,
    mut ended: impl FnMut(SessionId, CallId, Result<&[u8], Status>),
    mut is_over: impl FnMut(&ClientGroup) -> bool,
) {
    let until = Instant::now() + PATIENCE;
    while !is_over(group) {
        group.poll_for(Duration::from_millis(1), &mut ended);
        assert!(Instant::now() < until, "it does not end: {group:?}");
    }
}

#[test]
fn replies_come_from_the_servers_that_were_asked() {
    let gate = Arc::default();
    let servers = [1, 2, 3].map(|number| serve(number, &gate));
    for way in Way::ALL {
        let mut group = group(way);
        // Two sessions with each server.
        let sessions: Vec<(SessionId, u8)> =
            (0..6).map(|at| (group.connect(servers[at % 3].local_addr()).unwrap(), (at % 3) as u8 + 1)).collect();
        assert!(sessions.iter().all(|(session, _)| group.way(*session).is_some_and(|(used, _)| used == way)));
        let mut sent = HashMap::new();
        let (mut started, mut ended) = (0, 0);
        while ended < 1800 {
            while started < 1800 {
                let (session, number) = sessions[started % 6];
                match group.start(session, SAY, &bytes(started), None) {
                    Ok(call) => assert!(sent.insert((session, call), (number, started)).is_none(), "{way}"),
                    Err(NotStarted::Full) => break,
                    Err(NotStarted::Refused(status)) => panic!("{way}: {status}"),
                }
                started += 1;
            }
            group.poll(|session, call, reply| {
                let (number, call) = sent.remove(&(session, call)).expect("a reply to a call that was made");
                let reply = reply.unwrap();
                assert_eq!((reply[0], &reply[1..]), (number, &bytes(call)[..]), "{way}");
                ended += 1;
            });
        }
        assert!(sessions.iter().all(|(session, _)| group.outstanding(*session) == 0));
        assert_eq!(sessions.iter().map(|(session, _)| group.stats(*session).unwrap().ok).sum::<u64>(), 1800);
    }
}

#[test]
fn a_server_that_ends_ends_its_sessions_only() {
    let gate = Arc::default();
    for way in Way::ALL {
        let (stays, goes) = (serve(1, &gate), serve(2, &gate));
        let mut group = group(way);
        let first = group.connect(stays.local_addr()).unwrap();
        let second = group.connect(goes.local_addr()).unwrap();
        drop(goes);
        poll_until(&mut group, |_, _, _| (), |group| group.closed(second).is_some());
        let refused = group.start(second, SAY, b"", None).unwrap_err();
        assert!(matches!(refused, NotStarted::Refused(status) if status.executed() == Executed::No), "{way}");
        group.start(first, SAY, b"still there", None).unwrap();
        let mut answered = false;
        poll_until(
            &mut group,
            |session, _, reply| {
                assert_eq!((session, reply.unwrap()), (first, &b"\x01still there"[..]), "{way}");
                answered = true;
            },
            |group| group.outstanding(first) == 0,
        );
        assert!(answered);

        group.remove(second);
        assert_eq!((group.len(), group.closed(first)), (1, None));
        let third = group.connect(stays.local_addr()).unwrap();
        assert_eq!((third.index(), third == second), (second.index(), false), "{way}: the place is used again");
        assert!(group.closed(second).is_some() && group.stats(second).is_none(), "the old name leads nowhere");
    }
}

#[test]
fn calls_end_by_their_deadlines_and_go_on_while_a_session_is_opened() {
    let gate = Arc::new(AtomicBool::new(false));
    let server = serve(1, &gate);
    for way in Way::ALL {
        gate.store(false, Ordering::Relaxed);
        let mut group = group(way);
        let first = group.connect(server.local_addr()).unwrap();
        let late = group.start(first, WAIT, b"late", Some(Instant::now() + Duration::from_millis(20))).unwrap();
        let withdrawn = group.start(first, WAIT, b"withdrawn", None).unwrap();
        let awaited = group.start(first, SAY, b"awaited", None).unwrap();
        group.cancel(first, withdrawn);
        // Replies come meanwhile.
        let second = group.connect(server.local_addr()).unwrap();
        let mut ends = HashMap::new();
        poll_until(
            &mut group,
            |session, call, reply| {
                assert_eq!(session, first);
                let end = reply.map(<[u8]>::to_vec).map_err(|status| status.code());
                assert!(ends.insert(call, end).is_none(), "{way}: a call ends once");
            },
            |group| group.stats(first).is_some_and(|stats| stats.ok + stats.failed == 2),
        );
        assert_eq!(ends.remove(&awaited), Some(Ok(b"\x01awaited".to_vec())), "{way}");
        assert_eq!(ends.remove(&late), Some(Err(Code::DeadlineExceeded)), "{way}");
        assert!(ends.is_empty());
        gate.store(true, Ordering::Relaxed);
        poll_until(&mut group, |_, _, _| panic!("its caller has gone"), |group| group.outstanding(first) == 0);
        assert_eq!(group.outstanding(second), 0);
    }
}

#[test]
fn more_calls_than_the_device_takes_at_a_time_all_end() {
    let server = serve(1, &Arc::default());
    for way in Way::ALL {
        let mut group = group(way);
        let sessions: Vec<SessionId> = (0..48).map(|_| group.connect(server.local_addr()).unwrap()).collect();
        let mut started = 0;
        for session in &sessions {
            for number in 0..16 {
                started += usize::from(group.start(*session, SAY, &bytes(number * 30), None).is_ok());
            }
        }
        assert!(started >= 256, "{way}: {started}");
        let mut ended = 0;
        let are_over = |group: &ClientGroup| sessions.iter().all(|session| group.outstanding(*session) == 0);
        poll_until(&mut group, |_, _, reply| ended += usize::from(reply.is_ok()), are_over);
        assert_eq!(ended, started, "{way}");
    }
}

/// A poll takes all that is there. Once it took 64 completions, of requests and replies: then the send queue that all sessions
/// share stayed full, and each of them tried to send in vain between two polls.
#[test]
fn one_poll_takes_the_replies_to_many_sessions() {
    const SESSIONS: usize = 150;
    let server = serve(1, &Arc::default());
    for way in [Way::Datagram, Way::Immediate] {
        let mut group = group(way);
        let sessions: Vec<SessionId> = (0..SESSIONS).map(|_| group.connect(server.local_addr()).unwrap()).collect();
        let mut most = 0;
        // On a busy machine replies come late: then another round shows it.
        testkit::wait_until("one poll takes more than a batch of completions", || {
            let before = server.stats().requests;
            for session in &sessions {
                group.start(*session, SAY, b"one of many", None).unwrap();
            }
            let mut ended = group.poll(|_, _, reply| assert_eq!(reply.unwrap()[1..], *b"one of many"));
            let until = Instant::now() + Duration::from_millis(200);
            while server.stats().requests < before + SESSIONS as u64 && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_millis(5));
            while ended < SESSIONS {
                let taken = group.poll(|_, _, reply| assert_eq!(reply.unwrap()[1..], *b"one of many"));
                (ended, most) = (ended + taken, most.max(taken));
            }
            most > 64
        });
    }
}
