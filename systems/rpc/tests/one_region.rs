//! The memory of all sessions as one region.

use std::time::{Duration, Instant};

use longarm_rpc::{
    CallId, ClientGroup, ClientOptions, Method, Methods, Server, ServerOptions, SessionId, Status, VerbsTuning, Way,
};

const SAY: Method = Method::new("/echo.Echo/Say");
/// Patience: other programs share the machine.
const PATIENCE: Duration = Duration::from_secs(30);

fn tuning(one_region: bool) -> VerbsTuning {
    VerbsTuning { one_region, ..VerbsTuning::default() }
}

fn serve(one_region: bool) -> Server {
    let echo = Methods::new("echo.Echo").direct(SAY, |request, reply| {
        reply.extend_from_slice(request);
        Ok(())
    });
    let options = ServerOptions { tuning: tuning(one_region), ..ServerOptions::default() };
    Server::builder().add_service(echo).unwrap().options(options).bind("127.0.0.1:0").unwrap()
}

fn group(way: Way, one_region: bool) -> ClientGroup {
    let standard = ClientOptions::default();
    let tuning = tuning(one_region);
    ClientGroup::new(&ClientOptions { way: Some(way), connect_timeout: PATIENCE, tuning, ..standard })
}

fn connect(group: &mut ClientGroup, server: &Server, count: usize) -> Vec<SessionId> {
    (0..count).map(|_| group.connect(server.local_addr()).unwrap()).collect()
}

/// Bytes that no other call has.
fn body(generation: usize, session: usize, call: usize) -> Vec<u8> {
    let text = format!("generation {generation}, session {session}, call {call};");
    text.as_bytes().repeat(1 + call % 9)
}

/// Ends some calls, each by the reply that was told for its session and its order.
#[track_caller]
fn check_calls(group: &mut ClientGroup, sessions: &[SessionId], generation: usize, calls: usize) {
    let mut expected: Vec<(SessionId, CallId, Vec<u8>)> = Vec::new();
    for call in 0..calls {
        for (number, session) in sessions.iter().enumerate() {
            let body = body(generation, number, call);
            expected.push((*session, group.start(*session, SAY, &body, None).unwrap(), body));
        }
    }
    let until = Instant::now() + PATIENCE;
    while !expected.is_empty() {
        group.poll_for(Duration::from_millis(1), |session, call, reply: Result<&[u8], Status>| {
            let at = expected.iter().position(|(from, id, _)| (*from, *id) == (session, call)).expect("a call of ours");
            assert_eq!(reply.unwrap(), expected.swap_remove(at).2);
        });
        assert!(Instant::now() < until, "{} calls do not end", expected.len());
    }
}

#[test]
fn sessions_of_every_way_share_a_region_and_get_their_own_replies() {
    let server = serve(true);
    for way in Way::ALL {
        let mut group = group(way, true);
        for generation in 0..3 {
            let sessions = connect(&mut group, &server, 12);
            check_calls(&mut group, &sessions, generation, 20);
            sessions.into_iter().for_each(|session| group.remove(session));
        }
    }
}

/// One end may have the switch, and the other not.
#[test]
fn each_end_decides_for_itself() {
    for way in Way::ALL {
        for one_region in [false, true] {
            let server = serve(one_region);
            let mut group = group(way, !one_region);
            let sessions = connect(&mut group, &server, 3);
            check_calls(&mut group, &sessions, 0, 20);
        }
    }
}

/// A session's place in the region goes to a later one. The records that lie there must not be its replies.
#[test]
fn nothing_of_an_earlier_session_is_left_in_its_place() {
    let server = serve(true);
    for way in [Way::Ring, Way::Immediate, Way::Fetch] {
        let mut group = group(way, true);
        let (before, early) = (server.stats().requests, connect(&mut group, &server, 4));
        for (number, session) in early.iter().enumerate() {
            // As long as those of later calls, which have the same slots and numbers.
            for call in 0..20 {
                group.start(*session, SAY, &body(7, number, call), None).unwrap();
            }
        }
        // With the doorbell the last requests leave. The replies lie in memory, where nobody looks.
        group.start(early[0], SAY, b"the last", None).unwrap();
        let _ = group.poll(|_, _, _| ());
        testkit::wait_until("the server has answered", || server.stats().requests >= before + 81);
        early.into_iter().for_each(|session| group.remove(session));
        let late = connect(&mut group, &server, 4);
        check_calls(&mut group, &late, 8, 20);
    }
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// A region has a descriptor, by which peers on the host map it.
#[test]
fn many_sessions_take_few_regions() {
    let held = [false, true].map(|one_region| {
        let server = serve(one_region);
        let mut group = group(Way::Immediate, one_region);
        connect(&mut group, &server, 4);
        let before = descriptors();
        let sessions = connect(&mut group, &server, 40);
        check_calls(&mut group, &sessions, 0, 2);
        descriptors().saturating_sub(before)
    });
    let [alone, shared] = held;
    // Other tests of this process open and close some, too.
    assert!(alone >= shared + 40, "{alone} descriptors for 40 sessions with regions of their own, {shared} in one");
}
