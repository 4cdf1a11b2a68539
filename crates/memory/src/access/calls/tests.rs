//! Handlers: who may call, what they see, panics, the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use transport::Memory;

use super::*;
use crate::handlers::RemoteCall;
use crate::testing::{BASE, Fixture};

const CALLS: Access = Access::REMOTE_CALL;

fn call(fixture: &Fixture, rkey: RKey, addr: u64, request: &[u8]) -> Result<Vec<u8>, RemoteCallError> {
    let mut reply = ReplyBytes::new(16);
    fixture.registry.remote_call(fixture.who(1), rkey, addr, request, &mut reply)?;
    Ok(reply.as_slice().to_vec())
}

#[test]
fn a_handler_sees_request_place_and_queue_pair() {
    let fixture = Fixture::new();
    let (_region, keys) = fixture.region(64, CALLS);
    let handler = |call: &RemoteCall<'_>, reply: &mut ReplyBytes| {
        let _ = reply.append(call.request) && reply.append(&[call.offset as u8, call.qpn.get() as u8]);
    };
    fixture.registry.serve_calls(&keys, Box::new(handler)).unwrap();
    assert_eq!(fixture.registry.serve_calls(&keys, Box::new(handler)), Err(MrError::Busy));
    let qpn = fixture.who(1).qpn.get() as u8;
    assert_eq!(call(&fixture, keys.rkey, BASE + 8, b"abc"), Ok(vec![b'a', b'b', b'c', 8, qpn]));
    assert_eq!(call(&fixture, keys.rkey, BASE + 63, b""), Ok(vec![63, qpn]));
}

#[test]
fn key_right_range_and_handler_are_needed() {
    let fixture = Fixture::new();
    let (_served, keys) = fixture.region(64, CALLS);
    let (_plain, plain) = fixture.region(64, Access::REMOTE_READ);
    let refused = |error| Err(RemoteCallError::Refused(error));
    assert_eq!(call(&fixture, keys.rkey, BASE, b""), refused(MemoryError::NoPermission), "nobody serves");
    for keys in [&keys, &plain] {
        fixture.registry.serve_calls(keys, Box::new(|_, _| ())).unwrap();
    }
    assert_eq!(call(&fixture, keys.rkey, BASE, b""), Ok(vec![]));
    assert_eq!(call(&fixture, plain.rkey, BASE, b""), refused(MemoryError::NoPermission));
    assert_eq!(call(&fixture, keys.rkey, BASE + 64, b""), refused(MemoryError::OutOfBounds));
    assert_eq!(call(&fixture, keys.rkey, BASE - 1, b""), refused(MemoryError::OutOfBounds));
    assert_eq!(call(&fixture, RKey(keys.rkey.0 ^ 1), BASE, b""), refused(MemoryError::BadKey));
    fixture.registry.stop_calls(&keys);
    fixture.registry.stop_calls(&keys);
    assert_eq!(call(&fixture, keys.rkey, BASE, b""), refused(MemoryError::NoPermission));
}

#[test]
fn a_panic_stays_inside() {
    let fixture = Fixture::new();
    let (_region, keys) = fixture.region(64, CALLS);
    let handler = |call: &RemoteCall<'_>, _: &mut ReplyBytes| assert!(call.request.is_empty(), "a test of panics");
    fixture.registry.serve_calls(&keys, Box::new(handler)).unwrap();
    assert_eq!(call(&fixture, keys.rkey, BASE, b"x"), Err(RemoteCallError::Panicked));
    assert_eq!(call(&fixture, keys.rkey, BASE, b""), Ok(vec![]), "the next one is carried out");
}

#[test]
fn the_end_waits_for_calls_under_way() {
    let fixture = Fixture::new();
    let (_region, keys) = fixture.region(64, CALLS);
    let running = Arc::new(AtomicU64::new(0));
    let seen = running.clone();
    let handler = move |_: &RemoteCall<'_>, _: &mut ReplyBytes| {
        seen.store(1, Ordering::SeqCst);
        std::thread::sleep(core::time::Duration::from_millis(20));
        seen.store(2, Ordering::SeqCst);
    };
    fixture.registry.serve_calls(&keys, Box::new(handler)).unwrap();
    std::thread::scope(|scope| {
        let calling = scope.spawn(|| call(&fixture, keys.rkey, BASE, b""));
        while running.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        fixture.registry.stop_calls(&keys);
        assert_eq!(running.load(Ordering::SeqCst), 2);
        assert_eq!(calling.join().unwrap(), Ok(vec![]));
    });
}
