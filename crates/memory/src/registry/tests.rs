use transport::{Memory, Sge};

use super::*;
use crate::testing::{ALL, BASE, Fixture, accessor, contents, sge};

fn register(fixture: &Fixture, spec: &MrSpec) -> Result<MrKeys, MrError> {
    // SAFETY: the tests pass live memory, or ranges that are refused.
    unsafe { fixture.registry.register(spec) }
}

#[test]
fn impossible_registrations_are_refused() {
    let fixture = Fixture::new();
    let mut bytes = [0u8; 64];
    let good = MrSpec::new(fixture.pd, bytes.as_mut_ptr(), 64, ALL);
    let end: *mut u8 = core::ptr::without_provenance_mut(usize::MAX - 15);
    let unknown = Access::from_bits_retain(1 << 31);
    assert!(!Access::all().intersects(unknown));
    for (spec, error, errno) in [
        (MrSpec { pd: PdId(999), ..good }, MrError::UnknownPd, libc::EINVAL),
        (MrSpec { access: unknown, ..good }, MrError::UnknownRights, libc::EINVAL),
        (MrSpec { access: Access::REMOTE_WRITE, ..good }, MrError::NeedsLocalWrite, libc::EINVAL),
        (MrSpec { access: Access::REMOTE_ATOMIC, ..good }, MrError::NeedsLocalWrite, libc::EINVAL),
        (MrSpec { len_bytes: u64::MAX, ..good }, MrError::Wraps, libc::EINVAL),
        (MrSpec { len_bytes: 1 << 63, ..good }, MrError::Wraps, libc::EINVAL),
        (MrSpec { ptr: end, len_bytes: 17, ..good }, MrError::Wraps, libc::EINVAL),
        (MrSpec { iova: u64::MAX - 62, ..good }, MrError::Wraps, libc::EINVAL),
        (MrSpec { ptr: end, len_bytes: 8, ..good }, MrError::Unmapped, libc::EFAULT),
        (MrSpec { ptr: core::ptr::null_mut(), ..good }, MrError::Unmapped, libc::EFAULT),
    ] {
        assert_eq!(register(&fixture, &spec), Err(error), "{spec:?}");
        assert_eq!(error.errno(), errno);
    }
    assert!(register(&fixture, &good).is_ok());
    let last = MrSpec { iova: u64::MAX - 64, ..good };
    assert!(register(&fixture, &last).is_ok());
}

#[test]
fn constants_can_be_registered_for_reading_only() {
    static TEXT: [u8; 26] = *b"abcdefghijklmnopqrstuvwxyz";
    let fixture = Fixture::new();
    let start = TEXT.as_ptr().cast_mut();
    let spec = |access| MrSpec::new(fixture.pd, start, 26, access);
    let keys = register(&fixture, &spec(Access::REMOTE_READ)).expect("readable");
    let mut out = [0; 26];
    let addr = start.addr() as u64;
    assert_eq!(fixture.registry.remote_read(fixture.who(1), keys.rkey, addr, &mut out), Ok(()));
    assert_eq!(out, TEXT);
    let refused = register(&fixture, &spec(Access::LOCAL_WRITE));
    assert_eq!(refused, Err(MrError::Protected));
    assert_eq!(MrError::Protected.errno(), libc::EFAULT);
}

#[test]
fn a_region_of_no_bytes_opens_nothing() {
    let fixture = Fixture::new();
    let spec = MrSpec::new(fixture.pd, core::ptr::null_mut(), 0, ALL);
    let keys = register(&fixture, &spec).expect("allowed");
    let (registry, who) = (&fixture.registry, fixture.who(1));
    let refused = Err(MemoryError::OutOfBounds);
    assert_eq!(registry.remote_write(who, keys.rkey, 0, &[1]), refused);
    assert_eq!(registry.remote_write(who, keys.rkey, 0, &[]), Ok(()));
    let list = [sge(keys.lkey, 0, 1)];
    assert_eq!(registry.check_local(fixture.pd, &list, false), refused);
}

#[test]
fn foreign_memory_is_read_and_written_in_place() {
    let fixture = Fixture::new();
    let mut bytes = vec![0u8; 100];
    let start = bytes.as_mut_ptr();
    let keys = register(&fixture, &MrSpec::new(fixture.pd, start, 100, ALL)).expect("a vector");
    let (registry, who, addr) = (&fixture.registry, fixture.who(1), start.addr() as u64);
    assert_eq!(registry.remote_write(who, keys.rkey, addr + 10, b"longarm"), Ok(()));
    assert_eq!(registry.deregister(keys.id), Ok(()));
    assert_eq!(&bytes[10..17], b"longarm");
}

