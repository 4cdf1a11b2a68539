//! Model: no access is in progress after the wait.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use crate::sync::{AtomicU32, AtomicU64, fence, pause};
use crate::{check, hazard, record};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

struct Memory {
    words: [AtomicU64; 2],
    open: AtomicU32,
    memory: UnsafeCell<u32>,
}

// SAFETY: the model fails if accesses to the memory are not ordered.
unsafe impl Sync for Memory {}
// SAFETY: the fields are Send themselves, and the model fails if accesses to the memory are not ordered.
unsafe impl Send for Memory {}

impl Memory {
    fn open() -> Arc<Memory> {
        let words = [(); 2].map(|()| AtomicU64::new(0));
        Arc::new(Memory { words, open: AtomicU32::new(1), memory: UnsafeCell::new(1) })
    }

    /// An access of a peer.
    fn access(&self) {
        let (word, taken) = self.enter();
        if self.open.load(Acquire) == 1 {
            // SAFETY: the model fails if the owner writes meanwhile.
            assert_eq!(self.memory.with(|memory| unsafe { *memory }), 1);
        }
        hazard::leave(word, taken);
    }

    /// Two words suffice for two peers: if one is taken, the other is free.
    fn enter(&self) -> (&AtomicU64, u64) {
        let entered = self.words.iter().find_map(|word| Some((word, hazard::enter(word)?)));
        entered.expect("one of two words is free")
    }

    /// The owner takes the memory away from peers, then writes it.
    fn take(&self) {
        self.open.store(0, Relaxed);
        fence(SeqCst);
        let drained = hazard::drain(self.words.iter(), || {
            pause(0);
            true
        });
        assert!(drained);
        // SAFETY: the model fails if an access is still in progress.
        self.memory.with_mut(|memory| unsafe { *memory = 9 });
    }

    /// The owner opens the memory to peers again.
    fn give(&self) {
        // SAFETY: the model fails if an access is in progress.
        self.memory.with_mut(|memory| unsafe { *memory = 1 });
        self.open.store(1, Release);
    }
}

fn run(preemptions: usize, accesses: &'static [usize]) {
    check(preemptions, move || {
        let memory = Memory::open();
        let peers: Vec<_> = accesses
            .iter()
            .map(|count| {
                let memory = memory.clone();
                thread::spawn(move || (0..*count).for_each(|_| memory.access()))
            })
            .collect();
        memory.take();
        peers.into_iter().for_each(|peer| peer.join().expect("no panic"));
        let taken: usize = accesses.iter().sum();
        let left: u64 = memory.words.iter().map(|word| word.load(Relaxed)).sum();
        assert_eq!(left, 2 * taken as u64, "each access has taken a word and left it");
    });
}

#[test]
fn one_peer_that_comes_twice() {
    run(4, &[2]);
}

#[test]
fn two_peers_whose_accesses_overlap() {
    run(2, &[2, 1]);
}

/// The memory is closed, opened and closed again.
#[test]
fn accesses_that_begin_between_two_waits_are_waited_for() {
    check(2, || {
        let memory = Memory::open();
        let peers: Vec<_> = (0..2)
            .map(|_| {
                let memory = memory.clone();
                thread::spawn(move || memory.access())
            })
            .collect();
        memory.take();
        memory.give();
        memory.take();
        peers.into_iter().for_each(|peer| peer.join().expect("no panic"));
    });
}

/// A key that a peer has used before, and uses again for as long as its record has not changed.
struct Remembered {
    memory: Arc<Memory>,
    sequence: AtomicU32,
}

// SAFETY: the model fails if accesses to the memory are not ordered.
unsafe impl Sync for Remembered {}
// SAFETY: the fields are Send themselves, and the model fails if accesses to the memory are not ordered.
unsafe impl Send for Remembered {}

impl Remembered {
    fn access(&self, number: u32) -> bool {
        let (word, taken) = self.memory.enter();
        let is_open = record::is_still(&self.sequence, number);
        if is_open {
            // SAFETY: the model fails if the owner writes meanwhile.
            assert_eq!(self.memory.memory.with(|memory| unsafe { *memory }), 1);
        }
        hazard::leave(word, taken);
        is_open
    }
}

#[test]
fn a_key_that_is_remembered_is_closed_as_well() {
    check(4, || {
        let (sequence, memory) = (AtomicU32::new(0), Memory::open());
        record::write(&sequence, || {});
        let number = record::read(&sequence, || ()).expect("a record").1;
        let key = Arc::new(Remembered { memory, sequence });
        let peer = {
            let key = key.clone();
            thread::spawn(move || (0..2).for_each(|_| _ = key.access(number)))
        };
        record::write(&key.sequence, || {});
        key.memory.take();
        peer.join().expect("no panic");
        assert!(!key.access(number));
    });
}
