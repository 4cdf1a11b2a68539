//! READs of objects at one moment, while the owner changes them.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use transport::{CompletionOp, QpType, SendOp, Status};

use super::rig::*;

const LOCK: u64 = 1 << 63;
const LEN: usize = 2048;

/// The owner's program: locks, changes every word, and unlocks with the next version.
fn change(b: &Node, version: u64) {
    b.write(0, &(LOCK | version).to_ne_bytes());
    for at in (8..LEN).step_by(8) {
        b.write(at, &version.to_ne_bytes());
    }
    b.write(0, &version.to_ne_bytes());
}

#[test]
pub(super) fn an_object_that_its_owner_changes_is_never_torn() {
    on_loopback(|group| {
        let (a, b) = pair(group, Setup::new(QpType::Rc));
        let (stop, mut whole, mut newest) = (AtomicBool::new(false), 0, 0);
        change(&b, 1);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut version = 1;
                while !stop.load(Relaxed) {
                    version += 1;
                    change(&b, version);
                    // Time for readers, also where there is one processor.
                    std::thread::yield_now();
                }
            });
            for wr_id in 0..3000 {
                a.send(wr_id, SendOp::ObjectRead(b.remote(0), LOCK), 0, LEN);
                let done = a.sent();
                assert_eq!((done.wr_id, done.op, done.status), (wr_id, CompletionOp::ObjectRead, Status::Success));
                let bytes = a.read(0, LEN);
                let words: Vec<u64> = bytes.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
                if done.byte_len as usize == LEN {
                    assert!(words.iter().all(|word| *word == words[0]), "torn: {:x} {:x}", words[0], words[LEN / 16]);
                    assert!(words[0] >= newest, "older than before");
                    (newest, whole) = (words[0], whole + 1);
                } else {
                    assert_eq!(done.byte_len, 8);
                }
            }
            stop.store(true, Relaxed);
        });
        change(&b, 1 << 40);
        a.send(9999, SendOp::ObjectRead(b.remote(0), LOCK), 0, LEN);
        assert_eq!((a.sent().byte_len as usize, whole > 0), (LEN, true));
    });
}

#[test]
pub(super) fn a_locked_object_is_its_first_word() {
    on_loopback(|group| {
        let (a, b) = pair(group, Setup::new(QpType::Rc));
        b.write(0, &(LOCK | 5).to_ne_bytes());
        a.send(1, SendOp::ObjectRead(b.remote(0), LOCK), 0, LEN);
        assert_eq!((a.sent().byte_len, a.read(0, 8)), (8, (LOCK | 5).to_ne_bytes().to_vec()));
        a.send(2, SendOp::ObjectRead(b.remote(4), LOCK), 0, LEN);
        assert_eq!(next(&a.send_cq).status, Status::RemoteInvalidRequest);
    });
}
