//! A process that is killed at any instruction leaves whole frames, in order, and no waiter behind.

use std::time::{Duration, Instant};

use crate::couple::{Couple, take};
use longarm_shm::{Death, Link, MAX_FRAME_BYTES};
use testkit::PATIENCE;

/// Sends frames, takes frames and holds a hazard, until it is killed.
pub(crate) fn stream() {
    let couple = Couple::inherit();
    std::mem::forget(couple.link.enter(3));
    let mut number = 0u32;
    loop {
        let _access = couple.link.enter(number as u16);
        number += u32::from(send(&couple.link, number));
        while take(&couple.link).is_some() {}
    }
}

/// The frame for a number: the number, and bytes derived from it; mostly short.
fn frame(number: u32) -> Vec<u8> {
    let mixed = number.wrapping_mul(0x9e37_79b9);
    let len = match mixed >> 28 {
        0 => mixed as usize % (MAX_FRAME_BYTES - 3),
        1..4 => mixed as usize % 300,
        _ => mixed as usize % 53,
    };
    let body = (0..len).map(|i| (number as usize + i * 31) as u8);
    number.to_ne_bytes().into_iter().chain(body).collect()
}

fn send(link: &Link, number: u32) -> bool {
    let bytes = frame(number);
    let mut producer = link.producer(0);
    let Some(mut room) = producer.reserve(bytes.len()) else { return false };
    // In two parts, so that a kill may come between them.
    let (first, second) = bytes.split_at(bytes.len() / 2);
    room.write(0, first);
    room.write(first.len(), second);
    room.commit();
    true
}

/// Lets a child run for a while, kills it, and checks its frames. Returns the number of frames.
fn kill_once(patience: Duration) -> u32 {
    let mut couple = Couple::start("stream");
    let (mut seen, mut sent) = (0, 0);
    let begin = Instant::now();
    while begin.elapsed() < patience || seen == 0 {
        assert!(begin.elapsed() < PATIENCE, "the child sends nothing");
        while let Some(bytes) = take(&couple.link) {
            assert!(bytes == frame(seen), "frame {seen} is not whole or not in order");
            seen += 1;
        }
        sent += u32::from(send(&couple.link, sent));
    }
    couple.kill();
    couple.link.wait_for_peer_accesses();
    // The frames that it had sent are still there, and no others.
    while let Some(bytes) = take(&couple.link) {
        assert!(bytes == frame(seen), "frame {seen} is not whole or not in order");
        seen += 1;
    }
    couple.link.serve_socket();
    assert_eq!(couple.link.death(), Some(Death::Gone));
    seen
}

#[test]
fn a_process_killed_anywhere_leaves_whole_frames_in_order() {
    let wanted = std::env::var("LONGARM_TEST_KILLS").ok().and_then(|number| number.parse().ok());
    let kills: u64 = wanted.unwrap_or(300);
    let mut frames = 0u64;
    for kill in 0..kills {
        // Spread over the first milliseconds, in no order.
        frames += u64::from(kill_once(Duration::from_micros(kill.wrapping_mul(0x9e37_79b9) % 8000)));
    }
    assert!(frames >= kills);
}
