//! No frame is missed by who goes to sleep.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::sync::AtomicU32;
use crate::{check, sleep};
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

    /// Goes to sleep; returns how many frames it saw in its last look.
    fn nap(&self) -> u32 {
        assert!(sleep::set_asleep(&self.asleep, true, false));
        self.frames.iter().map(|frame| frame.load(Acquire)).sum()
    }
}

#[test]
fn what_the_sleeper_does_not_see_rings_the_bell() {
    check(4, || {
        let world = Arc::new(World::default());
        let senders: Vec<_> = (0..2)
            .map(|frame| {
                let world = world.clone();
                thread::spawn(move || world.send(frame))
            })
            .collect();
        let seen = world.nap();
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
        world.nap();
        let first = world.bell.swap(0, Relaxed);
        assert!(sleep::set_asleep(&world.asleep, false, false));
        let seen = world.nap();
        sender.join().expect("no panic");
        let second = world.bell.load(Relaxed);
        assert!(seen == 2 || second > 0, "{seen} seen, the bell rung {first} and {second} times");
    });
}
