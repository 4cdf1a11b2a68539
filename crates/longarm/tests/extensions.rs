//! Requests that only Longarm's own devices have: docs/extensions.md.

mod common;

use common::*;
use longarm::{Access, CompletionOp, ObjectRead, PostError, RemoteKey, Status, WorkError};
use testkit::PATIENCE;

const LOCK: u64 = 1 << 63;

/// The system's devices refuse; Longarm's own go on.
fn has_objects(side: &TestSide, key: &RemoteKey) -> bool {
    let there = side.device.capabilities().object_read;
    if !there {
        let (left, _right) = rc_pair(side, side);
        refused(left.read_object(side.empty(64), key, LOCK).wait(PATIENCE), "an extension of Longarm's");
    }
    has(there, "READ of an object")
}

#[test]
fn an_object_is_whole_or_busy() {
    in_own_network(|| {
        two_sides(|a, b| {
            let table = b.domain.expose(64, Access::REMOTE_READ).unwrap();
            if !has_objects(&a, &table.key()) {
                return;
            }
            let (left, _right) = rc_pair(&a, &b);
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
            if !has_objects(&a, &table.key()) {
                return;
            }
            let (left, _right) = rc_pair(&a, &b);
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
            if !has_objects(&a, &table.key()) {
                return;
            }
            let (left, _right) = rc_pair(&a, &b);
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
