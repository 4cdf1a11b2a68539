use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use super::*;
use crate::region::HUGE_BYTES;
use std::os::fd::AsRawFd;

const PAGE: usize = 4096;

/// Private memory of the program, in whole pages.
struct Program {
    start: usize,
    len_bytes: usize,
}

impl Program {
    fn new(pages: usize) -> Program {
        Program::with(pages, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)
    }

    fn with(pages: usize, rights: libc::c_int, flags: libc::c_int, fd: RawFd) -> Program {
        // Inaccessible pages on both sides, so that no other mapping can be merged with this one.
        let len_bytes = pages * page_bytes();
        let fence = page_bytes();
        let anonymous = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping, and a second mapping over its middle.
        unsafe {
            let all = libc::mmap(core::ptr::null_mut(), len_bytes + 2 * fence, libc::PROT_NONE, anonymous, -1, 0);
            assert_ne!(all, libc::MAP_FAILED);
            let start = all.byte_add(fence);
            assert_eq!(libc::mmap(start, len_bytes, rights, flags | libc::MAP_FIXED, fd, 0), start);
            Program { start: start.expose_provenance(), len_bytes }
        }
    }

    fn range(&self) -> Range<usize> {
        self.start..self.start + self.len_bytes
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at + 8 <= self.len_bytes);
        // SAFETY: within the mapping, aligned, and accessed only by atomic operations.
        unsafe { AtomicU64::from_ptr(core::ptr::with_exposed_provenance_mut(self.start + at)) }
    }

    fn words(&self) -> impl Iterator<Item = (usize, &AtomicU64)> {
        (0..self.len_bytes).step_by(8).map(|at| (at, self.word(at)))
    }

    fn fill(&self) {
        self.words().for_each(|(at, word)| word.store(at as u64 + 1, Relaxed));
    }

    #[track_caller]
    fn assert_filled(&self) {
        self.words().for_each(|(at, word)| assert_eq!(word.load(Relaxed), at as u64 + 1, "at {at:#x}"));
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let start: *mut core::ffi::c_void = core::ptr::with_exposed_provenance_mut(self.start - page_bytes());
        // SAFETY: this value's own mapping, which has no other user at this point.
        unsafe { libc::munmap(start, self.len_bytes + 2 * page_bytes()) };
    }
}

/// A registration, which ends when it is dropped.
struct Registered {
    object_range: ObjectRange,
    _hold: RegistrationHold,
}

impl core::ops::Deref for Registered {
    type Target = ObjectRange;

    fn deref(&self) -> &ObjectRange {
        &self.object_range
    }
}

/// Adopts a range like a registration with [`Adoption::Always`]. `None` if it is not adopted; then it is not
/// registered either.
fn register(range: Range<usize>) -> Option<Registered> {
    let plain = probe::survey(range.start, range.len(), false).expect("mapped").plain;
    // SAFETY: the tests own the memory that they pass.
    let (object_range, hold) = unsafe { enter_range(range, plain, Adoption::Always) };
    Some(Registered { object_range: object_range?, _hold: hold? })
}

fn is_shared(range: Range<usize>) -> bool {
    !probe::survey(range.start, range.len(), false).expect("mapped").plain
}

/// A peer's mapping of an object.
struct Peer {
    start: *mut u8,
    len_bytes: usize,
}

impl Peer {
    fn new(object_range: &ObjectRange) -> Peer {
        let len_bytes = object_range.object.bytes() as usize;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let (fd, from) = (object_range.object.file().expect("a file").as_raw_fd(), object_range.object.start() as i64);
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe { libc::mmap(core::ptr::null_mut(), len_bytes, rights, libc::MAP_SHARED, fd, from) };
        assert_ne!(start, libc::MAP_FAILED);
        Peer { start: start.cast(), len_bytes }
    }

    fn word(&self, offset: u64) -> &AtomicU64 {
        assert!(offset as usize + 8 <= self.len_bytes);
        // SAFETY: within the mapping, aligned, and accessed only by atomic operations.
        unsafe { AtomicU64::from_ptr(self.start.add(offset as usize).cast()) }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // SAFETY: this value's own mapping.
        unsafe { libc::munmap(self.start.cast(), self.len_bytes) };
    }
}

