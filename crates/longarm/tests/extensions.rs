//! Requests that only Longarm's own devices have: docs/extensions.md.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use common::*;
use longarm::{Access, CompletionOp, Device, ObjectRead, PostError, QueuePair, RemoteKey, Status, WorkError};
use testkit::PATIENCE;

const LOCK: u64 = 1 << 63;

/// The system's devices refuse; Longarm's own go on.
fn has_objects(side: &TestSide, left: &QueuePair, key: &RemoteKey) -> bool {
    let there = side.device.capabilities().object_read;
    if !there {
        refused(left.read_object(side.empty(64), key, LOCK).wait(PATIENCE), "an extension of Longarm's");
    }
    has(there, "READ of an object")
}

#[test]
fn an_object_is_whole_or_busy() {
    in_own_network(|| {
        two_sides(|a, b| {
            let table = b.domain.expose(64, Access::REMOTE_READ).unwrap();
            let (left, _right) = rc_pair(&a, &b);
            if !has_objects(&a, &left, &table.key()) {
                return;
            }
            table.copy_in(8, &pattern(56)).unwrap();
            table.store(0, 7).unwrap();
            let read = left.read_object(a.empty(100), &table.key(), LOCK).wait(PATIENCE).unwrap();
            assert_eq!(left.peer_extends(), Some(true));
            let object = read.whole().expect("nobody writes it");
            assert_eq!((&object[..8], &object[8..]), (&7u64.to_ne_bytes()[..], &pattern(56)[..]));

            table.store(0, LOCK | 8).unwrap();
            let ObjectRead::Busy(word) = left.read_object(object, &table.key(), LOCK).wait(PATIENCE).unwrap() else {
                panic!("it is locked")
            };
            assert_eq!(&word[..], (LOCK | 8).to_ne_bytes());
            let unlocked = left.read_object(word, &table.key(), 1).wait(PATIENCE).unwrap();
            assert_eq!(unlocked.into_buffers().len(), 64);
        })
    })
}

#[test]
fn objects_in_poll_mode_and_batches() {
    in_own_network(|| {
        two_sides(|a, b| {
            let table = b.domain.expose(64, Access::REMOTE_READ).unwrap();
            let (left, _right) = rc_pair(&a, &b);
            if !has_objects(&a, &left, &table.key()) {
                return;
            }
            table.store(32, LOCK).unwrap();
            let half = |number: u64| table.key().at(32 * number, 32).unwrap();
            let batch = left.batch().read_object(a.empty(32), &half(0), LOCK);
            let tickets = batch.read_object(a.empty(32), &half(1), LOCK).post().unwrap();
            let done = tickets.into_iter().map(|ticket| left.wait(ticket, PATIENCE).unwrap());
            let done: Vec<_> = done.map(|c| (c.op(), c.is_whole_object(), c.buffer().map(|b| b.len()))).collect();
            assert_eq!(done, [(CompletionOp::ObjectRead, true, Some(32)), (CompletionOp::ObjectRead, false, Some(8))]);
        })
    })
}

#[test]
fn wrong_objects_are_refused() {
    in_own_network(|| {
        two_sides(|a, b| {
            let table = b.domain.expose(1 << 16, Access::REMOTE_READ).unwrap();
            let (left, _right) = rc_pair(&a, &b);
            if !has_objects(&a, &left, &table.key()) {
                return;
            }
            for len in [8, (16 << 10) + 8] {
                let key = table.key().at(0, len).unwrap();
                refused(left.read_object(a.empty(len as usize), &key, LOCK).wait(PATIENCE), "16 to 16384 bytes");
            }
            let short =
                left.read_object(a.empty(16), &table.key().at(0, 32).unwrap(), LOCK).wait(PATIENCE).unwrap_err();
            assert!(matches!(short.error(), WorkError::NotPosted(PostError::BufferTooShort { .. })), "{short}");
            let skewed = left.read_object(a.empty(16), &table.key().at(4, 16).unwrap(), LOCK).wait(PATIENCE);
            assert_eq!(skewed.unwrap_err().status(), Some(Status::RemoteInvalidRequest));
            let hidden = b.domain.expose(64, Access::REMOTE_WRITE).unwrap();
            let (left, _right) = rc_pair(&a, &b);
            let refused = left.read_object(a.empty(64), &hidden.key(), LOCK).wait(PATIENCE).unwrap_err();
            assert_eq!(refused.status(), Some(Status::RemoteAccess));
        })
    })
}

