use std::sync::Arc;

use transport::LKey;

use super::*;
use crate::region::Region;
use crate::testing::{ALL, BASE, Fixture, accessor, contents, sge};

const BAD_KEY: MemoryError = MemoryError::BadKey;
const DOMAIN: MemoryError = MemoryError::WrongDomain;
const RIGHT: MemoryError = MemoryError::NoPermission;
const BOUNDS: MemoryError = MemoryError::OutOfBounds;
const ALIGN: MemoryError = MemoryError::Misaligned;

const ADD: AtomicOp = AtomicOp::FetchAdd { add: 1 };

/// Ranges of a region of 64 bytes from BASE on; true if they are inside.
const RANGES: [(u64, u32, bool); 14] = [
    (BASE, 64, true),
    (BASE, 1, true),
    (BASE + 63, 1, true),
    (BASE + 8, 56, true),
    (BASE, 65, false),
    (BASE + 63, 2, false),
    (BASE + 64, 1, false),
    (BASE - 1, 1, false),
    (BASE - 1, 66, false),
    (0, 1, false),
    (u64::MAX, 1, false),
    (u64::MAX - 62, 64, false),
    (u64::MAX, u32::MAX, false),
    (BASE, u32::MAX, false),
];

#[test]
fn ranges_are_inside_or_refused() {
    let fixture = Fixture::new();
    let (_region, keys) = fixture.region(64, ALL);
    let (registry, pd, who) = (&fixture.registry, fixture.pd, fixture.who(1));
    for (addr, len, inside) in RANGES {
        let expected = if inside { Ok(()) } else { Err(BOUNDS) };
        let list = [sge(keys.lkey, addr, len)];
        assert_eq!(registry.check_local(pd, &list, true), expected);
        let right = Access::REMOTE_READ;
        let checked = registry.check_remote(who, keys.rkey, addr, len.into(), right);
        assert_eq!(checked, expected);
        let mut bytes = vec![0; len.min(100) as usize];
        assert_eq!(registry.remote_write(who, keys.rkey, addr, &bytes), expected);
        assert_eq!(registry.remote_read(who, keys.rkey, addr, &mut bytes), expected);
        assert_eq!(registry.scatter(pd, &list, 0, &bytes), expected);
        assert_eq!(registry.gather(pd, &list, 0, &mut bytes), expected);
    }
    let huge = registry.check_remote(who, keys.rkey, BASE, u64::MAX, Access::REMOTE_READ);
    assert_eq!(huge, Err(BOUNDS));
}

#[test]
fn every_right_is_asked_for_on_its_own() {
    let fixture = Fixture::new();
    let (registry, who) = (&fixture.registry, fixture.who(1));
    let base = Access::LOCAL_WRITE;
    for right in [Access::REMOTE_READ, Access::REMOTE_WRITE, Access::REMOTE_ATOMIC] {
        let (_region, keys) = fixture.region(64, base | right);
        let expect = |needed| if needed == right { Ok(()) } else { Err(RIGHT) };
        let read = registry.remote_read(who, keys.rkey, BASE, &mut [0; 8]);
        assert_eq!(read, expect(Access::REMOTE_READ));
        let write = registry.remote_write(who, keys.rkey, BASE, &[0; 8]);
        assert_eq!(write, expect(Access::REMOTE_WRITE));
        let atomic = registry.remote_atomic(who, keys.rkey, BASE, ADD);
        assert_eq!(atomic.map(drop), expect(Access::REMOTE_ATOMIC));
        for asked in [Access::REMOTE_READ, Access::REMOTE_WRITE, Access::REMOTE_ATOMIC] {
            let checked = registry.check_remote(who, keys.rkey, BASE, 8, asked);
            assert_eq!(checked, expect(asked));
            let both = registry.check_remote(who, keys.rkey, BASE, 8, asked | right);
            assert_eq!(both, expect(asked));
        }
    }
}

#[test]
fn local_lists_need_local_write_only_to_be_written() {
    let fixture = Fixture::new();
    let (region, keys) = fixture.region(64, Access::REMOTE_READ);
    let list = [sge(keys.lkey, BASE, 8)];
    let (registry, pd) = (&fixture.registry, fixture.pd);
    assert_eq!(registry.check_local(pd, &list, false), Ok(()));
    assert_eq!(registry.gather(pd, &list, 0, &mut [0; 8]), Ok(()));
    assert_eq!(registry.check_local(pd, &list, true), Err(RIGHT));
    assert_eq!(registry.scatter(pd, &list, 0, &[9; 8]), Err(RIGHT));
    assert_eq!(contents(&region), [0; 64]);
}

