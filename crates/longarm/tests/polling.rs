//! Poll mode: selective signalling, completion channels, waiting for any completion.

mod common;

use std::os::fd::AsFd;
use std::time::Duration;

use common::*;
use longarm::{CompletionOp, Status};
use testkit::{PATIENCE, wait_until};

#[test]
fn unsignaled_requests_come_back_with_the_next_signaled_one() {
    in_own_network(|| {
        two_sides(|a, b| {
            let (left, _right) = rc_pair(&a, &b);
            let key = b.domain.expose(64, ALL).unwrap();
            let mut tickets = Vec::new();
            for byte in 0..10 {
                let at = key.key().at(byte.into(), 1).unwrap();
                tickets.push(left.write(a.buffer(&[byte]), &at).unsignaled().post().unwrap());
            }
            let mut done = Vec::new();
            std::thread::sleep(Duration::from_millis(10));
            assert_eq!(a.cq.poll(&mut done, 64).unwrap(), 0, "nothing is reported by itself");
            tickets.push(left.read(a.empty(10), &key.key().at(0, 10).unwrap()).post().unwrap());
            wait_until("all completions", || {
                a.cq.poll(&mut done, 4).unwrap();
                done.len() == 11
            });
            assert!(done.iter().map(|c| c.ticket()).eq(tickets));
            assert!(done.iter().all(|c| c.is_ok()));
            let last = done.pop().and_then(|c| c.into_buffer()).unwrap();
            assert_eq!(&last[..], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        })
    })
}

#[test]
fn a_queue_of_nothing_but_unsignaled_requests_does_not_jam() {
    in_own_network(|| {
        two_sides(|a, b| {
            let (left, _right) = join(a.rc().send_depth(16).build().unwrap(), b.rc().build().unwrap());
            let region = b.domain.expose(8, ALL).unwrap();
            let (mut buffers, mut done) = (a.domain.allocate_many(16, 8).unwrap(), Vec::new());
            for round in 0..1000u64 {
                wait_until("a buffer", || {
                    a.cq.poll(&mut done, 64).unwrap();
                    buffers.extend(done.drain(..).filter_map(|c| c.into_buffer()));
                    !buffers.is_empty()
                });
                let buffer = buffers.pop().unwrap().with(&round.to_ne_bytes());
                left.write(buffer, &region.key()).unsignaled().post().unwrap();
            }
            wait_until("the last write", || region.load(0).unwrap() == 999);
        })
    })
}

#[test]
fn unsignaled_requests_before_a_failure_succeeded_and_those_behind_are_flushed() {
    in_own_network(|| {
        two_sides(|a, b| {
            if !has(!a.device.capabilities().by_address_only, REASONS) {
                return;
            }
            let (left, _right) = rc_pair(&a, &b);
            let region = b.domain.expose(8, longarm::Access::REMOTE_WRITE).unwrap();
            let key = region.key();
            left.batch()
                .write(a.buffer(b"good"), &key)
                .unsignaled()
                .read(a.empty(8), &key)
                .write(a.buffer(b"late"), &key)
                .unsignaled()
                .post()
                .unwrap();
            let mut done = Vec::new();
            wait_until("three completions", || {
                a.cq.poll(&mut done, 8).unwrap();
                done.len() == 3
            });
            let seen: Vec<_> = done.iter().map(|c| (c.op(), c.status())).collect();
            let expected = [
                (CompletionOp::Write, Status::Success),
                (CompletionOp::Read, Status::RemoteAccess),
                (CompletionOp::Write, Status::WorkRequestFlushed),
            ];
            assert_eq!(seen, expected);
            assert!(done[1].error().unwrap().to_string().contains("refused"));
            assert!(done[2].error().unwrap().reason().is_some());
        })
    })
}

#[test]
fn a_channel_wakes_for_the_queue_that_was_armed() {
    in_own_network(|| {
        two_sides(|a, b| {
            let channel = b.device.completion_channel().unwrap();
            let cq = b.device.completion_queue_on(&channel).unwrap();
            let right = b.domain.rc(&cq).build().unwrap();
            right.recv(b.empty(16)).post().unwrap();
            right.recv(b.empty(16)).post().unwrap();
            let (left, _right) = join(a.rc().build().unwrap(), right);

            left.send_inline(b"unnoticed").wait(PATIENCE).unwrap();
            assert_eq!(channel.wait(Duration::from_millis(10)).unwrap(), None);
            let mut done = Vec::new();
            wait_until("the message", || cq.poll(&mut done, 1).unwrap() == 1);

            cq.arm().unwrap();
            assert_eq!(cq.poll(&mut done, 1).unwrap(), 0);
            left.send_inline(b"noticed").wait(PATIENCE).unwrap();
            assert_eq!(channel.wait(PATIENCE).unwrap(), Some(cq.id()));
            assert_eq!(cq.poll(&mut done, 1).unwrap(), 1);
            let fd = channel.as_fd();
            let mut fds = [rustix::event::PollFd::new(&fd, rustix::event::PollFlags::IN)];
            let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
            assert_eq!(rustix::event::poll(&mut fds, Some(&now)).unwrap(), 0);
        })
    })
}

#[test]
fn a_solicited_message_is_noticed_and_another_is_not() {
    in_own_network(|| {
        two_sides(|a, b| {
            let channel = b.device.completion_channel().unwrap();
            let cq = b.device.completion_queue_on(&channel).unwrap();
            let right = b.domain.rc(&cq).build().unwrap();
            right.recv(b.empty(16)).post().unwrap();
            right.recv(b.empty(16)).post().unwrap();
            let (left, _right) = join(a.rc().build().unwrap(), right);
            cq.arm_solicited().unwrap();
            left.send_inline(b"quiet").wait(PATIENCE).unwrap();
            if !has(b.device.capabilities().solicited_events, "events for solicited messages only") {
                return assert_eq!(channel.wait(PATIENCE).unwrap(), Some(cq.id()));
            }
            assert_eq!(channel.wait(Duration::from_millis(10)).unwrap(), None);
            left.send_inline(b"loud").solicited().wait(PATIENCE).unwrap();
            assert_eq!(channel.wait(PATIENCE).unwrap(), Some(cq.id()));
        })
    })
}

#[test]
fn one_queue_waits_for_many_queue_pairs() {
    in_own_network(|| {
        two_sides(|a, b| {
            assert!(b.cq.wait(Duration::from_millis(5)).unwrap().is_none());
            let pairs: Vec<_> = (0..40).map(|_| rc_pair(&a, &b)).collect();
            assert!(b.cq.capacity() >= 40 * 256, "it grows with its queue pairs");
            let mut tickets: Vec<_> = pairs.iter().map(|(_, right)| right.recv(b.empty(8)).post().unwrap()).collect();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for (left, _) in &pairs {
                        std::thread::sleep(Duration::from_micros(300));
                        left.send_inline(b"x").wait(PATIENCE).unwrap();
                    }
                });
                while !tickets.is_empty() {
                    let done = b.cq.wait(PATIENCE).unwrap().expect("a message");
                    let at = tickets.iter().position(|ticket| *ticket == done.ticket());
                    tickets.swap_remove(at.expect("one of ours, once"));
                }
            });
        })
    })
}

