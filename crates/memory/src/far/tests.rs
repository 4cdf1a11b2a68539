use transport::{Access, AtomicOp, BindMw, LKey, Memory, MemoryError};
use wire::RKey;

use super::*;
use crate::testing::{ALL, BASE, Fixture, sge};
use crate::{MrError, MrKeys, MrSpec, MwType};

const UNMAPPED: Result<(), MemoryError> = Err(MemoryError::Unmapped);
const OUTSIDE: Result<(), MemoryError> = Err(MemoryError::OutOfBounds);
const ADD: AtomicOp = AtomicOp::FetchAdd { add: 1 };

/// Addresses of pages that the test maps and unmaps. They stay reserved without rights, so no other mapping
/// gets them.
struct Pages {
    start: *mut u8,
    count: usize,
}

impl Pages {
    fn reserve(count: usize) -> Pages {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe { libc::mmap(core::ptr::null_mut(), count * page_bytes(), libc::PROT_NONE, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        Pages { start: start.cast(), count }
    }

    fn addr(&self, page: usize, offset: usize) -> u64 {
        (self.start.addr() + page * page_bytes() + offset) as u64
    }

    /// Maps a fresh page of zeros with these rights.
    fn map(&self, page: usize, rights: libc::c_int) {
        self.replace(page, rights, libc::MAP_ANONYMOUS, -1);
    }

    /// Makes the page inaccessible.
    fn unmap(&self, page: usize) {
        self.map(page, libc::PROT_NONE);
    }

    fn replace(&self, page: usize, rights: libc::c_int, flags: libc::c_int, fd: libc::c_int) {
        let at = self.start.wrapping_add(page * page_bytes());
        let flags = libc::MAP_PRIVATE | libc::MAP_FIXED | flags;
        // SAFETY: within this value's own mapping, to which no references exist.
        let mapped = unsafe { libc::mmap(at.cast(), page_bytes(), rights, flags, fd, 0) };
        assert_eq!(mapped.addr(), at.addr());
    }

    /// Registers all of them on demand.
    fn register(&self, fixture: &Fixture, access: Access) -> MrKeys {
        let len_bytes = (self.count * page_bytes()) as u64;
        register(fixture, &MrSpec::new(fixture.pd, self.start, len_bytes, access | Access::ON_DEMAND))
            .expect("accepted")
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: this value's own mapping, which has no other user at this point.
        assert_eq!(unsafe { libc::munmap(self.start.cast(), self.count * page_bytes()) }, 0);
    }
}

fn register(fixture: &Fixture, spec: &MrSpec) -> Result<MrKeys, MrError> {
    // SAFETY: on-demand memory may come and go.
    unsafe { fixture.registry.register(spec) }
}

const RW: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;

#[test]
fn pages_may_come_and_go_while_the_region_is_registered() {
    let fixture = Fixture::new();
    let pages = Pages::reserve(2);
    let keys = pages.register(&fixture, ALL);
    let (registry, who, pd) = (&fixture.registry, fixture.who(1), fixture.pd);
    let addr = pages.addr(0, 100);
    let list = [sge(keys.lkey, addr, 64)];
    for _ in 0..2 {
        assert_eq!(registry.remote_write(who, keys.rkey, addr, &[1; 64]), UNMAPPED);
        assert_eq!(registry.remote_read(who, keys.rkey, addr, &mut [0; 64]), UNMAPPED);
        assert_eq!(registry.scatter(pd, &list, 0, &[1; 64]), UNMAPPED);
        assert_eq!(registry.gather(pd, &list, 0, &mut [0; 64]), UNMAPPED);
        assert_eq!(registry.remote_atomic(who, keys.rkey, pages.addr(0, 0), ADD), Err(MemoryError::Unmapped));
        assert_eq!(registry.remote_atomic_write(who, keys.rkey, pages.addr(0, 0), [1; 8]), UNMAPPED);
        pages.map(0, RW);
        let data: Vec<u8> = (0..64).collect();
        assert_eq!(registry.remote_write(who, keys.rkey, addr, &data), Ok(()));
        let mut out = [0; 64];
        assert_eq!(registry.gather(pd, &list, 0, &mut out), Ok(()));
        assert_eq!(out[..], data[..]);
        assert_eq!(registry.scatter(pd, &list, 0, &[9; 64]), Ok(()));
        assert_eq!(registry.remote_read(who, keys.rkey, addr, &mut out), Ok(()));
        assert_eq!(out, [9; 64]);
        assert_eq!(registry.remote_atomic(who, keys.rkey, pages.addr(0, 8), ADD), Ok(0));
        assert_eq!(registry.remote_atomic(who, keys.rkey, pages.addr(0, 8), ADD), Ok(1));
        assert_eq!(registry.remote_atomic_write(who, keys.rkey, pages.addr(0, 8), [7; 8]), Ok(()));
        assert_eq!(registry.remote_atomic(who, keys.rkey, pages.addr(0, 8), ADD), Ok(u64::from_ne_bytes([7; 8])));
        pages.unmap(0);
    }
}

#[test]
fn a_range_that_is_mapped_in_part_is_refused() {
    let fixture = Fixture::new();
    let pages = Pages::reserve(2);
    let keys = pages.register(&fixture, ALL);
    pages.map(0, RW);
    let (registry, who) = (&fixture.registry, fixture.who(1));
    for before in [1, 8, 9, 64] {
        let addr = pages.addr(1, 0) - before;
        assert_eq!(registry.remote_write(who, keys.rkey, addr, &[1; 128]), UNMAPPED);
        assert_eq!(registry.remote_read(who, keys.rkey, addr, &mut [0; 128]), UNMAPPED);
    }
    let checked = registry.check_remote(who, keys.rkey, pages.addr(0, 0), 2 * page_bytes() as u64, Access::REMOTE_READ);
    assert_eq!(checked, Ok(()), "what is mapped is asked when it is used");
}

#[test]
fn rights_of_pages_count() {
    let fixture = Fixture::new();
    let pages = Pages::reserve(1);
    let keys = pages.register(&fixture, ALL);
    pages.map(0, libc::PROT_READ);
    let (registry, who, addr) = (&fixture.registry, fixture.who(1), pages.addr(0, 0));
    assert_eq!(registry.remote_read(who, keys.rkey, addr, &mut [1; 8]), Ok(()));
    assert_eq!(registry.remote_write(who, keys.rkey, addr, &[1; 8]), UNMAPPED);
    assert_eq!(registry.remote_atomic(who, keys.rkey, addr, ADD), Err(MemoryError::Unmapped));
    assert_eq!(registry.remote_atomic_write(who, keys.rkey, addr, [1; 8]), UNMAPPED);
}

#[test]
fn beyond_the_end_of_a_file_there_is_nothing() {
    let fixture = Fixture::new();
    let pages = Pages::reserve(1);
    let keys = pages.register(&fixture, ALL);
    // SAFETY: a system call that returns a new descriptor.
    let fd = unsafe { libc::memfd_create(c"empty".as_ptr(), libc::MFD_CLOEXEC) };
    assert!(fd >= 0);
    pages.replace(0, RW, 0, fd);
    // SAFETY: closes the descriptor that this test has made.
    unsafe { libc::close(fd) };
    let (registry, who, addr) = (&fixture.registry, fixture.who(1), pages.addr(0, 0));
    assert_eq!(registry.remote_read(who, keys.rkey, addr, &mut [1; 8]), UNMAPPED);
    assert_eq!(registry.remote_atomic(who, keys.rkey, addr, ADD), Err(MemoryError::Unmapped));
}

#[test]
fn rights_and_range_of_the_region_count_as_ever() {
    let fixture = Fixture::new();
    let pages = Pages::reserve(2);
    pages.map(0, RW);
    pages.map(1, RW);
    let keys = pages.register(&fixture, Access::LOCAL_WRITE | Access::REMOTE_READ);
    let (registry, who) = (&fixture.registry, fixture.who(1));
    let (first, end) = (pages.addr(0, 0), pages.addr(2, 0));
    assert_eq!(registry.remote_write(who, keys.rkey, first, &[1]), Err(MemoryError::NoPermission));
    for (addr, len, expected) in [
        (first, 1, Ok(())),
        (end - 1, 1, Ok(())),
        (first, 2 * page_bytes(), Ok(())),
        (end - 1, 2, OUTSIDE),
        (first - 1, 1, OUTSIDE),
        (end, 1, OUTSIDE),
        (u64::MAX, 2, OUTSIDE),
        (0, 1, OUTSIDE),
    ] {
        assert_eq!(registry.remote_read(who, keys.rkey, addr, &mut vec![0; len]), expected, "{addr:#x} {len}");
        assert_eq!(registry.check_local(fixture.pd, &[sge(keys.lkey, addr, len as u32)], true), expected);
        let checked = registry.check_remote(who, keys.rkey, addr, len as u64, Access::REMOTE_READ);
        assert_eq!(checked, expected);
    }
    let info = registry.region_info(keys.lkey).expect("a region");
    assert_eq!((info.base, info.len_bytes), (first, 2 * page_bytes() as u64));
    assert_eq!(registry.deregister(keys.id), Ok(()));
    assert_eq!(registry.remote_read(who, keys.rkey, first, &mut [0]), Err(MemoryError::BadKey));
}

#[test]
fn addresses_may_have_another_numbering() {
    let fixture = Fixture::new();
    let pages = Pages::reserve(1);
    pages.map(0, RW);
    let spec = MrSpec::new(fixture.pd, pages.start, page_bytes() as u64, ALL | Access::ON_DEMAND);
    let (registry, who) = (&fixture.registry, fixture.who(1));
    let numbered = register(&fixture, &MrSpec { iova: BASE, ..spec }).expect("accepted");
    let zero_based =
        register(&fixture, &MrSpec { access: spec.access | Access::ZERO_BASED, ..spec }).expect("accepted");
    assert_eq!(registry.remote_write(who, numbered.rkey, BASE + 5, b"longarm"), Ok(()));
    let mut out = [0; 7];
    assert_eq!(registry.remote_read(who, zero_based.rkey, 5, &mut out), Ok(()));
    assert_eq!(&out, b"longarm");
}

#[test]
fn the_whole_address_space_is_one_region() {
    let fixture = Fixture::new();
    let pages = Pages::reserve(1);
    pages.map(0, RW);
    let access = Access::LOCAL_WRITE | Access::ON_DEMAND;
    let spec = MrSpec::new(fixture.pd, core::ptr::null_mut(), u64::MAX, access);
    let keys = register(&fixture, &spec).expect("accepted");
    let (registry, pd) = (&fixture.registry, fixture.pd);
    let list = |addr| [sge(keys.lkey, addr, 8)];
    assert_eq!(registry.scatter(pd, &list(pages.addr(0, 64)), 0, &[5; 8]), Ok(()));
    let mut out = [0; 8];
    assert_eq!(registry.gather(pd, &list(pages.addr(0, 64)), 0, &mut out), Ok(()));
    assert_eq!(out, [5; 8]);
    for addr in [0, 8, 1 << 62, u64::MAX - 8] {
        assert_eq!(registry.gather(pd, &list(addr), 0, &mut out), UNMAPPED, "{addr:#x}");
    }
    assert_eq!(registry.gather(pd, &list(u64::MAX - 7), 0, &mut out), OUTSIDE);
    for spec in [
        MrSpec { access: Access::LOCAL_WRITE, ..spec },
        MrSpec { iova: 1, ..spec },
        MrSpec { len_bytes: u64::MAX - 1, ..spec },
    ] {
        assert_eq!(register(&fixture, &spec), Err(MrError::Wraps));
    }
}

#[test]
fn windows_open_on_demand_memory_too() {
    let fixture = Fixture::new();
    let pages = Pages::reserve(1);
    let keys = pages.register(&fixture, ALL);
    let (registry, who) = (&fixture.registry, fixture.who(1));
    let window = registry.alloc_mw(fixture.pd, MwType::Two).expect("a window").rkey;
    let new_rkey = RKey(window.0 ^ 1);
    let bind = BindMw {
        window,
        new_rkey,
        region: keys.lkey,
        addr: pages.addr(0, 64),
        len_bytes: 64,
        access: Access::REMOTE_WRITE | Access::ZERO_BASED,
    };
    assert_eq!(registry.bind(who, &BindMw { len_bytes: page_bytes() as u64, ..bind }), OUTSIDE);
    assert_eq!(registry.bind(who, &bind), Ok(()));
    assert_eq!(registry.remote_write(who, new_rkey, 0, &[3; 64]), UNMAPPED);
    pages.map(0, RW);
    assert_eq!(registry.remote_write(who, new_rkey, 0, &[3; 64]), Ok(()));
    assert_eq!(registry.remote_write(who, new_rkey, 1, &[3; 64]), OUTSIDE);
    assert_eq!(registry.remote_write(fixture.who(2), new_rkey, 0, &[3; 8]), Err(MemoryError::WrongDomain));
    let mut out = [0; 128];
    assert_eq!(registry.remote_read(who, keys.rkey, pages.addr(0, 32), &mut out), Ok(()));
    assert_eq!((&out[..32], &out[32..96], &out[96..]), (&[0; 32][..], &[3; 64][..], &[0; 32][..]));
}

#[test]
fn the_null_region_gives_zeros_and_takes_anything() {
    let fixture = Fixture::new();
    let (registry, pd) = (&fixture.registry, fixture.pd);
    let keys = registry.register_null(pd, Access::LOCAL_WRITE).expect("accepted");
    for addr in [0, 1 << 40, u64::MAX - 64] {
        let list = [sge(keys.lkey, addr, 64)];
        let mut out = [1; 64];
        assert_eq!(registry.gather(pd, &list, 0, &mut out), Ok(()));
        assert_eq!(out, [0; 64]);
        assert_eq!(registry.scatter(pd, &list, 0, &[7; 64]), Ok(()));
        assert_eq!(registry.check_local(pd, &list, true), Ok(()));
    }
    let read_only = registry.register_null(pd, Access::empty()).expect("accepted");
    let list = [sge(read_only.lkey, 0, 8)];
    assert_eq!(registry.scatter(pd, &list, 0, &[7; 8]), Err(MemoryError::NoPermission));
    assert_eq!(registry.check_local(registry.alloc_pd(), &list, false), Err(MemoryError::WrongDomain));
}

#[test]
fn the_null_region_is_for_its_owner_alone() {
    let fixture = Fixture::new();
    let (registry, who, pd) = (&fixture.registry, fixture.who(1), fixture.pd);
    for access in [Access::REMOTE_READ, ALL, Access::MW_BIND, Access::ON_DEMAND, Access::ZERO_BASED] {
        assert_eq!(registry.register_null(pd, access), Err(MrError::UnknownRights), "{access:?}");
    }
    let keys = registry.register_null(pd, Access::LOCAL_WRITE).expect("accepted");
    let refused = Err(MemoryError::NoPermission);
    assert_eq!(registry.remote_read(who, keys.rkey, 0, &mut [0; 8]), refused);
    assert_eq!(registry.remote_write(who, keys.rkey, 0, &[0; 8]), refused);
    assert_eq!(registry.remote_atomic(who, keys.rkey, 0, ADD).map(drop), refused);
    let list = [sge(LKey(keys.lkey.0 ^ 1), 0, 8)];
    assert_eq!(registry.check_local(pd, &list, false), Err(MemoryError::BadKey));
    assert_eq!(registry.deregister(keys.id), Ok(()));
    assert_eq!(registry.free_pd(pd), Ok(()));
}