#[test]
fn other_protection_domains_are_refused() {
    let fixture = Fixture::new();
    let (region, keys) = fixture.region(64, ALL);
    let registry = &fixture.registry;
    let other = registry.alloc_pd();
    let (who, list) = (accessor(other, 1), [sge(keys.lkey, BASE, 8)]);
    assert_eq!(registry.check_local(other, &list, false), Err(DOMAIN));
    assert_eq!(registry.scatter(other, &list, 0, &[9; 8]), Err(DOMAIN));
    assert_eq!(registry.gather(other, &list, 0, &mut [0; 8]), Err(DOMAIN));
    assert_eq!(registry.remote_write(who, keys.rkey, BASE, &[9; 8]), Err(DOMAIN));
    assert_eq!(registry.remote_read(who, keys.rkey, BASE, &mut [0; 8]), Err(DOMAIN));
    assert_eq!(registry.remote_atomic(who, keys.rkey, BASE, ADD), Err(DOMAIN));
    let right = Access::REMOTE_READ;
    assert_eq!(registry.check_remote(who, keys.rkey, BASE, 8, right), Err(DOMAIN));
    assert_eq!(contents(&region), [0; 64]);
}

#[test]
fn keys_that_differ_in_one_bit_or_in_kind_are_no_keys() {
    let fixture = Fixture::new();
    let (region, keys) = fixture.region(64, ALL);
    let (registry, pd, who) = (&fixture.registry, fixture.pd, fixture.who(1));
    let flips = (0..32).map(|bit| 1u32 << bit);
    let wrong_rkeys = flips.clone().map(|flip| keys.rkey.0 ^ flip).chain([keys.lkey.0, 0]);
    for rkey in wrong_rkeys.map(RKey) {
        assert_eq!(registry.remote_write(who, rkey, BASE, &[9]), Err(BAD_KEY));
        assert_eq!(registry.remote_atomic(who, rkey, BASE, ADD), Err(BAD_KEY));
        assert_eq!(registry.invalidate(who, rkey), Err(BAD_KEY));
    }
    let wrong_lkeys = flips.map(|flip| keys.lkey.0 ^ flip).chain([keys.rkey.0, 0]);
    for lkey in wrong_lkeys.map(LKey) {
        let list = [sge(lkey, BASE, 1)];
        assert_eq!(registry.scatter(pd, &list, 0, &[9]), Err(BAD_KEY));
        assert_eq!(registry.check_local(pd, &list, true), Err(BAD_KEY));
    }
    assert_eq!(contents(&region), [0; 64]);
}

#[test]
fn operations_of_no_bytes_need_no_key() {
    let fixture = Fixture::new();
    let (registry, pd, who) = (&fixture.registry, fixture.pd, fixture.who(1));
    let (nothing, list) = (RKey(0x1234), [sge(LKey(0x1234), u64::MAX, 0)]);
    assert_eq!(registry.remote_write(who, nothing, u64::MAX, &[]), Ok(()));
    assert_eq!(registry.remote_read(who, nothing, u64::MAX, &mut []), Ok(()));
    assert_eq!(registry.check_remote(who, nothing, 5, 0, Access::REMOTE_WRITE), Ok(()));
    assert_eq!(registry.check_local(pd, &list, true), Ok(()));
    assert_eq!(registry.gather(pd, &list, 0, &mut []), Ok(()));
    assert_eq!(registry.scatter(pd, &[], u64::MAX, &[]), Ok(()));
}

#[test]
fn atomics_work_on_aligned_words_inside() {
    let fixture = Fixture::new();
    let (region, keys) = fixture.region(64, ALL);
    let (registry, who) = (&fixture.registry, fixture.who(1));
    for (addr, expected) in [
        (BASE + 4, Err(ALIGN)),
        (BASE + 1, Err(ALIGN)),
        (BASE + 57, Err(BOUNDS)),
        (BASE + 64, Err(BOUNDS)),
        (u64::MAX - 7, Err(BOUNDS)),
        (u64::MAX, Err(BOUNDS)),
        (BASE + 56, Ok(0)),
        (BASE + 56, Ok(1)),
    ] {
        assert_eq!(registry.remote_atomic(who, keys.rkey, addr, ADD), expected);
    }
    let swap = |compare, swap| AtomicOp::CompareSwap { compare, swap };
    let word = |op| registry.remote_atomic(who, keys.rkey, BASE, op);
    assert_eq!([word(swap(1, 7)), word(swap(0, 7)), word(ADD)], [Ok(0), Ok(0), Ok(7)]);
    let (bytes, mut expected) = (contents(&region), [0; 64]);
    (expected[0], expected[56]) = (8, 2);
    assert_eq!(bytes, expected);
}

