//! Regions and windows that end while threads use them: no access may touch the memory after the call that
//! ends them has returned.

mod common;

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;
use std::time::{Duration, Instant};

use common::{ALL, StopOnDrop, region, sge, who};
use longarm_memory::{MrKeys, MrSpec, MwType, Registry};
use transport::{Access, AtomicOp, BindMw, LKey, Memory, MemoryError, PdId};
use wire::RKey;

const PAGE: usize = 4096;

/// Pages that become inaccessible: a thread that still touches them dies of SIGSEGV.
struct Pages {
    start: *mut u8,
}

impl Pages {
    fn map() -> Pages {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), PAGE, rights, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        Pages { start: start.cast() }
    }

    /// Makes the page inaccessible, but keeps the address reserved.
    fn forbid(&self) {
        // SAFETY: this value's own page.
        let result = unsafe { libc::mprotect(self.start.cast(), PAGE, libc::PROT_NONE) };
        assert_eq!(result, 0);
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: this value's own page, which has no user any more.
        unsafe { libc::munmap(self.start.cast(), PAGE) };
    }
}

/// The present keys, as published to the threads.
#[derive(Default)]
struct Published {
    both: AtomicU64,
    stop: AtomicBool,
    /// Accesses that succeeded, and those with a dead key.
    done: AtomicU64,
    refused: AtomicU64,
    /// Accesses that were refused for another reason: there must be none.
    wrong: AtomicU64,
}

impl Published {
    fn put(&self, lkey: LKey, rkey: RKey) {
        let both = u64::from(lkey.0) << 32 | u64::from(rkey.0);
        self.both.store(both, Release);
    }

    fn get(&self) -> (LKey, RKey) {
        let both = self.both.load(Acquire);
        (LKey((both >> 32) as u32), RKey(both as u32))
    }

    fn count(&self, result: Result<(), MemoryError>) {
        match result {
            Ok(()) => self.done.fetch_add(1, Relaxed),
            Err(MemoryError::BadKey) => self.refused.fetch_add(1, Relaxed),
            Err(_) => self.wrong.fetch_add(1, Relaxed),
        };
    }

    /// Waits until the threads have succeeded `more` times again.
    fn wait_for(&self, more: u64) {
        let goal = self.done.load(Relaxed) + more;
        while self.done.load(Relaxed) < goal {
            thread::yield_now();
        }
    }
}

/// Uses every kind of access until told to stop.
fn hammer(registry: &Registry, pd: PdId, published: &Published) {
    let mut bytes = vec![0x5a; PAGE];
    while !published.stop.load(Relaxed) {
        let (lkey, rkey) = published.get();
        let list = [sge(lkey, 0, PAGE as u32)];
        published.count(registry.remote_write(who(pd), rkey, 0, &bytes));
        published.count(registry.remote_read(who(pd), rkey, 8, &mut bytes[..64]));
        published.count(registry.scatter(pd, &list, 0, &bytes));
        published.count(registry.gather(pd, &list, 100, &mut bytes[..200]));
        let add = AtomicOp::FetchAdd { add: 1 };
        published.count(registry.remote_atomic(who(pd), rkey, 16, add).map(drop));
    }
}

/// The rounds of an owner: many where processors are free, few where a round takes long because a thread
/// inside an access was descheduled.
fn rounds() -> impl Iterator<Item = u32> {
    let start = Instant::now();
    (0..1000).take_while(move |round| *round < 20 || start.elapsed() < Duration::from_secs(2))
}

/// Runs two hammering threads beside `owner`.
fn beside_hammers(registry: &Registry, pd: PdId, owner: impl FnOnce(&Published)) -> Published {
    let published = Published::default();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| hammer(registry, pd, &published));
        }
        let _stop = StopOnDrop(&published.stop);
        owner(&published);
    });
    assert_eq!(published.wrong.load(Relaxed), 0);
    published
}

