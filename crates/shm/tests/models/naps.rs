//! Model: a sleeper misses no frame.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::sync::AtomicU32;
use crate::{check, sleep, sync};
use loom::sync::Arc;
use loom::thread;

#[derive(Default)]
struct World {
    frames: [AtomicU32; 2],
    asleep: AtomicU32,
    ended: AtomicU32,
    bell: AtomicU32,
}

impl World {
    fn send(&self, frame: usize) {
        self.frames[frame].store(1, Release);
        if sleep::must_wake(&self.asleep, &self.ended, false) {
            self.bell.fetch_add(1, Relaxed);
        }
    }

    /// Goes to sleep; returns the number of frames that its last poll saw.
    fn nap(&self, often: bool) -> u32 {
        assert!(sleep::fall_asleep(&self.asleep, often, false));
        self.frames.iter().map(|frame| frame.load(Acquire)).sum()
    }
}

#[test]
fn frames_that_the_sleeper_does_not_see_ring_the_bell() {
    check(4, || {
        let world = Arc::new(World::default());
        let senders: Vec<_> = (0..2)
            .map(|frame| {
                let world = world.clone();
                thread::spawn(move || world.send(frame))
            })
            .collect();
        let seen = world.nap(false);
        senders.into_iter().for_each(|sender| sender.join().expect("no panic"));
        let rung = world.bell.load(Relaxed);
        assert!(seen == 2 || rung == 1, "{seen} seen, the bell rung {rung} times");
    });
}

#[test]
fn a_second_nap_is_ended_too() {
    check(4, || {
        let world = Arc::new(World::default());
        let sender = {
            let world = world.clone();
            thread::spawn(move || (0..2).for_each(|frame| world.send(frame)))
        };
        world.nap(false);
        let first = world.bell.swap(0, Relaxed);
        sleep::wake_up(&world.asleep);
        let seen = world.nap(false);
        sender.join().expect("no panic");
        let second = world.bell.load(Relaxed);
        assert!(seen == 2 || second > 0, "{seen} seen, the bell rung {first} and {second} times");
    });
}

/// After the first nap of a sleeper that sleeps often there is no barrier any more: the senders fence.
#[test]
fn senders_fence_for_a_frequent_sleeper() {
    check(4, || {
        let world = Arc::new(World::default());
        world.nap(true);
        sleep::wake_up(&world.asleep);
        sync::without_barriers(|| {
            let sender = {
                let world = world.clone();
                thread::spawn(move || (0..2).for_each(|frame| world.send(frame)))
            };
            let seen = world.nap(true);
            sender.join().expect("no panic");
            let rung = world.bell.load(Relaxed);
            assert!(seen == 2 || rung == 1, "{seen} seen, the bell rung {rung} times");
        });
    });
}

/// The program looks into its memory between the announcement and the nap. The owner does not tell when naps end.
#[test]
fn a_change_that_the_program_does_not_see_rings_the_bell() {
    check(4, || {
        let world = Arc::new(World::default());
        let writer = {
            let world = world.clone();
            thread::spawn(move || (0..2).for_each(|change| world.send(change)))
        };
        let announce_and_look = || {
            assert!(sleep::fall_asleep_again(&world.asleep, false));
            world.frames.iter().map(|change| change.load(Acquire)).sum::<u32>()
        };
        announce_and_look();
        let first = world.bell.swap(0, Relaxed);
        let seen = announce_and_look();
        writer.join().expect("no panic");
        let second = world.bell.load(Relaxed);
        assert!(seen == 2 || second > 0, "{seen} seen, the bell rung {first} and {second} times");
    });
}