#[test]
fn memory_keeps_its_contents_and_peers_see_them() {
    for pages in [1, 2, 300, 600, 1200] {
        let memory = Program::new(pages);
        memory.fill();
        let object_range = register(memory.range()).expect("adopted");
        assert!(is_shared(memory.range()));
        memory.assert_filled();
        let peer = Peer::new(&object_range);
        for (at, word) in memory.words() {
            assert_eq!(peer.word(object_range.offset + at as u64).load(Relaxed), word.load(Relaxed));
        }
        peer.word(object_range.offset).store(77, Relaxed);
        assert_eq!(memory.word(0).load(Relaxed), 77);
        memory.word(8).store(78, Relaxed);
        assert_eq!(peer.word(object_range.offset + 8).load(Relaxed), 78);
        drop(object_range);
        assert!(!is_shared(memory.range()));
        assert_eq!((memory.word(0).load(Relaxed), memory.word(8).load(Relaxed)), (77, 78));
        peer.word(0).store(99, Relaxed);
        assert_eq!(memory.word(0).load(Relaxed), 77, "private again");
        memory.fill();
        memory.assert_filled();
    }
}

/// The number of the window's pages that take memory.
fn resident_pages(object_range: &ObjectRange) -> usize {
    let peer = Peer::new(object_range);
    let mut states = vec![0u8; peer.len_bytes / PAGE];
    // SAFETY: writes one byte for each page of the peer's mapping.
    assert_eq!(unsafe { libc::mincore(peer.start.cast(), peer.len_bytes, states.as_mut_ptr()) }, 0);
    states.iter().filter(|state| **state & 1 == 1).count()
}

#[test]
fn pages_that_were_never_touched_stay_holes() {
    let memory = Program::new(4096);
    memory.word(PAGE * 5).store(5, Relaxed);
    let object_range = register(memory.range()).expect("adopted");
    let there = resident_pages(&object_range);
    assert!(there <= HUGE_BYTES / PAGE, "{there} pages: one, or one huge page");
    memory.word(PAGE * 4000).store(6, Relaxed);
    drop(object_range);
    for (at, word) in memory.words() {
        let expected = [(PAGE * 5, 5), (PAGE * 4000, 6)].iter().find(|(place, _)| *place == at).map_or(0, |(_, v)| *v);
        assert_eq!(word.load(Relaxed), expected);
    }
}

#[test]
fn no_store_is_lost_while_memory_moves() {
    let memory = Program::new(64);
    let (stop, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let (memory, stop, rounds) = (&memory, &stop, &rounds);
                scope.spawn(move || {
                    let mut round = 0;
                    while !stop.load(Relaxed) {
                        round += 1;
                        // One word of each page, which must have this thread's last value.
                        for at in (writer * 8..memory.len_bytes).step_by(PAGE) {
                            let before = memory.word(at).swap(round, Relaxed);
                            assert_eq!(before, round - 1, "a store to {at:#x} was lost");
                        }
                        rounds.fetch_add(1, Relaxed);
                    }
                })
            })
            .collect();
        for _ in 0..200 {
            let before = rounds.load(Relaxed);
            let object_range = register(memory.range()).expect("adopted");
            // The end of the scope reports a failed writer.
            while rounds.load(Relaxed) < before + 2 && !writers.iter().any(|writer| writer.is_finished()) {
                std::thread::yield_now();
            }
            drop(object_range);
        }
        stop.store(true, Relaxed);
    });
}

#[test]
fn partial_pages_are_left_where_they_are() {
    let memory = Program::new(4);
    memory.fill();
    let range = memory.start + 100..memory.start + 3 * PAGE + 8;
    let object_range = register(range).expect("adopted");
    assert_eq!((object_range.offset, object_range.skip_front, object_range.skip_back), (0, PAGE as u64 - 100, 8));
    assert_eq!(object_range.object.bytes(), 2 * PAGE as u64);
    assert!(!is_shared(memory.start..memory.start + PAGE));
    assert!(is_shared(memory.start + PAGE..memory.start + 3 * PAGE));
    assert!(!is_shared(memory.start + 3 * PAGE..memory.start + 4 * PAGE));
    memory.assert_filled();
    drop(object_range);
    memory.assert_filled();
    assert!(register(memory.start + 1..memory.start + 2 * PAGE - 1).is_none(), "no whole page");
    assert!(register(memory.start..memory.start).is_none());
}

