//! A poller's view of a write: the last byte arrives last, and no word is torn.

mod common;

use std::sync::Barrier;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64};
use std::thread;
use std::time::{Duration, Instant};

use common::{StopOnDrop, region, sge, who};
use longarm_memory::{MrKeys, Region, Registry};
use transport::{AtomicOp, Memory, PdId};

/// A byte of a region, for its owner to poll.
fn byte(region: &Region, at: usize) -> &AtomicU8 {
    assert!((at as u64) < region.len_bytes());
    // SAFETY: inside the region, which the returned reference keeps borrowed.
    unsafe { AtomicU8::from_ptr(region.ptr().add(at)) }
}

struct Place {
    registry: Registry,
    pd: PdId,
    memory: std::sync::Arc<Region>,
    keys: MrKeys,
}

impl Place {
    fn new() -> Place {
        let registry = Registry::new(21);
        let pd = registry.alloc_pd();
        let (memory, keys) = region(&registry, pd, (LAP * SLOT) as u64);
        Place { registry, pd, memory, keys }
    }

    /// Writes like a peer, or like the receiving side with a list of one or two entries.
    fn write(&self, door: usize, at: usize, data: &[u8]) {
        let (addr, len) = (at as u64, data.len() as u32);
        let written = match door % 3 {
            0 => self.registry.remote_write(who(self.pd), self.keys.rkey, addr, data),
            1 => {
                let list = [sge(self.keys.lkey, addr, len)];
                self.registry.scatter(self.pd, &list, 0, data)
            }
            _ => {
                let first = len / 2;
                let list =
                    [sge(self.keys.lkey, addr, first), sge(self.keys.lkey, addr + u64::from(first), len - first)];
                self.registry.scatter(self.pd, &list, 0, data)
            }
        };
        assert_eq!(written, Ok(()));
    }
}

/// Messages between two clearings of the memory.
const LAP: usize = 64;
const LAPS: usize = 300;
/// Bytes for one message.
const SLOT: usize = 32 << 10;

/// Address, length and byte value of a message: all kinds, the same for both sides.
fn shape(lap: usize, slot: usize) -> (usize, usize, u8) {
    let number = lap * LAP + slot;
    let longest = [100, 2_000, 32_000][number % 3];
    let at = slot * SLOT + number * 7 % 64;
    (at, 1 + number * 7919 % longest, (number % 255) as u8 + 1)
}

/// Waits for the last byte of each message of a lap, then checks the others. Returns the number of messages
/// with a late byte.
fn poll(memory: &Region, lap: usize) -> usize {
    let mut late = 0;
    let mut seen = vec![0; SLOT];
    for slot in 0..LAP {
        let (at, len, mark) = shape(lap, slot);
        let mut spins = 0u32;
        while byte(memory, at + len - 1).load(Acquire) != mark {
            std::hint::spin_loop();
            spins += 1;
            if spins.is_multiple_of(1000) {
                thread::yield_now();
            }
        }
        let seen = &mut seen[..len];
        memory.span().part(at, len).expect("inside").read(seen);
        late += usize::from(seen.iter().any(|byte| *byte != mark));
    }
    late
}

#[test]
fn all_bytes_are_visible_with_the_last_one() {
    let place = Place::new();
    let lap_begins = Barrier::new(2);
    let poll_lap = |lap| {
        lap_begins.wait();
        let late = poll(&place.memory, lap);
        lap_begins.wait();
        late
    };
    let late = thread::scope(|scope| {
        let poller = scope.spawn(|| (0..LAPS).map(poll_lap).sum::<usize>());
        for lap in 0..LAPS {
            place.memory.span().write(&vec![0; LAP * SLOT]);
            lap_begins.wait();
            for slot in 0..LAP {
                let (at, len, mark) = shape(lap, slot);
                let message = vec![mark; len];
                // Leaves the poller time to wait for this message.
                (0..500).for_each(|_| std::hint::spin_loop());
                place.write(slot, at, &message);
            }
            lap_begins.wait();
        }
        poller.join().expect("no panic")
    });
    assert_eq!(late, 0, "messages whose last byte came before another");
}

/// The longest time for which a word is watched.
const ENOUGH: Duration = Duration::from_secs(1);

/// A writer and a reader of one word, both through the registry. The writer alternates between two values;
/// the reader must see one of them.
fn assert_untorn<const N: usize>(at: usize) {
    let place = Place::new();
    let stop = AtomicBool::new(false);
    let values = [[0x11; N], [0xee; N]];
    place.write(0, at, &values[0]);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                values.iter().for_each(|value| place.write(0, at, value));
            }
        });
        let _stop = StopOnDrop(&stop);
        let (mut changes, start) = (0, Instant::now());
        let mut before = values[0];
        // A machine with one processor shows few changes.
        while changes < 50 || (changes < 100_000 && start.elapsed() < ENOUGH) {
            let mut out = [0; N];
            let rkey = place.keys.rkey;
            let read = place.registry.remote_read(who(place.pd), rkey, at as u64, &mut out);
            assert_eq!(read, Ok(()));
            assert!(values.contains(&out), "torn: {out:x?}");
            changes += u32::from(out != before);
            before = out;
        }
    });
}

#[test]
fn aligned_words_do_not_tear() {
    assert_untorn::<8>(64);
    assert_untorn::<8>(4096 - 8);
    assert_untorn::<4>(60);
    assert_untorn::<4>(64);
    assert_untorn::<2>(62);
}

#[test]
fn atomics_count_together_with_the_processors_own() {
    const EACH: u64 = 50_000;
    let place = Place::new();
    // SAFETY: an aligned word of the region, which outlives the test's threads.
    let word = unsafe { AtomicU64::from_ptr(place.memory.ptr().add(512).cast()) };
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..EACH {
                    let add = AtomicOp::FetchAdd { add: 1 };
                    let before = place.registry.remote_atomic(who(place.pd), place.keys.rkey, 512, add);
                    assert!(before.is_ok());
                }
            });
        }
        for _ in 0..EACH {
            word.fetch_add(1, Relaxed);
        }
    });
    assert_eq!(word.load(Relaxed), 3 * EACH);
}

#[test]
fn a_lock_by_compare_and_swap_excludes() {
    const EACH: u64 = 1_000;
    let place = Place::new();
    let swap = |compare, swap| {
        let op = AtomicOp::CompareSwap { compare, swap };
        place.registry.remote_atomic(who(place.pd), place.keys.rkey, 0, op).expect("a word")
    };
    let (registry, rkey, who) = (&place.registry, place.keys.rkey, who(place.pd));
    thread::scope(|scope| {
        for owner in 1..=3u64 {
            scope.spawn(move || {
                for _ in 0..EACH {
                    while swap(0, owner) != 0 {
                        thread::yield_now();
                    }
                    // Not atomic: correct only if no other thread holds the lock.
                    let mut count = [0; 8];
                    registry.remote_read(who, rkey, 8, &mut count).expect("inside");
                    let next = (u64::from_le_bytes(count) + 1).to_le_bytes();
                    registry.remote_write(who, rkey, 8, &next).expect("inside");
                    assert_eq!(swap(owner, 0), owner);
                }
            });
        }
    });
    let mut count = [0; 8];
    registry.remote_read(who, rkey, 8, &mut count).expect("inside");
    assert_eq!(u64::from_le_bytes(count), 3 * EACH);
}
