//! Model: on a small ring every frame arrives once, whole and in order.

use core::sync::atomic::Ordering::Relaxed;

use crate::cells::{Cells, RingReceiver, RingSender, cells_of};
use crate::check;
use crate::sync::AtomicU64;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

const COUNT: usize = 4;

struct Ring {
    headers: [AtomicU64; COUNT],
    bodies: [UnsafeCell<u32>; COUNT],
    head: AtomicU64,
}

// SAFETY: the model fails if accesses to the bodies are not ordered.
unsafe impl Sync for Ring {}
// SAFETY: the fields are Send themselves, and the model fails if accesses to the bodies are not ordered.
unsafe impl Send for Ring {}

impl Cells for Ring {
    const COUNT: u64 = COUNT as u64;
    const MAX_BODY: usize = 120;

    fn header(&self, index: usize) -> &AtomicU64 {
        &self.headers[index]
    }

    fn head(&self) -> &AtomicU64 {
        &self.head
    }
}

impl Ring {
    fn new() -> Arc<Ring> {
        let headers = core::array::from_fn(|_| AtomicU64::new(0));
        let bodies = core::array::from_fn(|_| UnsafeCell::new(0));
        Arc::new(Ring { headers, bodies, head: AtomicU64::new(0) })
    }

    /// Sends a frame as soon as there is room.
    fn send(&self, sender: &mut RingSender, number: u32, len: usize) {
        let index = loop {
            match sender.reserve(self, len).expect("the ring is intact") {
                Some(index) => break index,
                None => thread::yield_now(),
            }
        };
        for cell in index..index + cells_of(len) as usize {
            if cell > index {
                // Body bytes that look like a header of this lap or the next.
                self.headers[cell].store((cell as u64 + 1 + 4) << 32 | 9, Relaxed);
            }
            // SAFETY: the model fails if the consumer still reads the body.
            self.bodies[cell].with_mut(|body| unsafe { *body = number });
        }
        sender.commit(self, len);
    }

    /// Takes a frame, if there is one; returns its number and length.
    fn take(&self, receiver: &mut RingReceiver) -> Option<(u32, usize)> {
        let found = receiver.peek(self).expect("the ring is intact")?;
        let cells = found.index..found.index + cells_of(found.body_bytes) as usize;
        // SAFETY: the model fails if the producer writes the body meanwhile.
        let numbers: Vec<u32> = cells.map(|cell| self.bodies[cell].with(|body| unsafe { *body })).collect();
        assert!(numbers.iter().all(|number| *number == numbers[0]), "a frame is whole");
        receiver.release(self, found);
        Some((numbers[0], found.body_bytes))
    }
}

fn run(preemptions: usize, lengths: &'static [usize]) {
    run_when(preemptions, lengths, |_, _| true);
}

/// Sends each frame when `may` lets the producer proceed.
fn run_when(preemptions: usize, lengths: &'static [usize], may: fn(&mut RingSender, &Ring) -> bool) {
    check(preemptions, move || {
        let ring = Ring::new();
        let producer = {
            let ring = ring.clone();
            thread::spawn(move || {
                let mut sender = RingSender::default();
                for (number, len) in lengths.iter().enumerate() {
                    while !may(&mut sender, &ring) {
                        thread::yield_now();
                    }
                    ring.send(&mut sender, number as u32, *len);
                }
            })
        };
        let mut receiver = RingReceiver::default();
        for (number, len) in lengths.iter().enumerate() {
            let frame = loop {
                match ring.take(&mut receiver) {
                    Some(frame) => break frame,
                    None => thread::yield_now(),
                }
            };
            assert_eq!(frame, (number as u32, *len));
        }
        assert_eq!(ring.take(&mut receiver), None);
        producer.join().expect("no panic");
    });
}

#[test]
fn single_cells_more_than_a_lap() {
    run(2, &[8, 0, 56, 8, 8, 8]);
}

#[test]
fn frames_of_two_cells_that_skip_the_end_of_the_lap() {
    run(2, &[8, 100, 100, 8, 120]);
}

/// A consumer that finds no frame, or has taken a quarter of the ring, publishes its position.
#[test]
fn a_producer_that_waits_for_much_room_proceeds() {
    run_when(2, &[8, 100, 8, 8, 56], |sender, ring| sender.has_much_room(ring).expect("the ring is intact"));
}

#[test]
fn a_producer_that_stops_anywhere_leaves_whole_frames() {
    check(3, || {
        let ring = Ring::new();
        let producer = {
            let ring = ring.clone();
            thread::spawn(move || {
                let mut sender = RingSender::default();
                ring.send(&mut sender, 0, 8);
                ring.send(&mut sender, 1, 100);
            })
        };
        let mut receiver = RingReceiver::default();
        // A dead producer would leave the frames that were committed until now.
        let seen: Vec<_> = std::iter::from_fn(|| ring.take(&mut receiver)).collect();
        assert!([&[][..], &[(0, 8)], &[(0, 8), (1, 100)]].contains(&seen.as_slice()));
        producer.join().expect("no panic");
    });
}
