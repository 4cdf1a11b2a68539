//! Adoption without room for it. These tests have their own process since the limits hold for all of it.

use longarm_memory::{Adoption, MrKeys, MrSpec, Registry};
use transport::{Access, PdId, Sge};

struct Fixture {
    registry: Registry,
    pd: PdId,
}

impl Fixture {
    fn new() -> Fixture {
        let registry = Registry::new(1);
        registry.set_adoption(Adoption::Always);
        let pd = registry.alloc_pd();
        Fixture { registry, pd }
    }

    fn register(&self, memory: &mut [u8]) -> (MrKeys, Sge) {
        let spec = MrSpec::new(self.pd, memory.as_mut_ptr(), memory.len() as u64, Access::LOCAL_WRITE);
        // SAFETY: the tests keep the memory until the registration ends, and read it only afterwards.
        let keys = unsafe { self.registry.register(&spec) }.expect("registered");
        // The byte in the middle.
        (keys, Sge { addr: spec.iova + spec.len_bytes / 2, len_bytes: 1, lkey: keys.lkey })
    }

    fn is_adopted(&self, sge: &Sge) -> bool {
        self.registry.locate(self.pd, sge).expect("readable").is_some()
    }

    /// Registers and deregisters memory. Returns true if it was adopted.
    fn try_out(&self, len_bytes: usize) -> bool {
        let mut memory: Vec<u8> = (0..len_bytes).map(|at| at as u8).collect();
        let (keys, sge) = self.register(&mut memory);
        let adopted = self.is_adopted(&sge);
        self.registry.deregister(keys.id).expect("alive");
        assert!(memory.iter().enumerate().all(|(at, byte)| *byte == at as u8));
        adopted
    }
}

fn limit(resource: libc::__rlimit_resource_t, to: u64) -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: reads and sets a limit of this process.
    unsafe {
        assert_eq!(libc::getrlimit(resource, &mut limit), 0);
        let before = limit.rlim_cur;
        limit.rlim_cur = to.min(limit.rlim_max);
        assert_eq!(libc::setrlimit(resource, &limit), 0);
        before
    }
}

/// One test, since the limits hold for the whole process.
#[test]
fn where_there_is_no_room_nothing_is_adopted_and_nothing_is_lost() {
    let fixture = Fixture::new();
    let before = limit(libc::RLIMIT_FSIZE, 1 << 18);
    assert!(!fixture.try_out(1 << 20), "beyond the limit of file sizes, and no signal");
    limit(libc::RLIMIT_FSIZE, before);
    assert!(fixture.try_out(1 << 20));

    let before = limit(libc::RLIMIT_NOFILE, 4);
    assert!(!fixture.try_out(1 << 20), "no descriptors");
    limit(libc::RLIMIT_NOFILE, before);

    let before = address_limit(40 << 20);
    assert!(!fixture.try_out(30 << 20), "no addresses for a copy");
    limit(libc::RLIMIT_AS, before);
    assert!(fixture.try_out(30 << 20));

    a_thousand_regions_need_one_descriptor(&fixture);
    small_buffers_are_not_adopted(&fixture);
    // The last case, since a fork ends adoption.
    a_child_without_room_for_a_copy_needs_none(&fixture);
}

fn address_limit(spare_bytes: u64) -> u64 {
    let used = std::fs::read_to_string("/proc/self/statm").expect("/proc");
    let pages: u64 = used.split(' ').next().and_then(|pages| pages.parse().ok()).expect("a number");
    limit(libc::RLIMIT_AS, pages * 4096 + spare_bytes)
}

fn a_child_without_room_for_a_copy_needs_none(fixture: &Fixture) {
    let mut memory = vec![3u8; 30 << 20];
    let (keys, sge) = fixture.register(&mut memory);
    assert!(fixture.is_adopted(&sge));
    let before = address_limit(10 << 20);
    // SAFETY: the child writes a byte and ends.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let byte: *mut u8 = core::ptr::with_exposed_provenance_mut(sge.addr as usize);
        // SAFETY: a byte of the vector, of which the child has its own copy.
        unsafe {
            byte.write_volatile(4);
            libc::_exit(i32::from(byte.sub(1).read_volatile()) - 3)
        }
    }
    let mut status = 0;
    // SAFETY: waits for the child of this function.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    limit(libc::RLIMIT_AS, before);
    assert_eq!(status, 0, "{status:#x}");
    fixture.registry.deregister(keys.id).expect("alive");
    assert!(memory.iter().all(|byte| *byte == 3));
}

/// The number of open descriptors.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("/proc").count()
}

fn a_thousand_regions_need_one_descriptor(fixture: &Fixture) {
    let before = descriptors();
    let mut memory: Vec<Vec<u8>> = (0..1000).map(|_| vec![3; 16384]).collect();
    let all: Vec<_> = memory.iter_mut().map(|memory| fixture.register(memory)).collect();
    assert!(all.iter().all(|(_, sge)| fixture.is_adopted(sge)));
    assert!(descriptors() <= before + 1);
    for (keys, _) in all {
        fixture.registry.deregister(keys.id).expect("alive");
    }
    assert!(memory.iter().flatten().all(|byte| *byte == 3));
}

fn small_buffers_are_not_adopted(fixture: &Fixture) {
    let mut memory: Vec<Vec<u8>> = (0..10_000).map(|_| vec![3; 1000]).collect();
    let all: Vec<_> = memory.iter_mut().map(|memory| fixture.register(memory)).collect();
    assert!(all.iter().all(|(_, sge)| !fixture.is_adopted(sge)));
    for (keys, _) in all {
        fixture.registry.deregister(keys.id).expect("alive");
    }
}
