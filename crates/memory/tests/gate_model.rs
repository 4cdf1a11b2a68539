//! Model check of the gate: every interleaving of small cases, with the reorderings that the memory model
//! allows. The gate is the library's own file, compiled here against loom's atomics.

mod sync {
    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::sync::atomic::AtomicU32;

    /// Tells the model that another thread must run first.
    pub(crate) fn pause(_round: u32) {
        loom::thread::yield_now();
    }
}

#[path = "../src/gate.rs"]
#[allow(unreachable_pub, reason = "public in the library")]
mod gate;

use core::sync::atomic::Ordering::Relaxed;
use gate::Gate;
use loom::sync::Arc;
use loom::thread;
use sync::UnsafeCell;

/// A gate before memory that the model watches: concurrent or unordered reads and writes of it fail.
struct Guarded {
    gate: Gate<u32>,
    memory: UnsafeCell<u32>,
}

// SAFETY: the model checks that accesses to the memory are ordered.
unsafe impl Sync for Guarded {}
// SAFETY: the model checks that accesses to the memory are ordered.
unsafe impl Send for Guarded {}

impl Guarded {
    fn closed() -> Arc<Guarded> {
        Arc::new(Guarded { gate: Gate::closed(0), memory: UnsafeCell::new(0) })
    }

    fn open(value: u32) -> Arc<Guarded> {
        let guarded = Guarded::closed();
        guarded.own(value);
        guarded.gate.open(value);
        guarded
    }

    /// The owner's write to memory that no other thread can reach.
    fn own(&self, value: u32) {
        // SAFETY: the model fails if another thread accesses the memory.
        self.memory.with_mut(|memory| unsafe { *memory = value });
    }

    /// An access; the value of the gate and the memory must agree.
    fn access(&self) -> Option<u32> {
        let pin = self.gate.pin()?;
        // SAFETY: the model fails if another thread writes meanwhile.
        let seen = self.memory.with(|memory| unsafe { *memory });
        assert_eq!(seen, *pin);
        Some(seen)
    }
}

/// Runs `body` under the model. With more threads `preemptions` bounds the number of interleavings to
/// thousands.
fn check(preemptions: Option<usize>, body: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = preemptions;
    model.check(body);
}

#[test]
fn nobody_is_inside_after_close() {
    check(None, || {
        let guarded = Guarded::open(1);
        let reader = {
            let guarded = guarded.clone();
            thread::spawn(move || guarded.access())
        };
        guarded.gate.close();
        guarded.own(9);
        assert!(matches!(reader.join().expect("no panic"), None | Some(1)));
    });
}

#[test]
fn two_readers_and_a_closer() {
    check(Some(3), || {
        let guarded = Guarded::open(1);
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let guarded = guarded.clone();
                thread::spawn(move || guarded.access())
            })
            .collect();
        guarded.gate.close();
        guarded.own(9);
        for reader in readers {
            assert!(matches!(reader.join().expect("no panic"), None | Some(1)));
        }
    });
}

#[test]
fn an_opened_value_is_seen_whole() {
    check(None, || {
        let guarded = Guarded::closed();
        let reader = {
            let guarded = guarded.clone();
            thread::spawn(move || guarded.access())
        };
        guarded.own(2);
        guarded.gate.open(2);
        assert!(matches!(reader.join().expect("no panic"), None | Some(2)));
        assert_eq!(guarded.access(), Some(2));
    });
}

#[test]
fn a_reader_meets_the_old_value_or_the_new_but_no_mixture() {
    check(Some(3), || {
        let guarded = Guarded::open(1);
        let reader = {
            let guarded = guarded.clone();
            thread::spawn(move || [guarded.access(), guarded.access()])
        };
        guarded.gate.close();
        guarded.own(2);
        guarded.gate.open(2);
        let [first, second] = reader.join().expect("no panic");
        assert!(matches!(first, None | Some(1 | 2)));
        assert!(first != Some(2) || second == Some(2));
    });
}

#[test]
fn closing_again_waits_again() {
    check(None, || {
        let guarded = Guarded::open(1);
        let reader = {
            let guarded = guarded.clone();
            thread::spawn(move || (guarded.access(), guarded.gate.pin().is_some()))
        };
        guarded.gate.close();
        guarded.gate.close();
        guarded.own(9);
        assert!(guarded.access().is_none());
        reader.join().expect("no panic");
    });
}

#[test]
fn opening_is_ordered_after_the_old_pins() {
    check(Some(3), || {
        let guarded = Guarded::open(1);
        let told = Arc::new(sync::AtomicU32::new(0));
        let reader = {
            let guarded = guarded.clone();
            thread::spawn(move || guarded.gate.pin().map(|pin| *pin))
        };
        let closer = {
            let (guarded, told) = (guarded.clone(), told.clone());
            thread::spawn(move || {
                guarded.gate.close();
                told.store(1, Relaxed);
            })
        };
        if told.load(Relaxed) == 1 {
            guarded.gate.open(2);
        }
        closer.join().expect("no panic");
        let seen = reader.join().expect("no panic");
        assert!(matches!(seen, None | Some(1 | 2)));
    });
}

#[test]
fn pinned_sees_whole_values() {
    check(Some(3), || {
        let guarded = Guarded::open(1);
        let reader = {
            let guarded = guarded.clone();
            thread::spawn(move || guarded.access())
        };
        let observer = {
            let guarded = guarded.clone();
            thread::spawn(move || guarded.gate.pinned().map(|value| *value))
        };
        guarded.gate.close();
        guarded.own(2);
        guarded.gate.open(2);
        assert!(matches!(reader.join().expect("no panic"), None | Some(1 | 2)));
        assert!(matches!(observer.join().expect("no panic"), None | Some(1 | 2)));
    });
}