#[test]
fn atomics_need_the_memory_itself_aligned_too() {
    let fixture = Fixture::new();
    let region = Arc::new(Region::allocate(64).expect("memory"));
    let keys = fixture.registry.register_region(fixture.pd, region, Some(BASE + 4), ALL).expect("a region");
    let at = |addr| fixture.registry.remote_atomic(fixture.who(1), keys.rkey, addr, ADD);
    assert_eq!(at(BASE + 8), Err(ALIGN), "aligned by number, not in memory");
    assert_eq!(at(BASE + 12), Err(ALIGN), "aligned in memory, not by number");
}

#[test]
fn addresses_may_reach_to_the_end_of_the_numbers() {
    let fixture = Fixture::new();
    let region = Arc::new(Region::allocate(64).expect("memory"));
    let base = u64::MAX - 64;
    let keys = fixture.registry.register_region(fixture.pd, region.clone(), Some(base), ALL).expect("a region");
    let write = |addr, data: &[u8]| {
        let who = fixture.who(1);
        fixture.registry.remote_write(who, keys.rkey, addr, data)
    };
    assert_eq!(write(u64::MAX - 1, &[5]), Ok(()));
    assert_eq!(write(u64::MAX, &[5]), Err(BOUNDS));
    assert_eq!(write(u64::MAX - 1, &[5, 5]), Err(BOUNDS));
    assert_eq!(write(0, &[5]), Err(BOUNDS));
    assert_eq!(contents(&region)[63], 5);
    let list = [sge(keys.lkey, u64::MAX - 3, 100)];
    assert_eq!(fixture.registry.scatter(fixture.pd, &list, 10, &[1]), Err(BOUNDS));
}

#[test]
fn lists_are_walked_from_any_offset() {
    let fixture = Fixture::new();
    let (one, keys_one) = fixture.region(100, ALL);
    let (two, keys_two) = fixture.region(100, ALL);
    let (registry, pd) = (&fixture.registry, fixture.pd);
    let list = [
        sge(keys_one.lkey, BASE + 10, 7),
        sge(LKey(1), 0, 0),
        sge(keys_two.lkey, BASE, 30),
        sge(keys_one.lkey, BASE + 50, 13),
    ];
    let places: Vec<(bool, usize)> =
        (10..17).map(|i| (true, i)).chain((0..30).map(|i| (false, i))).chain((50..63).map(|i| (true, i))).collect();
    for offset in 0..=50 {
        for len in 0..=50 - offset {
            one.span().write(&[0; 100]);
            two.span().write(&[0; 100]);
            let data: Vec<u8> = (1..=len as u8).collect();
            assert_eq!(registry.scatter(pd, &list, offset as u64, &data), Ok(()));
            let mut expected = [[0u8; 100]; 2];
            for (byte, (first, at)) in data.iter().zip(&places[offset..]) {
                expected[usize::from(!first)][*at] = *byte;
            }
            assert_eq!([contents(&one), contents(&two)], expected.map(Vec::from));
            let mut back = vec![0; len];
            assert_eq!(registry.gather(pd, &list, offset as u64, &mut back), Ok(()));
            assert_eq!(back, data);
        }
    }
}

#[test]
fn lists_that_are_too_short_are_refused_before_anything_moves() {
    let fixture = Fixture::new();
    let (region, keys) = fixture.region(64, ALL);
    let (registry, pd) = (&fixture.registry, fixture.pd);
    let list = [sge(keys.lkey, BASE, 8), sge(keys.lkey, BASE + 8, 8)];
    for (list, offset, len) in [
        (&list[..], 0, 17),
        (&list[..], 16, 1),
        (&list[..], 9, 8),
        (&list[..], u64::MAX, 1),
        (&list[..], u64::MAX - 7, 16),
        (&[][..], 0, 1),
    ] {
        assert_eq!(registry.scatter(pd, list, offset, &vec![9; len]), Err(BOUNDS));
        assert_eq!(registry.gather(pd, list, offset, &mut vec![0; len]), Err(BOUNDS));
    }
    assert_eq!(contents(&region), [0; 64]);
}

#[test]
fn every_entry_of_a_list_is_checked() {
    let fixture = Fixture::new();
    let (_region, keys) = fixture.region(64, ALL);
    let (registry, pd) = (&fixture.registry, fixture.pd);
    let good = sge(keys.lkey, BASE, 8);
    for (bad, error) in [
        (sge(LKey(keys.lkey.0 ^ 1), BASE, 8), BAD_KEY),
        (sge(keys.lkey, BASE + 57, 8), BOUNDS),
        (sge(keys.lkey, u64::MAX, 8), BOUNDS),
    ] {
        for list in [[bad, good, good], [good, bad, good], [good, good, bad]] {
            assert_eq!(registry.check_local(pd, &list, true), Err(error));
            assert_eq!(registry.scatter(pd, &list, 0, &[0; 24]), Err(error));
        }
    }
}