/// The system's devices refuse the right; Longarm's own go on.
fn has_calls(side: &TestSide) -> bool {
    let there = side.device.capabilities().calls;
    if !there {
        let refused = side.domain.expose(64, Access::REMOTE_CALL).unwrap_err();
        assert!(refused.to_string().contains("only Longarm's own device carries out calls"), "{refused}");
    }
    has(there, CALLS)
}

#[test]
fn the_device_carries_out_calls_while_the_program_sleeps() {
    in_own_network(|| {
        two_sides(|a, b| {
            if !has_calls(&a) {
                return;
            }
            let (left, _right) = rc_pair(&a, &b);
            let table = b.domain.expose(64, Access::REMOTE_CALL).unwrap();
            let served = table.serve_calls(|call, reply| {
                let before = call.memory().fetch_add(call.offset(), call.request().len() as u64).unwrap();
                assert!(reply.append(&before.to_be_bytes()) && reply.append(call.request()));
            });
            let served = served.unwrap();
            let mut buffer = a.empty(100);
            for round in 0..50u64 {
                buffer = left.call(b"four", buffer, &table.key().word(16).unwrap()).wait(PATIENCE).unwrap();
                assert_eq!((&buffer[..8], &buffer[8..]), (&(4 * round).to_be_bytes()[..], &b"four"[..]));
            }
            assert_eq!((table.load(16).unwrap(), left.peer_extends()), (200, Some(true)));

            let batch = left.batch().call(b"", a.empty(8), &table.key()).call(b"abc", a.empty(64), &table.key());
            let tickets = batch.post().unwrap();
            let replies = tickets.into_iter().map(|ticket| left.wait(ticket, PATIENCE).unwrap());
            let bytes: Vec<_> =
                replies.map(|done| (done.reply_bytes(), done.into_buffer().unwrap().to_vec())).collect();
            let expected = [&[0; 8][..], &[0, 0, 0, 0, 0, 0, 0, 0, b'a', b'b', b'c']];
            assert_eq!(bytes, expected.map(|bytes| (Some(bytes.len() as u32), bytes.to_vec())));

            drop(served);
            let refused = left.call(b"", buffer, &table.key()).wait(PATIENCE).unwrap_err();
            assert_eq!(refused.status(), Some(Status::RemoteAccess), "nobody serves any more");
            assert!(table.into_memory::<Vec<u8>>().is_err(), "but the region was the library's");
        })
    })
}

#[test]
fn calls_need_key_and_right_and_may_panic() {
    in_own_network(|| {
        two_sides(|a, b| {
            if !has_calls(&a) {
                return;
            }
            let executed = Arc::new(AtomicU64::new(0));
            let count = Arc::clone(&executed);
            let table = b.domain.expose(64, Access::REMOTE_CALL).unwrap();
            let served = table.serve_calls(move |call, _| {
                count.fetch_add(1, Ordering::SeqCst);
                assert!(call.request() != b"panic", "a test of panics");
            });
            let _served = served.unwrap();
            assert!(table.serve_calls(|_, _| ()).is_err(), "it has a handler");
            let other = b.domain.expose(64, ALL).unwrap();
            let _other = other.serve_calls(|_, _| ()).unwrap();
            for (key, request, status) in [
                (table.key(), &b"panic"[..], Status::RemoteOperation),
                (other.key(), b"", Status::RemoteAccess),
                (RemoteKey::from_parts(table.key().addr() + 64, table.key().rkey(), 8), b"", Status::RemoteAccess),
            ] {
                let (left, right) = rc_pair(&a, &b);
                let failed = left.call(request, a.empty(8), &key).wait(PATIENCE).unwrap_err();
                assert_eq!(failed.status(), Some(status), "{failed}");
                assert!(right.failure().is_some());
            }
            let (left, _right) = rc_pair(&a, &b);
            refused(left.call(&[0; 5000], a.empty(8), &table.key()).wait(PATIENCE), "a message has at most");
            let done = left.call(b"", a.empty(64), &table.key()).wait(PATIENCE).unwrap();
            assert_eq!((done.len(), executed.load(Ordering::SeqCst)), (0, 2));
        })
    })
}

