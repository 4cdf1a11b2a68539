//! Naps on a busy machine: a thread that rests is awake when there is something for it.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use transport::{QpType, SendOp};

use super::rig::*;
use crate::testing::{self, EnginePath};

/// Longer than the tests have patience.
const LONG: Duration = Duration::from_secs(60);

/// Looks into the memory and polls in turn, as a thread of a busy machine, until the last number is there.
fn await_numbers(node: &Node, last: u64, seen: &AtomicU64) {
    testing::rest_this_thread(LONG);
    let mut completions = Vec::new();
    while seen.load(SeqCst) < last {
        let number = u64::from_ne_bytes(node.read(0, 8).try_into().expect("8 bytes"));
        seen.fetch_max(number, SeqCst);
        node.recv_cq.poll_for(&mut completions, 1, LONG).expect("the device works");
    }
}

/// Ends the other thread when the test fails.
struct Finish<'a>(&'a AtomicU64);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        self.0.store(u64::MAX, SeqCst);
    }
}

fn writes_wake_a_thread_that_polls_memory() {
    on_loopback(|group| {
        let (a, b) = pair(group, Setup::new(QpType::Rc));
        let (seen, last) = (AtomicU64::new(0), 50);
        std::thread::scope(|scope| {
            scope.spawn(|| await_numbers(&b, last, &seen));
            let _finish = Finish(&seen);
            for number in 1..=last {
                a.write(0, &u64::to_ne_bytes(number));
                a.send(number, SendOp::Write(b.remote(0)), 0, 8);
                a.sent();
                wait_until("the other thread", || seen.load(SeqCst) >= number);
            }
            // The last poll may have begun a nap after the number was there.
            a.send(0, SendOp::Write(b.remote(0)), 0, 8);
            a.sent();
        });
    });
}

#[test]
fn writes_of_the_same_host_wake_a_thread_that_polls_memory() {
    by(EnginePath::OneHost, writes_wake_a_thread_that_polls_memory);
}

#[test]
fn writes_of_packets_wake_a_thread_that_polls_memory() {
    writes_wake_a_thread_that_polls_memory();
}