#[test]
fn memory_is_left_alone_once_its_region_is_gone() {
    let registry = Registry::new(11);
    let pd = registry.alloc_pd();
    let mut graveyard = Vec::new();
    let published = beside_hammers(&registry, pd, |published| {
        for _ in rounds() {
            let pages = Pages::map();
            let spec = MrSpec { iova: 0, ..MrSpec::new(pd, pages.start, PAGE as u64, ALL) };
            // SAFETY: mapped until `deregister` has returned, as the test requires.
            let keys = unsafe { registry.register(&spec) }.expect("a page");
            published.put(keys.lkey, keys.rkey);
            published.wait_for(20);
            registry.deregister(keys.id).expect("ours");
            pages.forbid();
            graveyard.push(pages);
        }
    });
    assert!(published.refused.load(Relaxed) > 0);
    assert_eq!(registry.free_pd(pd), Ok(()));
}

#[test]
fn an_invalidated_window_writes_no_more() {
    let registry = Registry::new(12);
    let pd = registry.alloc_pd();
    let (memory, keys) = region(&registry, pd, PAGE as u64);
    let window = registry.alloc_mw(pd, MwType::Two).expect("a window");
    let mut rkey = window.rkey;
    beside_hammers(&registry, pd, |published| {
        for round in rounds() {
            let new_rkey = RKey(rkey.0 & !0xff | round & 0xff);
            let bind = BindMw {
                window: rkey,
                new_rkey,
                region: keys.lkey,
                addr: 0,
                len_bytes: PAGE as u64,
                access: Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC,
            };
            registry.bind(who(pd), &bind).expect("free to be bound");
            rkey = new_rkey;
            // There is no lkey here: local accesses are refused.
            published.put(LKey(0), rkey);
            published.wait_for(20);
            registry.invalidate(who(pd), rkey).expect("bound by us");
            let quiet = vec![round as u8 | 0x80; PAGE];
            memory.span().write(&quiet);
            thread::yield_now();
            let mut now = vec![0; PAGE];
            memory.span().read(&mut now);
            assert_eq!(now, quiet);
        }
    });
    assert_eq!(registry.dealloc_mw(window.id), Ok(()));
    assert_eq!(registry.deregister(keys.id), Ok(()));
}

#[test]
fn a_type_1_window_moves_from_region_to_region_under_fire() {
    let registry = Registry::new(13);
    let pd = registry.alloc_pd();
    let places = [(); 2].map(|()| region(&registry, pd, PAGE as u64));
    let window = registry.alloc_mw(pd, MwType::One).expect("a window");
    let mut rkey = window.rkey;
    beside_hammers(&registry, pd, |published| {
        for round in rounds() {
            let (_, keys) = &places[round as usize % 2];
            let (left, _) = &places[1 - round as usize % 2];
            let new_rkey = RKey(rkey.0 & !0xff | round & 0xff);
            let bind = BindMw {
                window: rkey,
                new_rkey,
                region: keys.lkey,
                addr: 0,
                len_bytes: PAGE as u64,
                access: Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC,
            };
            registry.bind(who(pd), &bind).expect("type 1 rebinds at once");
            rkey = new_rkey;
            published.put(LKey(0), rkey);
            left.span().write(&[0xee; PAGE]);
            published.wait_for(20);
            let mut now = vec![0; PAGE];
            left.span().read(&mut now);
            assert_eq!(now, [0xee; PAGE]);
        }
    });
    assert_eq!(registry.dealloc_mw(window.id), Ok(()));
    for (_, MrKeys { id, .. }) in places {
        assert_eq!(registry.deregister(id), Ok(()));
    }
}

#[test]
fn threads_register_side_by_side() {
    let registry = Registry::new(14);
    let pd = registry.alloc_pd();
    thread::scope(|scope| {
        for seed in 0..4u8 {
            let registry = &registry;
            scope.spawn(move || {
                let (memory, _) = region(registry, pd, 64);
                for round in 0..3000u32 {
                    let keys = registry.register_region(pd, memory.clone(), Some(0), ALL).expect("room");
                    let mark = [seed, round as u8, (round >> 8) as u8];
                    let write = registry.remote_write(who(pd), keys.rkey, 5, &mark);
                    let mut back = [0; 3];
                    let list = [sge(keys.lkey, 5, 3)];
                    let gather = registry.gather(pd, &list, 0, &mut back);
                    assert_eq!([write, gather], [Ok(()), Ok(())]);
                    assert_eq!(back, mark);
                    registry.deregister(keys.id).expect("ours");
                }
            });
        }
    });
}
