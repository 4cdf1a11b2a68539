//! The promise: a buffer that was lent comes back with its completion, or when the queue pair
//! is gone, and memory in flight outlives its lender.

mod common;

use std::time::Duration;

use common::*;
use longarm::{Retry, Status, WaitError, WorkError};
use testkit::{PATIENCE, wait_until};

#[test]
fn dropping_a_receive_leaves_its_buffer_with_the_device() {
    in_own_network(|| {
        two_sides(|a, b| {
            let (left, right) = rc_pair(&a, &b);
            drop(right.recv(b.empty(64)).start());
            let second = right.recv(b.empty(64)).start();
            left.send(a.buffer(b"first")).wait(PATIENCE).unwrap();
            left.send(a.buffer(b"second")).wait(PATIENCE).unwrap();
            assert_eq!(&second.wait(PATIENCE).unwrap()[..], b"second");
        })
    })
}

#[test]
fn dropping_a_send_does_not_take_it_back() {
    in_own_network(|| {
        two_sides(|a, b| {
            let (left, right) = rc_pair(&a, &b);
            let message = right.recv(b.empty(1 << 20)).start();
            let bytes = pattern(1 << 20);
            drop(left.send(a.buffer(&bytes)).start());
            // New memory of the same size, to be given the pages if they were free.
            let others: Vec<_> = (0..8).map(|_| a.buffer(&vec![0xff; 1 << 20])).collect();
            assert!(message.wait(PATIENCE).unwrap()[..] == bytes);
            drop(others);
        })
    })
}

#[test]
fn a_dropped_queue_pair_gives_back_what_it_had() {
    in_own_network(|| {
        two_sides(|a, b| {
            let (left, right) = rc_pair(&a, &b);
            let awaited = right.recv(b.buffer(b"mine")).start();
            let ticket = right.recv(b.empty(32)).post().unwrap();
            drop(right);
            let failure = awaited.wait(PATIENCE).unwrap_err();
            assert_eq!(failure.status(), Some(Status::WorkRequestFlushed));
            assert_eq!(failure.into_buffer().map(|b| b.to_vec()), Some(b"mine".to_vec()));
            let polled = b.cq.wait(PATIENCE).unwrap().expect("the other one");
            assert_eq!((polled.ticket(), polled.status()), (ticket, Status::WorkRequestFlushed));
            assert_eq!(polled.into_buffer().map(|b| b.capacity()), Some(32));
            drop(left);
        })
    })
}

#[test]
fn a_queue_pair_that_was_never_connected_gives_back_receives() {
    in_own_network(|| {
        two_sides(|a, _b| {
            let qp = a.rc().build().unwrap();
            let message = qp.recv(a.empty(16)).start();
            drop(qp);
            let failure = message.wait(PATIENCE).unwrap_err();
            assert_eq!(failure.into_buffer().map(|b| b.capacity()), Some(16));
        })
    })
}

#[test]
fn a_timeout_leaves_the_request_on_its_way() {
    in_own_network(|| {
        two_sides(|a, b| {
            let (left, right) = rc_pair(&a, &b);
            let mut message = right.recv(b.empty(64)).start();
            assert!(message.wait_for(Duration::from_millis(20)).is_none());
            left.send(a.buffer(b"late")).wait(PATIENCE).unwrap();
            let message = message.wait_for(PATIENCE).expect("in time").unwrap();
            assert_eq!(&message[..], b"late");

            let failure = right.recv(b.empty(64)).wait(Duration::from_millis(5)).unwrap_err();
            assert!(matches!(failure.error(), WorkError::TimedOut(_)));
            assert!(failure.into_buffer().is_none(), "the device has it");
        })
    })
}

#[test]
fn a_ticket_stays_good_after_a_timeout_and_is_good_once() {
    in_own_network(|| {
        two_sides(|a, b| {
            let (left, right) = rc_pair(&a, &b);
            let ticket = right.recv(b.empty(64)).post().unwrap();
            let early = right.wait(ticket, Duration::from_millis(5));
            assert!(matches!(early, Err(WaitError::TimedOut(_))));
            left.send(a.buffer(b"x")).wait(PATIENCE).unwrap();
            let message = right.wait(ticket, PATIENCE).unwrap().into_message().unwrap();
            assert_eq!(&message[..], b"x");
            assert!(matches!(right.wait(ticket, PATIENCE), Err(WaitError::UnknownTicket)));
            assert!(matches!(left.wait(ticket, PATIENCE), Err(WaitError::UnknownTicket)));
        })
    })
}

