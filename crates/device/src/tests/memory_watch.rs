//! A thread that sleeps on descriptors is awake when a peer has changed memory, whatever the other threads do.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use transport::{AtomicOp, QpType, SendOp};

use super::rig::*;
use crate::testing::{self, EnginePath};

/// Longer than the tests have patience.
const LONG: Duration = Duration::from_secs(60);
const ROUNDS: u64 = 200;

/// Sleeps until a number is at the beginning of the memory.
fn await_numbers(node: &Node, last: u64, seen: &AtomicU64) {
    let mut watch = node.device.watch_memory().expect("a watch");
    let number = || u64::from_ne_bytes(node.read(0, 8).try_into().expect("8 bytes"));
    while seen.load(SeqCst) < last {
        let armed = watch.arm();
        if number() > seen.fetch_max(number(), SeqCst) {
            continue;
        }
        let longest = if armed { LONG } else { Duration::from_millis(1) };
        watch.wait(longest).expect("the system waits");
    }
}

/// The things that other threads of the sleeper's process do.
#[derive(Clone, Copy, Debug)]
enum Others {
    Nothing,
    /// One polls without a pause.
    Poll,
    /// One polls as a thread of a busy machine, which naps, and changes its mind.
    Nap,
}

fn changes_wake_a_thread_that_sleeps(others: Others) {
    on_loopback(|group| {
        let (a, b) = pair(group, Setup::new(QpType::Rc));
        let (seen, over) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| await_numbers(&b, ROUNDS, &seen));
            scope.spawn(|| be_others(others, &b, &over));
            let _finish = (Finish(&seen), Finish(&over));
            for number in 1..=ROUNDS {
                // WRITEs and atomics in turn, now and then after the sleeper has surely fallen asleep.
                a.write(0, &u64::to_ne_bytes(number));
                let op = match number % 2 {
                    0 => SendOp::Write(b.remote(0)),
                    _ => SendOp::Atomic(b.remote(0), AtomicOp::FetchAdd { add: 1 }),
                };
                if number.is_multiple_of(16) {
                    std::thread::sleep(Duration::from_millis(2));
                }
                a.send(number, op, 0, 8);
                a.sent();
                wait_until("the sleeper", || seen.load(SeqCst) >= number);
            }
        });
    });
}

fn be_others(others: Others, node: &Node, over: &AtomicU64) {
    let mut completions = Vec::new();
    let mut round = 0_u32;
    while over.load(SeqCst) == 0 {
        round += 1;
        match others {
            Others::Nothing => return,
            Others::Poll => drop(node.recv_cq.poll(&mut completions, 1).expect("the device works")),
            Others::Nap => {
                testing::rest_this_thread(if round.is_multiple_of(8) { Duration::ZERO } else { LONG });
                node.recv_cq.poll_for(&mut completions, 1, Duration::from_millis(3)).expect("the device works");
            }
        }
    }
}

/// Ends the other threads when the test fails.
struct Finish<'a>(&'a AtomicU64);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        self.0.store(u64::MAX, SeqCst);
    }
}

fn all() {
    for others in [Others::Nothing, Others::Poll, Others::Nap] {
        println!("the other threads: {others:?}");
        changes_wake_a_thread_that_sleeps(others);
    }
}

#[test]
fn changes_by_peers_of_the_same_host_wake_a_thread_that_sleeps() {
    by(EnginePath::OneHost, all);
}

#[test]
fn changes_by_the_same_process_wake_a_thread_that_sleeps() {
    by(EnginePath::OneProcess, all);
}

#[test]
fn changes_by_packets_wake_a_thread_that_sleeps() {
    all();
}

/// A watch that is not armed keeps no peer busy, and one that is dropped leaves nothing behind.
#[test]
fn a_watch_ends() {
    by(EnginePath::OneHost, || {
        on_loopback(|group| {
            let (a, b) = pair(group, Setup::new(QpType::Rc));
            let engine = b.device.engine();
            let is_told = || engine.shm.as_ref().is_some_and(|shm| shm.export.export().is_memory_watched());
            let mut watch = b.device.watch_memory().expect("a watch");
            assert!(!watch.arm(), "threads may take a moment to hear of the first one");
            assert!(!is_told());
            assert!(watch.arm() && is_told());
            watch.disarm();
            assert!(!is_told());
            let mut second = b.device.watch_memory().expect("a watch");
            assert!(watch.arm() && second.arm());
            drop(watch);
            assert!(is_told(), "the second is armed");
            a.send(1, SendOp::Write(b.remote(0)), 0, 8);
            a.sent();
            assert!(second.wait(LONG).expect("the system waits"));
            drop(second);
            assert!(!is_told() && !engine.memory_watchers.are_armed());
        });
    });
}
