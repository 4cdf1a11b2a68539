//! Thousands of connections, and listeners that take no messages.

mod support;

use std::process::Command;

use longarm_resp::RespOptions;
use rustix::process::{Resource, getrlimit, setrlimit};
use support::{DOOR, OpenDoor, Raw, with_hub};

/// Connections beside those of the other program.
const IDLE: usize = 1500;

fn allow_descriptors() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum.map_or(Some(1 << 16), |most| Some(most.min(1 << 16)));
    setrlimit(Resource::Nofile, limit).unwrap();
}

#[test]
fn thousands_are_served_beside_idle_ones() {
    with_hub("thousands_are_served_beside_idle_ones", || {
        allow_descriptors();
        let door = OpenDoor::new(RespOptions::default());
        let idle: Vec<Raw> = (0..IDLE).map(|_| Raw::connect(DOOR)).collect();
        testkit::wait_until("all are there", || door.door.counts().clients == IDLE as u64);
        let output = Command::new("redis-benchmark")
            .args(["-p", "6390", "-c", "1000", "-n", "10000", "-t", "set,get", "-q"])
            .output()
            .expect("redis-benchmark is installed (Debian package redis-tools)");
        let said = testkit::said(&output);
        assert!(output.status.success() && said.contains("GET: ") && !said.contains("Error"), "{said}");
        // Those that were idle are served as before.
        for mut raw in idle {
            assert_eq!(raw.ask(&["ping"]), "+PONG\r\n");
        }
        testkit::wait_until("all have left", || door.door.counts().clients == 0);
        assert_eq!((door.door.counts().refused, door.door.counts().slow), (0, 0));
    });
}

#[test]
fn a_listener_that_takes_no_messages_is_cut_off() {
    with_hub("a_listener_that_takes_no_messages_is_cut_off", || {
        let door = OpenDoor::new(RespOptions::default());
        let (mut deaf, mut good) = (Raw::connect(DOOR), Raw::connect(DOOR));
        assert!(deaf.ask(&["subscribe", "news"]).contains("subscribe"));
        assert!(good.ask(&["subscribe", "news"]).contains("subscribe"));
        let mut publisher = Raw::connect(DOOR);
        let message = "m".repeat(1 << 20);
        let mut sent = 0;
        // The buffers of both ends of the connection take some MiB beside the door's 32.
        while door.door.counts().slow == 0 {
            assert!(publisher.ask(&["publish", "news", &message]).starts_with(':'));
            assert!(good.reply().unwrap().len() > message.len());
            sent += 1;
            assert!(sent < 200, "nobody was cut off after {sent} MiB");
        }
        assert!(sent >= 32, "cut off after {sent} MiB");
        assert_eq!(publisher.ask(&["publish", "news", "x"]), ":1\r\n");
        assert!(good.reply().unwrap().ends_with(b"x\r\n"));
    });
}