#[test]
fn a_ticket_that_timed_out_goes_back_to_poll_mode() {
    in_own_network(|| {
        two_sides(|a, b| {
            let (left, right) = rc_pair(&a, &b);
            let ticket = right.recv(b.empty(64)).post().unwrap();
            assert!(right.wait(ticket, Duration::from_millis(5)).is_err());
            left.send(a.buffer(b"x")).wait(PATIENCE).unwrap();
            let polled = b.cq.wait(PATIENCE).unwrap().expect("a completion");
            assert_eq!(polled.ticket(), ticket);
        })
    })
}

#[test]
fn waiting_can_overtake_poll_mode() {
    in_own_network(|| {
        two_sides(|a, b| {
            let (left, right) = rc_pair(&a, &b);
            let tickets: Vec<_> = (0..3).map(|_| right.recv(b.empty(8)).post().unwrap()).collect();
            for byte in 0..3 {
                left.send_inline(&[byte]).wait(PATIENCE).unwrap();
            }
            let last = right.wait(tickets[2], PATIENCE).unwrap();
            assert_eq!(last.buffer().map(|b| b[0]), Some(2));
            let mut rest = Vec::new();
            wait_until("the other two", || {
                b.cq.poll(&mut rest, 8).unwrap();
                rest.len() == 2
            });
            assert_eq!([rest[0].ticket(), rest[1].ticket()], tickets[..2]);
        })
    })
}

#[test]
fn the_queue_says_when_it_is_full_and_gives_the_buffer_back() {
    in_own_network(|| {
        two_sides(|a, b| {
            let qp = a.rc().recv_depth(2).build().unwrap();
            let (_left, right) = join(qp, b.rc().build().unwrap());
            drop(right);
            let qp = a.rc().recv_depth(2).build().unwrap();
            let _kept = [qp.recv(a.empty(8)).start(), qp.recv(a.empty(8)).start()];
            let failure = qp.recv(a.empty(8)).post().unwrap_err();
            assert!(failure.to_string().contains("holds 2"), "{failure}");
            assert!(failure.into_buffer().is_some());
        })
    })
}

#[test]
fn a_peer_that_is_gone_is_reported_in_bounded_time_with_the_reason() {
    in_own_network(|| {
        two_sides(|a, b| {
            if !has(!a.device.capabilities().by_address_only, "repetitions that the program limits") {
                return;
            }
            let retry = Retry { ack_timeout: Duration::from_millis(1), count: 3, ..Retry::default() };
            let (left, right) = join(a.rc().retry(retry).build().unwrap(), b.rc().build().unwrap());
            drop(right);
            let failure = left.send(a.buffer(b"anybody?")).wait(PATIENCE).unwrap_err();
            assert_eq!(failure.status(), Some(Status::RetryExceeded));
            let reason = if on_system() { "RetryExceeded" } else { "3 retries" };
            assert!(failure.to_string().contains(reason), "{failure}");
            assert_eq!(failure.into_buffer().map(|b| b.to_vec()), Some(b"anybody?".to_vec()));
        })
    })
}

#[test]
fn abort_flushes_and_says_so() {
    in_own_network(|| {
        two_sides(|a, b| {
            let (left, _right) = rc_pair(&a, &b);
            let message = left.recv(a.empty(8)).start();
            left.abort().unwrap();
            let failure = message.wait(PATIENCE).unwrap_err();
            assert!(failure.to_string().contains("the program moved it"), "{failure}");
        })
    })
}

#[test]
fn buffers_of_one_allocation_are_lent_one_by_one() {
    in_own_network(|| {
        two_sides(|a, b| {
            let (left, right) = rc_pair(&a, &b);
            let slots = b.domain.allocate_many(4, 16).unwrap();
            let messages: Vec<_> = slots.into_iter().map(|slot| right.recv(slot).start()).collect();
            let mut whole = a.buffer(b"0123456789abcdef");
            for _ in 0..4 {
                let tail = whole.split_off(8);
                whole = left.send(whole).wait(PATIENCE).unwrap().join(tail).unwrap();
            }
            assert_eq!(&whole[..], b"0123456789abcdef");
            for message in messages {
                assert_eq!(&message.wait(PATIENCE).unwrap()[..], b"01234567");
            }
        })
    })
}
