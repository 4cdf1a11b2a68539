//! Tests of the gate. They are not in gate.rs because the model check compiles that file too.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Release};

use crate::gate::Gate;

#[test]
fn a_gate_gives_its_value_only_while_open() {
    let gate = Gate::closed(0);
    assert!(gate.pin().is_none());
    gate.open(5);
    assert_eq!(gate.pin().map(|pin| *pin), Some(5));
    gate.close();
    assert!(gate.pin().is_none());
    gate.close();
    gate.open(6);
    let (one, two) = (gate.pin(), gate.pin());
    assert_eq!((one.map(|p| *p), two.map(|p| *p)), (Some(6), Some(6)));
}

#[test]
#[should_panic(expected = "opened once")]
fn an_open_gate_cannot_be_opened() {
    let gate = Gate::closed(0);
    gate.open(1);
    gate.open(2);
}

#[test]
fn close_waits_for_the_last_pin() {
    let gate = Gate::closed(0);
    gate.open(7);
    let closed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let pin = gate.pin().expect("open");
        scope.spawn(|| {
            gate.close();
            closed.store(true, Release);
        });
        while gate.pin().is_some() {
            std::thread::yield_now();
        }
        assert!(!closed.load(Acquire));
        assert_eq!(*pin, 7);
    });
    assert!(closed.load(Acquire));
}

#[test]
fn a_pinned_value_is_seen_until_the_last_pin_is_gone() {
    let gate = Gate::closed(0);
    assert!(gate.pinned().is_none());
    gate.open(5);
    assert!(gate.pinned().is_none());
    let pin = gate.pin();
    assert_eq!(gate.pinned().map(|value| *value), Some(5));
    std::thread::scope(|scope| {
        scope.spawn(|| gate.close());
        while gate.pin().is_some() {
            std::thread::yield_now();
        }
        assert_eq!(gate.pinned().map(|value| *value), Some(5), "closing");
        drop(pin);
    });
    assert!(gate.pinned().is_none());
}