#[test]
fn futures_and_polling_share_a_queue() {
    in_own_network(|| {
        two_sides(|a, b| {
            let (left, right) = rc_pair(&a, &b);
            let ticket = right.recv(b.empty(8)).post().unwrap();
            let message = right.recv(b.empty(8)).start();
            left.send_inline(b"polled").wait(PATIENCE).unwrap();
            left.send_inline(b"awaited").wait(PATIENCE).unwrap();
            assert_eq!(&message.wait(PATIENCE).unwrap()[..], b"awaited");
            let done = b.cq.wait(PATIENCE).unwrap().expect("the polled one");
            assert_eq!((done.ticket(), done.is_ok()), (ticket, true));
            assert_eq!(&done.into_message().unwrap()[..], b"polled");
        })
    })
}

/// The naps of this process on a busy machine, during `work` in a thread that rests.
fn naps_during(side: &TestSide, work: impl FnOnce()) -> u64 {
    device::testing::rest_this_thread(PATIENCE);
    let naps = || side.device.counters().get("naps");
    let before = naps();
    work();
    naps() - before
}

#[test]
fn a_request_that_is_done_is_waited_for_without_a_nap() {
    in_own_network(|| {
        two_sides(|a, b| {
            let (left, _right) = rc_pair(&a, &b);
            let region = b.domain.expose(64, ALL).unwrap();
            let word = region.key().at(0, 8).unwrap();
            let reads: Vec<_> = (0..8).map(|_| left.read(a.empty(8), &word).start()).collect();
            std::thread::sleep(Duration::from_millis(50));
            // The first wait takes all completions in.
            let mut reads = reads.into_iter();
            let first = reads.next().unwrap();
            first.wait(PATIENCE).unwrap();
            let naps = naps_during(&a, || reads.for_each(|read| drop(read.wait(PATIENCE).unwrap())));
            assert_eq!(naps, 0);
        })
    })
}
