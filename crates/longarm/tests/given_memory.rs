//! Memory of the program: given for good, mapped from files, or lent for a scope.

mod common;

use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use common::{ALL, REASONS, TestSide, has, in_own_network, on_hardware, pattern, rc_pair, two_sides};
use longarm::{Access, KeyError, OwnedMemory, QueuePair, ReclaimError, RemoteKey, Status};
use testkit::TestDir;

const PATIENCE: Duration = Duration::from_secs(60);

fn on_two_sides(test: impl FnOnce(TestSide, TestSide) + Send) {
    in_own_network(|| two_sides(test));
}

fn read(qp: &QueuePair, key: &RemoteKey) -> Vec<u8> {
    let buffer = qp.protection_domain().allocate(key.len_bytes() as usize).unwrap();
    qp.read(buffer, key).wait(PATIENCE).unwrap().to_vec()
}

#[test]
fn vectors_boxes_and_bytes_are_sent_and_filled_without_a_copy() {
    on_two_sides(|a, b| {
        let (left, right) = rc_pair(&a, &b);
        let bytes = pattern(100_000);
        let at = bytes.as_ptr();
        let given = a.domain.register(bytes).unwrap();
        assert_eq!(given.as_ptr(), at, "the same memory");
        let room = b.domain.register(vec![0xff; 100_000].into_boxed_slice()).unwrap();
        let message = right.recv(room).start();
        let given = left.send(given).wait(PATIENCE).unwrap();
        assert!(message.wait(PATIENCE).unwrap()[..] == pattern(100_000));
        assert!(given[..] == pattern(100_000));

        let parts = a.domain.register(bytes::BytesMut::from(&pattern(64)[..])).unwrap().split_into(32);
        let message = right.recv(b.empty(64)).start();
        left.send(parts).wait(PATIENCE).unwrap();
        assert!(message.wait(PATIENCE).unwrap()[..] == pattern(64));
    });
}

#[test]
fn peers_reach_given_memory_within_its_rights_and_bounds() {
    on_two_sides(|a, b| {
        let (left, _right) = rc_pair(&a, &b);
        let region = b.domain.expose_memory(pattern(10_001), ALL).unwrap();
        assert_eq!(region.len_bytes(), 10_001);
        assert!(read(&left, &region.key()) == pattern(10_001));
        left.write_inline(b"changed", &region.key().at(9_990, 7).unwrap()).wait(PATIENCE).unwrap();
        let mut copy = [0; 7];
        region.copy_out(9_990, &mut copy).unwrap();
        assert_eq!(&copy, b"changed");

        if !has(!a.device.capabilities().by_address_only, REASONS) {
            return;
        }
        let read_only = b.domain.expose_memory(pattern(8), Access::REMOTE_READ).unwrap();
        let failure = left.write_inline(b"x", &read_only.key().at(0, 1).unwrap()).wait(PATIENCE).unwrap_err();
        assert_eq!(failure.error().status(), Some(Status::RemoteAccess));
    });
}

#[test]
fn words_of_given_memory_count_from_its_address() {
    on_two_sides(|_, b| {
        let whole: &'static mut [u8] = Box::leak(vec![0; 64].into_boxed_slice());
        let ahead = whole.as_ptr().align_offset(8) + 3;
        let region = b.domain.expose_memory(&mut whole[ahead..], Access::REMOTE_READ | Access::REMOTE_WRITE).unwrap();
        region.store(5, 7).unwrap();
        assert_eq!(region.load(5).unwrap(), 7);
        assert_eq!(region.fetch_add(5, 1).unwrap(), 7);
        assert!(matches!(region.load(0), Err(KeyError::Misaligned { offset: 0 })));
        assert!(matches!(region.load(8), Err(KeyError::Misaligned { offset: 8 })));
    });
}

#[test]
fn a_mapped_file_is_read_and_changed_by_peers() {
    let directory = TestDir::new("mapped-file");
    let path = directory.path().join("table");
    std::fs::write(&path, pattern(50_000)).unwrap();
    on_two_sides(|a, b| {
        let (left, _right) = rc_pair(&a, &b);
        let file = std::fs::File::options().read(true).write(true).open(&path).unwrap();
        #[allow(unsafe_code)]
        // SAFETY: the file is this test's, which changes it by this mapping only.
        let mapped = unsafe { memmap2::MmapMut::map_mut(&file).unwrap() };
        let region = b.domain.expose_memory(mapped, ALL).unwrap();
        assert!(read(&left, &region.key()) == pattern(50_000));
        left.write_inline(b"by a peer", &region.key().at(40_000, 9).unwrap()).wait(PATIENCE).unwrap();
        let mut in_file = [0; 9];
        file.read_exact_at(&mut in_file, 40_000).unwrap();
        assert_eq!(&in_file, b"by a peer");
    });
}

#[test]
fn a_mapped_file_that_is_cut_reads_as_zeros_beyond_its_end() {
    let directory = TestDir::new("cut-file");
    let path = directory.path().join("table");
    std::fs::write(&path, vec![7; 50_000]).unwrap();
    on_two_sides(|a, b| {
        let (left, _right) = rc_pair(&a, &b);
        let file = std::fs::File::options().read(true).write(true).open(&path).unwrap();
        #[allow(unsafe_code)]
        // SAFETY: the file is this test's. It cuts the file, which the mapping's user must bear.
        let mapped = unsafe { memmap2::MmapMut::map_mut(&file).unwrap() };
        let region = b.domain.expose_memory(mapped, ALL).unwrap();
        file.set_len(4096).unwrap();
        let seen = read(&left, &region.key());
        if has(!on_hardware(), "cut files that read as zeros") {
            assert!(seen[..4096].iter().all(|byte| *byte == 7) && seen[4096..].iter().all(|byte| *byte == 0));
        }
        assert_eq!(file.metadata().unwrap().len(), 4096);
    });
}