#[test]
fn overlapping_registrations_share_an_object() {
    let memory = Program::new(16);
    memory.fill();
    let at = |from: usize, to: usize| memory.start + from..memory.start + to;
    let first = register(at(4 * PAGE, 8 * PAGE)).expect("adopted");
    let same = |object_range: &Registered| Arc::ptr_eq(&object_range.object, &first.object);
    let place = |object_range: &Registered| (object_range.offset, object_range.skip_front, object_range.skip_back);
    let inner = register(at(5 * PAGE + 7, 5 * PAGE + 9)).expect("in it");
    assert!(same(&inner));
    assert_eq!(place(&inner), (PAGE as u64 + 7, 0, 0));
    let wider = register(at(4 * PAGE - 10, 8 * PAGE + 20)).expect("in it, but for parts of pages");
    assert!(same(&wider));
    assert_eq!(place(&wider), (0, 10, 20));
    for (from, to) in [(3 * PAGE, 8 * PAGE), (4 * PAGE, 9 * PAGE), (0, 16 * PAGE)] {
        assert!(register(at(from, to)).is_none(), "partly in it");
    }
    assert!(register(at(8 * PAGE, 9 * PAGE)).is_none(), "a key leads to twenty bytes of it");
    let beside = register(at(9 * PAGE, 10 * PAGE)).expect("adopted");
    assert!(!same(&beside));
    assert!(register(at(7 * PAGE, 10 * PAGE)).is_none(), "in two");
    drop(first);
    drop(wider);
    assert!(is_shared(at(4 * PAGE, 8 * PAGE)), "one registration is left");
    drop(inner);
    assert!(!is_shared(at(4 * PAGE, 8 * PAGE)));
    assert!(is_shared(at(9 * PAGE, 10 * PAGE)));
    drop(beside);
    memory.assert_filled();
}

#[test]
fn other_kinds_of_memory_are_left_alone() {
    let rw = libc::PROT_READ | libc::PROT_WRITE;
    let anonymous = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let file = crate::region::memfd(c"file", 8 * PAGE, 0).expect("a file");
    let fd = file.as_raw_fd();
    for (what, rights, flags, fd) in [
        ("shared", rw, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1),
        ("a file, shared", rw, libc::MAP_SHARED, fd),
        ("a file, private", rw, libc::MAP_PRIVATE, fd),
        ("read only", libc::PROT_READ, anonymous, -1),
        ("code", rw | libc::PROT_EXEC, anonymous, -1),
    ] {
        let memory = Program::with(8, rights, flags, fd);
        assert!(register(memory.range()).is_none(), "{what}");
    }
    let mixed = Program::new(8);
    let third: *mut core::ffi::c_void = core::ptr::with_exposed_provenance_mut(mixed.start + 2 * PAGE);
    // SAFETY: changes the rights of a page of `mixed`.
    assert_eq!(unsafe { libc::mprotect(third, PAGE, libc::PROT_READ) }, 0);
    assert!(register(mixed.range()).is_none(), "read only in part");
    assert!(register(mixed.start + 3 * PAGE..mixed.start + 8 * PAGE).is_some());
    let own = [0u8; 4 * PAGE];
    let own = own.as_ptr().addr();
    assert!(register(own..own + 4 * PAGE).is_none(), "this thread's stack");
}

#[test]
fn the_stack_of_the_first_thread_is_left_alone() {
    // SAFETY: only reads a value of the auxiliary vector.
    let address = unsafe { libc::getauxval(libc::AT_RANDOM) } as usize;
    let pages = address / PAGE * PAGE..address / PAGE * PAGE + PAGE;
    assert!(register(pages).is_none());
}

#[test]
fn memory_that_the_program_took_away_is_forgotten() {
    let memory = Program::new(8);
    memory.fill();
    let object_range = register(memory.range()).expect("adopted");
    // SAFETY: changes the program's own mapping: fresh pages in its middle, inaccessible ones at its end.
    unsafe {
        let rw = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        let middle = core::ptr::with_exposed_provenance_mut(memory.start + 2 * PAGE);
        assert_eq!(libc::mmap(middle, 2 * PAGE, rw, flags, -1, 0), middle);
        let end = core::ptr::with_exposed_provenance_mut(memory.start + 6 * PAGE);
        assert_eq!(libc::mmap(end, 2 * PAGE, libc::PROT_NONE, flags, -1, 0), end);
    }
    memory.word(2 * PAGE).store(1234, Relaxed);
    assert!(register(memory.start..memory.start + 4 * PAGE).is_none(), "not where the memfd is");
    drop(object_range);
    assert_eq!(memory.word(2 * PAGE).load(Relaxed), 1234);
    assert_eq!(memory.word(2 * PAGE + 8).load(Relaxed), 0);
    for at in (0..2 * PAGE).chain(4 * PAGE..6 * PAGE).step_by(8) {
        assert_eq!(memory.word(at).load(Relaxed), at as u64 + 1);
    }
    assert!(!is_shared(memory.start..memory.start + 6 * PAGE));
}

#[test]
fn a_range_that_the_program_watches_itself_is_left_alone() {
    let memory = Program::new(4);
    memory.fill();
    let watched = freeze::Frozen::new(&memory.range(), freeze::MemoryKind::Private).expect("allowed here");
    assert!(register(memory.range()).is_none());
    drop(watched);
    assert!(register(memory.range()).is_some());
    memory.assert_filled();
}

