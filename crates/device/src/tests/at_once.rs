//! READs at once, while the owner changes an object.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use transport::QpType;

use super::rig::*;
use crate::testing::EnginePath;

const LOCK: u64 = 1 << 63;
const LEN: usize = 1024;

/// The owner's program: locks, changes every word, and unlocks with the next version.
fn change(b: &Node, version: u64) {
    b.write(0, &(LOCK | version).to_ne_bytes());
    for at in (8..LEN).step_by(8) {
        b.write(at, &version.to_ne_bytes());
    }
    b.write(0, &version.to_ne_bytes());
}

#[test]
fn an_object_is_read_at_once_and_never_torn() {
    for path in [EnginePath::OneHost, EnginePath::OneProcess] {
        by(path, || on_loopback(|group| read_while_it_changes(&pair(group, Setup::new(QpType::Rc)))));
    }
}

fn read_while_it_changes((a, b): &(Node, Node)) {
    let (stop, mut whole, mut newest) = (AtomicBool::new(false), 0, 0);
    change(b, 1);
    // The first request waits until each end knows the other.
    a.send(1, transport::SendOp::Read(b.remote(0)), 0, 8);
    a.sent();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut version = 1;
            while !stop.load(Relaxed) {
                version += 1;
                change(b, version);
                std::thread::yield_now();
            }
        });
        for _ in 0..3000 {
            let mut bytes = [0; LEN];
            let taken = a.qp.read_at_once(&mut bytes, b.remote(0), Some(LOCK)).expect("the memory is mapped");
            let words: Vec<u64> = bytes.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
            match taken as usize {
                LEN => {
                    assert!(words.iter().all(|word| *word == words[0]), "torn: {:x} {:x}", words[0], words[LEN / 16]);
                    assert!(words[0] >= newest, "older than before");
                    (newest, whole) = (words[0], whole + 1);
                }
                other => assert_eq!(other, 8, "busy"),
            }
        }
        stop.store(true, Relaxed);
    });
    assert!(whole > 0);
    let mut bytes = [0; LEN];
    assert_eq!(a.qp.read_at_once(&mut bytes, b.remote(0), None), Some(LEN as u32));
    assert_eq!(a.qp.read_at_once(&mut bytes, b.remote(4), Some(LOCK)), None, "it is not aligned");
}