#[test]
fn regions_cannot_be_invalidated() {
    let fixture = Fixture::new();
    let (_region, keys) = fixture.region(64, ALL);
    let registry = &fixture.registry;
    assert_eq!(registry.invalidate(fixture.who(1), keys.rkey), Err(RIGHT));
    let other = accessor(registry.alloc_pd(), 1);
    assert_eq!(registry.invalidate(other, keys.rkey), Err(DOMAIN));
    assert_eq!(registry.remote_write(fixture.who(1), keys.rkey, BASE, &[1]), Ok(()));
}

#[test]
fn an_atomic_write_is_a_write_of_one_aligned_word() {
    let fixture = Fixture::new();
    let (region, keys) = fixture.region(64, ALL);
    let (registry, who) = (&fixture.registry, fixture.who(1));
    let value = 0x0123_4567_89ab_cdef_u64.to_ne_bytes();
    for (addr, expected) in [
        (BASE, Ok(())),
        (BASE + 56, Ok(())),
        (BASE + 4, Err(ALIGN)),
        (BASE + 57, Err(BOUNDS)),
        (BASE + 64, Err(BOUNDS)),
        (BASE - 8, Err(BOUNDS)),
    ] {
        assert_eq!(registry.remote_atomic_write(who, keys.rkey, addr, value), expected, "{addr:#x}");
    }
    let bytes = contents(&region);
    assert_eq!((&bytes[..8], &bytes[8..56], &bytes[56..]), (&value[..], &[0; 48][..], &value[..]));
    let (_other, reads) = fixture.region(64, Access::LOCAL_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC);
    assert_eq!(registry.remote_atomic_write(who, reads.rkey, BASE, value), Err(RIGHT));
    assert_eq!(registry.remote_atomic_write(accessor(registry.alloc_pd(), 1), keys.rkey, BASE, value), Err(DOMAIN));
}

#[test]
fn a_region_that_begins_oddly_has_no_word_to_write_at_once() {
    let fixture = Fixture::new();
    let region = Arc::new(Region::allocate(64).unwrap());
    let entered = fixture.registry.register_region(fixture.pd, region.clone(), Some(BASE + 4), ALL).unwrap();
    for addr in [BASE + 4, BASE + 8] {
        let written = fixture.registry.remote_atomic_write(fixture.who(1), entered.rkey, addr, [1; 8]);
        assert_eq!(written, Err(ALIGN));
    }
    assert_eq!(contents(&region), [0; 64]);
}

#[test]
fn a_flush_asks_for_key_right_and_range() {
    let fixture = Fixture::new();
    let global = Access::FLUSH_GLOBAL;
    let (_region, keys) = fixture.region(64, global);
    let (_other, without) = fixture.region(64, ALL);
    let (registry, who) = (&fixture.registry, fixture.who(1));
    let flush = |rkey, range, access| registry.remote_flush(who, rkey, range, access);
    for (addr, len, inside) in RANGES {
        let expected = if inside { Ok(()) } else { Err(BOUNDS) };
        assert_eq!(flush(keys.rkey, Some((addr, len.into())), global), expected);
    }
    assert_eq!(flush(keys.rkey, None, global), Ok(()));
    assert_eq!(flush(keys.rkey, None, global | Access::FLUSH_PERSISTENT), Err(RIGHT));
    assert_eq!(flush(without.rkey, None, global), Err(RIGHT));
    assert_eq!(flush(RKey(keys.rkey.0 ^ 1), None, global), Err(BAD_KEY));
}

#[test]
fn objects_are_read_with_the_rights_of_a_read() {
    let fixture = Fixture::new();
    let (registry, who) = (&fixture.registry, fixture.who(1));
    let (region, keys) = fixture.region(64, Access::REMOTE_READ);
    region.span().part(0, 8).unwrap().write(&7u64.to_ne_bytes());
    let read = |addr, mask, len: usize| registry.remote_read_object(who, keys.rkey, addr, mask, &mut vec![0; len]);
    assert_eq!(read(BASE, 8, 64), Ok(64));
    assert_eq!(read(BASE, 4, 64), Ok(8), "locked");
    assert_eq!(
        (read(BASE + 4, 0, 16), read(BASE + 56, 0, 16), read(BASE, 0, 72)),
        (Err(ALIGN), Err(BOUNDS), Err(BOUNDS))
    );
    let (_hidden, hidden) = fixture.region(64, Access::LOCAL_WRITE | Access::REMOTE_WRITE);
    assert_eq!(registry.remote_read_object(who, hidden.rkey, BASE, 0, &mut [0; 16]), Err(RIGHT));
    assert_eq!(registry.remote_read_object(who, RKey(1), BASE, 0, &mut [0; 16]), Err(BAD_KEY));
}
