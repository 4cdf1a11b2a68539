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