/// A window is a right to call that its owner takes back from one reader alone.
#[test]
fn a_window_leads_to_the_handler_of_its_region() {
    in_own_network(|| {
        two_sides(|a, b| {
            if !has_calls(&a) {
                return;
            }
            let (left, right) = rc_pair(&a, &b);
            let table = b.domain.expose(64, Access::empty()).unwrap();
            let _served = table.serve_calls(|call, reply| assert!(reply.append(&call.offset().to_be_bytes()))).unwrap();
            let window = table.window(32..64, Access::REMOTE_CALL).unwrap();
            let window = right.bind(window).wait(PATIENCE).unwrap();
            let reply = left.call(b"", a.empty(8), &window.key().at(8, 8).unwrap()).wait(PATIENCE).unwrap();
            assert_eq!(&reply[..], 40u64.to_be_bytes());
            let _window = right.unbind(window).wait(PATIENCE).unwrap();
            assert!(left.call(b"", reply, &table.key()).wait(PATIENCE).is_err());
        })
    })
}

/// Packets are lost, doubled and late; each call is executed once.
#[test]
fn calls_are_executed_once_whatever_happens_to_packets() {
    in_own_network(|| {
        two_sides(|a, b| {
            if !has_calls(&a) {
                return;
            }
            let (left, _right) = rc_pair(&a, &b);
            let table = b.domain.expose(16 << 10, Access::REMOTE_CALL).unwrap();
            let served = table.serve_calls(|call, reply| {
                let before = call.memory().fetch_add(0, 1).unwrap();
                let zeros = reply.append_zeros(reply.room_bytes()).unwrap();
                zeros.fill(before as u8);
            });
            let _served = served.unwrap();
            for (seed, device) in [&a.device, &b.device].into_iter().enumerate() {
                let plan = format!("seed={seed},loss=0.03,dup=0.02,reorder=0.02");
                device.set_faults(Some(plan.parse().unwrap())).unwrap();
            }
            let mut buffer = a.empty(9000);
            for round in 0..200u64 {
                buffer = left.call(b"next", buffer, &table.key()).wait(PATIENCE).unwrap();
                assert!(buffer.len() == 9000 && buffer.iter().all(|byte| *byte == round as u8), "round {round}");
            }
            assert_eq!(table.load(0).unwrap(), 200);
        })
    })
}

/// READs that are no request, between queue pairs of one host.
#[test]
fn reads_at_once_bring_bytes_and_objects() {
    // The next test asks these devices, too.
    if !has(!on_system(), AT_ONCE) {
        return;
    }
    with_hub("reads_at_once_bring_bytes_and_objects", || {
        let side = TestSide::new(Device::open().unwrap());
        let (left, _right) = rc_pair(&side, &side);
        let table = side.domain.expose(128, ALL).unwrap();
        table.copy_in(0, &pattern(128)).unwrap();
        let (mut bytes, half) = ([0; 64], table.key().at(64, 64).unwrap());
        assert!(left.read_now(&mut bytes, &half));
        assert_eq!(bytes, pattern(128)[64..]);
        let word = u64::from_ne_bytes(pattern(72)[64..].try_into().unwrap());
        assert_eq!(left.read_object_now(&mut bytes, &half, !word), Some(ObjectRead::Whole(())));
        assert_eq!(left.read_object_now(&mut bytes, &half, word), Some(ObjectRead::Busy(())), "all its bits are locks");

        let hidden = side.domain.expose(64, Access::REMOTE_WRITE).unwrap();
        assert!(!left.read_now(&mut bytes, &hidden.key()));
        assert_eq!(left.read_object_now(&mut bytes[..16], &table.key().at(4, 16).unwrap(), 1), None);
        let window = table.key();
        drop(table);
        assert!(!left.read_now(&mut bytes, &window.at(0, 64).unwrap()), "the key was revoked");
        assert!(left.read(side.empty(64), &hidden.key()).wait(PATIENCE).is_err(), "the request says why not");
    });
}

/// Devices that use packets read nothing at once: requests do it.
#[test]
fn reads_at_once_are_not_for_packets() {
    in_own_network(|| {
        two_sides(|a, b| {
            let (left, _right) = rc_pair(&a, &b);
            let table = b.domain.expose(64, ALL).unwrap();
            table.copy_in(0, &pattern(64)).unwrap();
            let mut bytes = [0; 64];
            assert!(!left.read_now(&mut bytes, &table.key()));
            assert_eq!(left.read_object_now(&mut bytes, &table.key(), 1), None);
            assert_eq!(left.read(a.empty(64), &table.key()).wait(PATIENCE).unwrap()[..], pattern(64));
        })
    })
}
