use crate::testing::{Couple, rung};
use crate::{LANES, MAX_FRAME_BYTES};

#[test]
fn frames_arrive_in_order_whole_and_on_their_lane() {
    let couple = Couple::new();
    let [a, b] = &couple.links;
    assert_eq!(b.waiting(), 0);
    let lengths = [0, 1, 55, 56, 57, 64, 120, 121, 4096, MAX_FRAME_BYTES];
    for round in 0..400usize {
        let lane = round % LANES;
        let len = lengths[round % lengths.len()];
        let sent: Vec<u8> = (0..len).map(|i| (i * 7 + round) as u8).collect();
        {
            let mut producer = a.producer(lane);
            let mut room = producer.reserve(len).expect("room");
            assert_eq!(room.len_bytes(), len);
            room.write(0, &sent);
            room.commit();
        }
        assert_eq!(b.waiting(), 1 << lane);
        let mut consumer = b.consumer(lane).expect("nobody else");
        let frame = consumer.peek().expect("a frame");
        assert_eq!(frame.len_bytes(), len);
        let mut got = vec![0; len];
        assert!(frame.copy_out(0, &mut got));
        assert_eq!(got, sent);
        assert!(!frame.copy_out(1, &mut got) || len == 0);
        frame.release();
        assert!(consumer.peek().is_none());
        assert_eq!(b.waiting(), 0);
    }
}

#[test]
fn a_full_ring_takes_no_more_until_frames_are_released() {
    let couple = Couple::new();
    let [a, b] = &couple.links;
    let mut sent = 0u64;
    let mut producer = a.producer(0);
    while let Some(mut room) = producer.reserve(8) {
        room.write(0, &sent.to_ne_bytes());
        room.commit();
        sent += 1;
    }
    assert_eq!(sent, 2047);
    let mut consumer = b.consumer(0).expect("nobody else");
    for number in 0..sent {
        let frame = consumer.peek().expect("a frame");
        let mut got = [0; 8];
        assert!(frame.copy_out(0, &mut got));
        assert_eq!(u64::from_ne_bytes(got), number);
        frame.release();
    }
    assert!(consumer.peek().is_none());
    assert!(producer.reserve(8).is_some());
}

#[test]
fn only_commit_sends_and_only_release_removes() {
    let couple = Couple::new();
    let [a, b] = &couple.links;
    let mut producer = a.producer(3);
    assert!(producer.reserve(100).is_some());
    assert!(b.consumer(3).expect("free").peek().is_none());
    let mut room = producer.reserve(4).expect("room");
    room.write(0, b"once");
    room.commit();
    let mut consumer = b.consumer(3).expect("free");
    assert!(b.consumer(3).is_none());
    for _ in 0..2 {
        assert_eq!(consumer.peek().expect("a frame").len_bytes(), 4);
    }
    let frame = consumer.peek().expect("a frame");
    assert!(frame.span(1, 3).is_some() && frame.span(2, 3).is_none());
    frame.release();
    assert!(consumer.peek().is_none());
    assert!(producer.reserve(MAX_FRAME_BYTES + 1).is_none());
}

#[test]
fn a_sleeper_is_woken_once_per_nap_and_after_the_batch() {
    let couple = Couple::new();
    let [a, b] = &couple.links;
    let send = |count: usize| {
        let mut producer = a.producer(1);
        for _ in 0..count {
            producer.reserve(8).expect("room").commit();
        }
        assert_eq!(rung(&couple.bells[1]), 0);
    };
    send(2);
    assert_eq!(rung(&couple.bells[1]), 0);
    for often in [false, true, true, false, true] {
        couple.exports[1].fall_asleep(often);
        couple.exports[1].fall_asleep(often);
        assert!(a.peer().is_asleep() && !b.peer().is_asleep());
        send(3);
        assert_eq!(rung(&couple.bells[1]), 1);
        send(1);
        assert_eq!(rung(&couple.bells[1]), 0);
        couple.exports[1].wake_up();
        send(1);
        assert_eq!(rung(&couple.bells[1]), 0);
    }
}

#[test]
fn a_watcher_of_its_memory_is_woken_once_per_announcement() {
    let couple = Couple::new();
    let peer = couple.links[0].peer();
    let rings = || {
        (0..2).for_each(|_| peer.announce_change());
        rung(&couple.bells[1])
    };
    assert_eq!(rings(), 0);
    for _ in 0..3 {
        assert!(couple.exports[1].watch_memory());
        assert_eq!(rings(), 1);
        assert_eq!(rings(), 0);
    }
    couple.exports[1].unwatch_memory();
    assert_eq!(rings(), 0);
    assert!(!peer.is_asleep(), "frames do not wake it");
}