#[test]
fn protection_domains_end_when_nothing_depends_on_them() {
    let Fixture { registry, pd } = Fixture::new();
    assert_eq!(registry.free_pd(PdId(77)), Err(MrError::UnknownPd));
    assert_eq!(registry.pd_retain(PdId(77)), Err(MrError::UnknownPd));
    assert_eq!(registry.pd_retain(pd), Ok(()));
    assert_eq!(registry.free_pd(pd), Err(MrError::Busy));
    registry.pd_release(pd);
    let region = Arc::new(Region::allocate(64).expect("memory"));
    let keys = registry.register_region(pd, region, None, ALL).expect("a region");
    assert_eq!(registry.free_pd(pd), Err(MrError::Busy));
    assert_eq!(MrError::Busy.errno(), libc::EBUSY);
    assert_eq!(registry.deregister(keys.id), Ok(()));
    assert_eq!(registry.free_pd(pd), Ok(()));
    assert_eq!(registry.free_pd(pd), Err(MrError::UnknownPd));
    assert_ne!(registry.alloc_pd(), pd);
}

#[test]
#[should_panic(expected = "was retained")]
fn a_domain_without_dependants_cannot_be_released() {
    let Fixture { registry, pd } = Fixture::new();
    registry.pd_release(pd);
}

#[test]
fn failed_registrations_leave_no_trace() {
    let fixture = Fixture::new();
    fixture.registry.control.lock().slots.limit = 1;
    let (_region, keys) = fixture.region(64, ALL);
    let mut bytes = [0u8; 8];
    let spec = MrSpec::new(fixture.pd, bytes.as_mut_ptr(), 8, ALL);
    assert_eq!(register(&fixture, &spec), Err(MrError::Full));
    assert_eq!(MrError::Full.errno(), libc::ENOMEM);
    assert_eq!(fixture.registry.deregister(keys.id), Ok(()));
    assert_eq!(fixture.registry.free_pd(fixture.pd), Ok(()));
}

#[test]
fn deregistration_kills_the_keys_and_lets_the_memory_go() {
    let fixture = Fixture::new();
    let (region, keys) = fixture.region(64, ALL);
    let (registry, who) = (&fixture.registry, fixture.who(1));
    assert_eq!(Arc::strong_count(&region), 3, "kept by the slot and as an object");
    assert_eq!(registry.remote_write(who, keys.rkey, BASE, &[1]), Ok(()));
    assert_eq!(registry.deregister(keys.id), Ok(()));
    assert_eq!(Arc::strong_count(&region), 1);
    let dead = Err(MemoryError::BadKey);
    assert_eq!(registry.remote_write(who, keys.rkey, BASE, &[2]), dead);
    let list = [sge(keys.lkey, BASE, 1)];
    assert_eq!(registry.scatter(fixture.pd, &list, 0, &[2]), dead);
    assert_eq!(contents(&region)[0], 1);
    assert_eq!(registry.region_info(keys.lkey), None);
    assert_eq!(registry.deregister(keys.id), Err(MrError::UnknownId));
}

#[test]
fn old_names_do_not_fit_the_next_users_of_a_slot() {
    let fixture = Fixture::new();
    let registry = &fixture.registry;
    registry.control.lock().slots.limit = 1;
    let mut dead: Vec<MrKeys> = Vec::new();
    for _ in 0..1000 {
        let (region, keys) = fixture.region(64, ALL);
        for old in &dead {
            let list = [sge(old.lkey, BASE, 1)];
            let write = registry.remote_write(fixture.who(1), old.rkey, BASE, &[1]);
            let scatter = registry.scatter(fixture.pd, &list, 0, &[1]);
            assert_eq!([write, scatter], [Err(MemoryError::BadKey); 2]);
            assert_eq!(registry.deregister(old.id), Err(MrError::UnknownId));
        }
        assert_eq!(contents(&region), [0; 64]);
        assert_eq!(registry.deregister(keys.id), Ok(()));
        dead.push(keys);
    }
}

#[test]
fn dropping_the_registry_lets_all_memory_go() {
    let fixture = Fixture::new();
    let (region, _) = fixture.region(64, ALL);
    drop(fixture);
    assert_eq!(Arc::strong_count(&region), 1);
}

