//! The link of a process to itself.

use std::sync::atomic::AtomicBool;

use super::*;
use crate::Export;
use crate::testing::{bell, plain_keys, rung};

fn own() -> (Export, OwnedFd, Link) {
    let export = Export::new(&plain_keys()).expect("an export");
    let bell = bell();
    let link = Link::to_itself(&export, bell.try_clone().expect("a descriptor")).expect("a link");
    (export, bell, link)
}

#[test]
fn it_is_up_at_once_and_has_no_socket() {
    let (_export, _bell, link) = own();
    assert_eq!((link.standing(), link.side(), link.side().other()), (Standing::Up, LinkSide::Both, LinkSide::Both));
    assert!(link.wait_confirmed(Duration::ZERO) && link.socket().is_none() && !link.peer_is_gone());
    assert_eq!(link.serve_socket(), crate::Served::default());
    assert!(link.object(1).is_none() && !link.peer().reaches_far());
}

#[test]
fn sent_frames_come_back_in_order() {
    let (_export, _bell, link) = own();
    for lane in 0..LANES {
        // More frames than the ring holds.
        for number in 0..10_000u32 {
            let mut producer = link.producer(lane);
            let mut room = producer.reserve(4).expect("room");
            room.write(0, &number.to_ne_bytes());
            room.commit();
            drop(producer);
            assert_eq!(link.waiting(), 1 << lane);
            let mut consumer = link.consumer(lane).expect("nobody else takes");
            let frame = consumer.peek().expect("a frame");
            let mut bytes = [0; 4];
            assert!(frame.copy_out(0, &mut bytes));
            assert_eq!(u32::from_ne_bytes(bytes), number);
            frame.release();
        }
    }
    assert_eq!(link.waiting(), 0);
}

#[test]
fn a_process_that_sleeps_is_woken_by_itself() {
    let (export, bell, link) = own();
    let send = || {
        let mut producer = link.producer(0);
        producer.reserve(1).expect("room").commit();
    };
    send();
    assert_eq!(rung(&bell), 0);
    assert!(export.fall_asleep(false));
    send();
    assert_eq!(rung(&bell), 1);
    export.wake_up();
    send();
    assert_eq!(rung(&bell), 0);
}

#[test]
fn an_access_of_our_own_is_waited_for_and_never_given_up() {
    let (_export, _bell, link) = own();
    let left = AtomicBool::new(false);
    let hazard = link.enter(3).expect("a word");
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            // The limit would have passed immediately.
            link.wait_for_accesses(Duration::ZERO);
            left.load(Relaxed)
        });
        std::thread::sleep(Duration::from_millis(50));
        left.store(true, Relaxed);
        drop(hazard);
        assert!(waiter.join().expect("it waits"), "it has waited for the access");
    });
    assert_eq!(link.death(), None);
}