#[test]
fn borrowed_memory_is_the_callers_again_after_the_scope() {
    on_two_sides(|a, b| {
        let (left, _right) = rc_pair(&a, &b);
        let mut table = pattern(5_000);
        let key = b.domain.expose_scoped(&mut table, ALL, |region| {
            assert!(read(&left, &region.key()) == pattern(5_000));
            left.write_inline(b"new", &region.key().at(4_997, 3).unwrap()).wait(PATIENCE).unwrap();
            region.copy_in(0, b"own").unwrap();
            region.key()
        });
        assert_eq!((&table[..3], &table[4_997..]), (&b"own"[..], &b"new"[..]));
        let failure = left.read(a.empty(5_000), &key.unwrap()).wait(PATIENCE).unwrap_err();
        if has(!a.device.capabilities().by_address_only, REASONS) {
            assert_eq!(failure.error().status(), Some(Status::RemoteAccess), "the key died with the scope");
        }
    });
}

#[test]
fn a_panic_ends_the_scope_too() {
    on_two_sides(|a, b| {
        let (left, _right) = rc_pair(&a, &b);
        let (mut table, mut key) = (vec![0; 64], None);
        let scope = || {
            b.domain.expose_scoped(&mut table, ALL, |region| -> () {
                key = Some(region.key());
                panic!("on purpose");
            })
        };
        assert!(catch_unwind(AssertUnwindSafe(scope)).is_err());
        let failure = left.read(a.empty(64), &key.unwrap()).wait(PATIENCE).unwrap_err();
        if has(!a.device.capabilities().by_address_only, REASONS) {
            assert_eq!(failure.error().status(), Some(Status::RemoteAccess));
        }
    });
}

#[test]
fn no_bytes_are_refused() {
    on_two_sides(|a, _| {
        for refused in [
            a.domain.register(Vec::new()).map(drop).unwrap_err(),
            a.domain.expose_memory(Vec::new(), ALL).map(drop).unwrap_err(),
            a.domain.expose_scoped(&mut [], ALL, |_| ()).unwrap_err(),
        ] {
            assert!(refused.to_string().contains("no bytes"), "{refused}");
        }
    });
}

/// Memory that tells when it is freed.
struct Witness(Vec<u8>, Arc<AtomicBool>);

#[allow(unsafe_code)]
// SAFETY: as a vector.
unsafe impl OwnedMemory for Witness {
    fn as_mut_ptr(&mut self) -> *mut u8 {
        self.0.as_mut_ptr()
    }

    fn len_bytes(&self) -> usize {
        self.0.len()
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.1.store(true, SeqCst);
    }
}

#[test]
fn given_memory_comes_back_once_nobody_uses_it() {
    on_two_sides(|a, b| {
        let (left, right) = rc_pair(&a, &b);
        let given = vec![0; 64];
        let place = given.as_ptr();
        let mut buffer = b.domain.register(given).unwrap();
        let rest = buffer.split_off(32);
        let waiting = right.recv(rest).start();
        let buffer = match buffer.into_memory::<Vec<u8>>() {
            Err(ReclaimError::InUse(buffer)) => buffer,
            other => panic!("{other:?}: the device has a part"),
        };
        left.send(a.buffer(b"a message")).wait(PATIENCE).unwrap();
        drop(waiting.wait(PATIENCE).unwrap());
        let again: Vec<u8> = buffer.into_memory().unwrap();
        assert_eq!((again.as_ptr(), again.len(), &again[32..41]), (place, 64, &b"a message"[..]));

        let region = b.domain.expose_memory(again, ALL).unwrap();
        left.write(a.buffer(b"written"), &region.key().at(0, 7).unwrap()).wait(PATIENCE).unwrap();
        let slice = region.slice(0..8).unwrap();
        let region = region.into_memory::<Vec<u8>>().expect_err("a slice uses it").into_inner().unwrap();
        drop(slice);
        let region = region.into_memory::<Box<[u8]>>().expect_err("it was a vector").into_inner().unwrap();
        let key = region.key();
        let again: Vec<u8> = region.into_memory().unwrap();
        assert_eq!((again.as_ptr(), &again[..7]), (place, &b"written"[..]));
        let late = left.write(a.buffer(b"too late"), &key.at(0, 8).unwrap()).wait(PATIENCE);
        // On iWARP a WRITE completes when it is handed over. Only the peer finds out that the key is dead.
        assert!(late.is_err() || a.device.capabilities().by_address_only);
        drop((left, right));
        assert_eq!(&again[..7], b"written");
        assert!(b.domain.allocate(64).unwrap().into_memory::<Vec<u8>>().is_err(), "nobody gave it");
    });
}

#[test]
fn given_memory_is_freed_with_its_last_user_and_not_before() {
    on_two_sides(|a, b| {
        let (left, right) = rc_pair(&a, &b);
        let freed = Arc::new(AtomicBool::new(false));
        let given = || Witness(pattern(64), Arc::clone(&freed));
        let mut first = b.domain.register(given()).unwrap();
        let second = first.split_off(32);
        let waiting = right.recv(second).start();
        drop((first, waiting));
        assert!(!freed.load(SeqCst), "the device has a part");
        drop(right);
        testkit::wait_until("it is freed", || freed.load(SeqCst));

        freed.store(false, SeqCst);
        let region = b.domain.expose_memory(given(), ALL).unwrap();
        let slice = region.slice(0..8).unwrap();
        drop(region);
        assert!(!freed.load(SeqCst), "a slice keeps it");
        drop(slice);
        assert!(freed.load(SeqCst));
        drop(left);
    });
}