#[test]
fn a_region_says_what_it_is() {
    let fixture = Fixture::new();
    let (region, keys) = fixture.region(100, ALL);
    let expected = RegionInfo { pd: fixture.pd, rkey: keys.rkey, base: BASE, len_bytes: 100, access: ALL };
    assert_eq!(fixture.registry.region_info(keys.lkey), Some(expected));
    assert_eq!(fixture.registry.region_info(LKey(keys.rkey.0)), None);
    let zero_based = Access::ZERO_BASED | Access::REMOTE_READ;
    let by_address = fixture.registry.register_region(fixture.pd, region.clone(), None, ALL);
    let by_zero = fixture.registry.register_region(fixture.pd, region.clone(), None, zero_based);
    for (keys, base) in [(by_address, region.ptr().addr() as u64), (by_zero, 0)] {
        let info = fixture.registry.region_info(keys.expect("a region").lkey);
        assert_eq!(info.map(|info| info.base), Some(base));
    }
}

#[test]
fn the_same_seed_gives_the_same_keys_and_entropy_never() {
    let keys_of = |registry: Registry| {
        let pd = registry.alloc_pd();
        let region = Arc::new(Region::allocate(64).expect("memory"));
        let keys = registry.register_region(pd, region, None, ALL).expect("a region");
        (keys.lkey, keys.rkey)
    };
    assert_eq!(keys_of(Registry::new(7)), keys_of(Registry::new(7)));
    assert_ne!(keys_of(Registry::new(7)), keys_of(Registry::new(8)));
    assert_ne!(keys_of(Registry::new(1)), keys_of(Registry::new(1 << 32)));
    let entropy = || Registry::from_entropy().expect("random numbers");
    assert_ne!(keys_of(entropy()), keys_of(entropy()));
}

#[test]
fn zero_is_no_key() {
    let fixture = Fixture::new();
    let pd = fixture.pd;
    // A window's entry has no lkey; make sure that zero does not find one.
    let slot = fixture.registry.keys.local_slot(LKey(0));
    fixture.registry.table.make(slot).open(Grant { pd, len_bytes: 8, ..Grant::NONE });
    let list = [Sge { addr: 0, len_bytes: 1, lkey: LKey(0) }];
    let refused = Err(MemoryError::BadKey);
    assert_eq!(fixture.registry.check_local(pd, &list, false), refused);
}

#[test]
fn a_region_registered_anew_keeps_its_keys_and_nothing_else() {
    let fixture = Fixture::new();
    let registry = &fixture.registry;
    let (_old, keys) = fixture.region(64, ALL);
    let other_pd = registry.alloc_pd();
    let mut bytes = vec![7u8; 128];
    let rights = Access::LOCAL_WRITE | Access::REMOTE_READ;
    let spec = MrSpec { iova: 0x9000, ..MrSpec::new(other_pd, bytes.as_mut_ptr(), 128, rights) };
    // SAFETY: the vector outlives the registration, and no reference to it is used meanwhile.
    unsafe { registry.reregister(&keys, &spec) }.unwrap();
    let info = registry.region_info(keys.lkey).unwrap();
    assert_eq!(
        (info.rkey, info.pd, info.base, info.len_bytes, info.access),
        (keys.rkey, other_pd, 0x9000, 128, rights)
    );
    let who = accessor(other_pd, 1);
    let mut read = [0; 4];
    registry.remote_read(who, keys.rkey, 0x9000, &mut read).unwrap();
    assert_eq!(read, [7; 4]);
    assert_eq!(registry.remote_write(who, keys.rkey, 0x9000, &read), Err(MemoryError::NoPermission));
    assert_eq!(registry.remote_read(fixture.who(1), keys.rkey, 0x9000, &mut read), Err(MemoryError::WrongDomain));
    assert_eq!(registry.free_pd(fixture.pd), Ok(()), "the old domain is free of it");
    let bad = MrSpec { len_bytes: u64::MAX, ..spec };
    // SAFETY: the registry refuses the call, so no memory is registered.
    assert_eq!(unsafe { registry.reregister(&keys, &bad) }, Err(MrError::Wraps));
    assert!(registry.region_info(keys.lkey).is_some(), "a refusal changes nothing");
    registry.deregister(keys.id).unwrap();
    // SAFETY: the registry refuses the call, so no memory is registered.
    assert_eq!(unsafe { registry.reregister(&keys, &spec) }, Err(MrError::UnknownId));
    registry.free_pd(other_pd).unwrap();
}

#[test]
fn ordinary_memory_is_not_persistent() {
    let fixture = Fixture::new();
    let region = Arc::new(Region::allocate(64).unwrap());
    let access = ALL | Access::FLUSH_GLOBAL;
    let registry = &fixture.registry;
    let persistent = registry.register_region(fixture.pd, region.clone(), None, access | Access::FLUSH_PERSISTENT);
    assert_eq!(persistent, Err(MrError::NotPersistent));
    assert!(registry.register_region(fixture.pd, region, None, access).is_ok());
}
