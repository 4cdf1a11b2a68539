//! Sessions that end leave nothing behind, and idle ends use no processor.

mod support;

use std::time::{Duration, Instant};

use longarm_rpc::{Channel, Way};
use support::{
    ADDRESS, ECHO, PATIENCE, ProcessCost, ProcessHold, TestProcess, connected, figures, fill_pools, options, with_hub,
};

/// Sessions, one after the other, each with some calls. Some of their WRITEs have no completion when they end.
fn cycle(way: Way, sessions: usize) {
    for _ in 0..sessions {
        let mut client = connected(way);
        for _ in 0..12 {
            assert!(client.call(ECHO, b"once", PATIENCE).unwrap() == "once", "{way}");
        }
    }
}

#[test]
fn sessions_leave_descriptors_memory_and_threads_where_they_were() {
    with_hub("sessions_leave_descriptors_memory_and_threads_where_they_were", || {
        for way in Way::ALL {
            let server = TestProcess::server();
            let mut steady = connected(way);
            let mut settled = || {
                testkit::wait_until("the sessions are gone", || figures(&mut steady).sessions == 1);
                (ProcessHold::of(server.pid()), ProcessHold::of(std::process::id()))
            };
            fill_pools(way);
            cycle(way, 20);
            let before = settled();
            cycle(way, 200);
            // A leak of one piece for each session would be 200.
            testkit::wait_until(&format!("{way}: both ends hold as much as before: {before:?}"), || {
                let after = settled();
                after.0.is_back_to(&before.0, 6) && after.1.is_back_to(&before.1, 24)
            });
        }
    });
}

/// Short datagrams share a registration, and so a descriptor. Once each buffer had its own, and 1,000 clients of one
/// process had none left.
#[test]
fn many_datagrams_at_a_time_take_few_descriptors() {
    with_hub("many_datagrams_at_a_time_take_few_descriptors", || {
        let _server = TestProcess::server();
        let mut client = connected(Way::Datagram);
        client.call(ECHO, b"once", PATIENCE).unwrap();
        let before = ProcessHold::of(std::process::id());
        let (mut started, mut ended) = (0, 0);
        while ended < 2000 {
            while started < 2000 && client.start(ECHO, b"many", None).is_ok() {
                started += 1;
            }
            ended += client.poll(|_, reply| assert_eq!(reply.unwrap(), b"many"));
        }
        let after = ProcessHold::of(std::process::id());
        assert!(after.descriptors <= before.descriptors + 6, "{before:?}, then {after:?}");
    });
}

/// The part of the processor that this process and the server use while nobody calls.
fn idle_share(server: &TestProcess) -> [f64; 2] {
    let pids = [server.pid(), std::process::id()];
    let (start, before) = (Instant::now(), pids.map(ProcessCost::of));
    std::thread::sleep(Duration::from_secs(1));
    let after = pids.map(ProcessCost::of);
    [0, 1].map(|at| after[at].since(before[at]).as_secs_f64() / start.elapsed().as_secs_f64())
}

#[test]
fn idle_ends_that_completions_wake_use_no_processor() {
    with_hub("idle_ends_that_completions_wake_use_no_processor", || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for way in [Way::Immediate, Way::Datagram] {
            let server = TestProcess::server();
            drop(connected(way));
            let channel = runtime.block_on(Channel::connect(ADDRESS, options(way))).unwrap();
            let call = || channel.call(ECHO, longarm_rpc::Request::new(bytes::Bytes::from_static(b"hello")));
            assert_eq!(runtime.block_on(async { call().await }).unwrap().into_inner(), "hello");
            let mut share = [1.0; 2];
            testkit::wait_until("both ends are idle", || {
                share = idle_share(&server);
                eprintln!("{way}: {share:?} of a processor");
                share.iter().all(|share| *share < 0.02)
            });
            assert_eq!(runtime.block_on(async { call().await }).unwrap().into_inner(), "hello", "{way}: {share:?}");
        }
    });
}