#[test]
fn pieces_cover_the_pages() {
    let pages = Pages { range: 0x1000..0x1000 + (200 << 20), offset: 0x3000 };
    let pieces: Vec<Pages> = pages.pieces(64 << 20).collect();
    // All but the first begin at a multiple of a huge page.
    let mut ends: Vec<usize> = pieces.iter().map(|piece| piece.range.end).collect();
    assert_eq!(ends.pop(), Some(pages.range.end));
    assert_eq!(ends, [64 << 20, 128 << 20, 192 << 20]);
    assert_eq!(pieces.iter().map(|piece| piece.range.len()).sum::<usize>(), pages.range.len());
    for piece in pieces {
        assert_eq!(piece.offset - 0x3000, (piece.range.start - 0x1000) as u64);
    }
}

#[test]
fn a_registry_tells_where_adopted_memory_lies() {
    use crate::testing::{ALL, Fixture, sge};
    use crate::{MrSpec, MwType, ObjectPlace};
    use transport::{Access, BindMw, Memory};

    let (fixture, memory) = (Fixture::new(), Program::new(6));
    memory.fill();
    let (registry, who) = (&fixture.registry, fixture.who(1));
    let start: *mut u8 = core::ptr::with_exposed_provenance_mut(memory.start + 100);
    let spec = MrSpec::new(fixture.pd, start, 4 * PAGE as u64, ALL);
    // SAFETY: the mapping outlives the registration.
    let register = |spec: &MrSpec| unsafe { registry.register(spec) }.expect("registered");
    let plain = register(&spec);
    assert_eq!(registry.locate(fixture.pd, &sge(plain.lkey, spec.iova + PAGE as u64, 8)), Ok(None));
    registry.deregister(plain.id).expect("alive");

    registry.set_adoption(Adoption::Always);
    let keys = register(&spec);
    let front = PAGE as u64 - 100;
    let at = |from: u64, len| registry.locate(fixture.pd, &sge(keys.lkey, spec.iova + from, len)).expect("inside");
    assert_eq!(at(front - 1, 1), None);
    let (object, first) = at(front, 3 * PAGE as u32).expect("all whole pages");
    assert_eq!((first, at(front + 5, 8)), (0, Some((object, 5))));
    assert_eq!((at(front, 3 * PAGE as u32 + 1), at(front - 1, 2)), (None, None));
    assert_eq!(at(front + 3 * PAGE as u64 - 1, 1), Some((object, 3 * PAGE as u64 - 1)));
    registry.remote_write(who, keys.rkey, spec.iova + front, &7u64.to_ne_bytes()).expect("writable");
    assert_eq!(memory.word(PAGE).load(Relaxed), 7);

    let window = registry.alloc_mw(fixture.pd, MwType::One).expect("a window");
    let bind = BindMw {
        window: window.rkey,
        new_rkey: window.rkey,
        region: keys.lkey,
        addr: spec.iova + 50,
        len_bytes: PAGE as u64,
        access: Access::REMOTE_READ,
    };
    registry.bind(who, &bind).expect("bound");
    let place = registry.pin_remote(window.rkey).expect("open").place;
    assert_eq!(place, Some(ObjectPlace { object, offset: 0, skip_front: front - 50, skip_back: 0 }));
    registry.dealloc_mw(window.id).expect("alive");

    // The same memory, so the same pages; then other memory.
    // SAFETY: the mapping outlives the registration.
    unsafe { registry.reregister(&keys, &MrSpec { len_bytes: 2 * PAGE as u64, ..spec }) }.expect("accepted");
    assert!(is_shared(memory.start + PAGE..memory.start + 4 * PAGE));
    let last: *mut u8 = core::ptr::with_exposed_provenance_mut(memory.start + 4 * PAGE);
    let other = MrSpec::new(fixture.pd, last, PAGE as u64, ALL);
    // SAFETY: the mapping outlives the registration.
    unsafe { registry.reregister(&keys, &other) }.expect("accepted");
    assert!(!is_shared(memory.start..memory.start + 4 * PAGE));
    assert!(is_shared(memory.start + 4 * PAGE..memory.start + 5 * PAGE));
    registry.deregister(keys.id).expect("alive");
    assert!(!is_shared(memory.range()));

    let on_demand = register(&MrSpec { access: ALL | Access::ON_DEMAND, ..spec });
    assert!(!is_shared(memory.range()), "on-demand memory comes and goes");
    registry.deregister(on_demand.id).expect("alive");
}
