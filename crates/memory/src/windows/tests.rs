use std::sync::Arc;

use transport::{LKey, Memory};

use super::*;
use crate::region::Region;
use crate::registry::MrKeys;
use crate::testing::{ALL, BASE, Fixture, accessor, contents};

const BAD_KEY: Result<(), MemoryError> = Err(MemoryError::BadKey);
const DOMAIN: Result<(), MemoryError> = Err(MemoryError::WrongDomain);
const RIGHT: Result<(), MemoryError> = Err(MemoryError::NoPermission);
const BOUNDS: Result<(), MemoryError> = Err(MemoryError::OutOfBounds);

/// The default queue pair for binds.
const QPN: u32 = 0x11;

/// A region of 64 bytes that peers cannot reach, and a window.
struct Case {
    fixture: Fixture,
    region: Arc<Region>,
    keys: MrKeys,
    window: MwKeys,
}

impl Case {
    fn new(kind: MwType) -> Case {
        let fixture = Fixture::new();
        let (region, keys) = fixture.region(64, Access::LOCAL_WRITE | Access::MW_BIND);
        let window = fixture.registry.alloc_mw(fixture.pd, kind).expect("a window");
        Case { fixture, region, keys, window }
    }

    fn registry(&self) -> &Registry {
        &self.fixture.registry
    }

    fn who(&self) -> Accessor {
        self.fixture.who(QPN)
    }

    /// Bytes 16 to 48, for writing and reading.
    fn request(&self) -> BindMw {
        BindMw {
            window: self.window.rkey,
            new_rkey: self.key(1),
            region: self.keys.lkey,
            addr: BASE + 16,
            len_bytes: 32,
            access: Access::REMOTE_WRITE | Access::REMOTE_READ,
        }
    }

    /// The window's key with another low byte.
    fn key(&self, add: u32) -> RKey {
        let rkey = self.window.rkey.0;
        RKey(rkey & !0xff | rkey.wrapping_add(add) & 0xff)
    }

    fn bind(&self, request: &BindMw) -> Result<(), MemoryError> {
        self.registry().bind(self.who(), request)
    }

    fn write(&self, who: Accessor, rkey: RKey, addr: u64) -> Result<(), MemoryError> {
        self.registry().remote_write(who, rkey, addr, &[7; 4])
    }
}

#[test]
fn a_bound_window_opens_its_range_and_no_more() {
    for kind in [MwType::One, MwType::Two] {
        let case = Case::new(kind);
        assert_eq!(case.write(case.who(), case.window.rkey, BASE + 16), BAD_KEY);
        assert_eq!(case.bind(&case.request()), Ok(()));
        let new = case.key(1);
        assert_eq!(case.write(case.who(), new, BASE + 16), Ok(()));
        assert_eq!(case.write(case.who(), new, BASE + 44), Ok(()));
        assert_eq!(case.write(case.who(), new, BASE + 15), BOUNDS);
        assert_eq!(case.write(case.who(), new, BASE + 45), BOUNDS);
        assert_eq!(case.write(case.who(), new, u64::MAX), BOUNDS);
        assert_eq!(case.write(case.who(), case.window.rkey, BASE + 16), BAD_KEY);
        assert_eq!(case.write(case.who(), case.keys.rkey, BASE + 16), RIGHT);
        let add = transport::AtomicOp::FetchAdd { add: 1 };
        let atomic = case.registry().remote_atomic(case.who(), new, BASE + 16, add);
        assert_eq!(atomic, Err(MemoryError::NoPermission));
        let mut expected = [0; 64];
        expected[16..20].fill(7);
        expected[44..48].fill(7);
        assert_eq!(contents(&case.region), expected);
    }
}

#[test]
fn a_zero_based_window_counts_from_its_first_byte() {
    let case = Case::new(MwType::Two);
    let zero_based = BindMw { access: Access::REMOTE_WRITE | Access::ZERO_BASED, ..case.request() };
    assert_eq!(case.bind(&zero_based), Ok(()));
    let new = case.key(1);
    assert_eq!(case.write(case.who(), new, 0), Ok(()));
    assert_eq!(case.write(case.who(), new, 29), BOUNDS);
    assert_eq!(case.write(case.who(), new, BASE + 16), BOUNDS);
    assert_eq!(contents(&case.region)[16..21], [7, 7, 7, 7, 0]);
    let first = Case::new(MwType::One);
    let refused = BindMw { window: first.window.rkey, new_rkey: first.key(1), region: first.keys.lkey, ..zero_based };
    assert_eq!(first.bind(&refused), RIGHT);
}

/// Binds that both types refuse.
fn refused_binds(case: &Case) -> Vec<(BindMw, Result<(), MemoryError>)> {
    let good = case.request();
    let bind = |change: fn(&mut BindMw), error| {
        let mut bind = good;
        change(&mut bind);
        (bind, error)
    };
    vec![
        bind(|b| b.window.0 ^= 1 << 31, BAD_KEY),
        bind(|b| b.region.0 ^= 1, BAD_KEY),
        bind(|b| b.region.0 ^= 1 << 20, BAD_KEY),
        bind(|b| b.access = Access::LOCAL_WRITE, RIGHT),
        bind(|b| b.access = Access::MW_BIND | Access::REMOTE_READ, RIGHT),
        bind(|b| b.access = Access::from_bits_retain(1 << 29), RIGHT),
        bind(|b| b.addr = BASE - 1, BOUNDS),
        bind(|b| b.addr = BASE + 33, BOUNDS),
        bind(|b| b.addr = u64::MAX, BOUNDS),
        bind(|b| b.len_bytes = 49, BOUNDS),
        bind(|b| b.len_bytes = u64::MAX, BOUNDS),
    ]
}

#[test]
fn impossible_binds_are_refused() {
    for kind in [MwType::One, MwType::Two] {
        let case = Case::new(kind);
        for (bind, error) in refused_binds(&case) {
            assert_eq!(case.bind(&bind), error, "{bind:?}");
        }
        let mine = BindMw { window: case.keys.rkey, new_rkey: case.keys.rkey, ..case.request() };
        assert_eq!(case.bind(&mine), BAD_KEY, "a region is no window");
        let other = accessor(case.registry().alloc_pd(), QPN);
        assert_eq!(case.registry().bind(other, &case.request()), DOMAIN);
        let info = case.registry().mw_info(case.window.id).expect("alive");
        assert_eq!((info.bound, info.rkey), (false, case.window.rkey));
        assert_eq!(case.bind(&case.request()), Ok(()));
    }
}

#[test]
fn a_window_needs_rights_of_its_region() {
    let case = Case::new(MwType::One);
    for (region, window, expected) in [
        (Access::MW_BIND, Access::REMOTE_READ, Ok(())),
        (Access::MW_BIND, Access::REMOTE_WRITE, RIGHT),
        (Access::MW_BIND, Access::REMOTE_ATOMIC, RIGHT),
        (Access::MW_BIND | Access::LOCAL_WRITE, Access::REMOTE_WRITE, Ok(())),
        (Access::MW_BIND | Access::LOCAL_WRITE, Access::REMOTE_ATOMIC, Ok(())),
        (Access::LOCAL_WRITE, Access::REMOTE_READ, RIGHT),
        (ALL - Access::MW_BIND, Access::REMOTE_READ, RIGHT),
    ] {
        let (_region, keys) = case.fixture.region(64, region);
        let info = case.registry().mw_info(case.window.id).expect("alive");
        let bind = BindMw { window: info.rkey, region: keys.lkey, access: window, ..case.request() };
        assert_eq!(case.bind(&bind), expected, "{region:?} {window:?}");
    }
}

#[test]
fn a_region_of_another_domain_cannot_be_opened() {
    let case = Case::new(MwType::Two);
    let other = case.registry().alloc_pd();
    let region = Arc::new(Region::allocate(64).expect("memory"));
    let keys = case.registry().register_region(other, region, Some(BASE), ALL);
    let bind = BindMw { region: keys.expect("a region").lkey, ..case.request() };
    assert_eq!(case.bind(&bind), DOMAIN);
}

#[test]
fn a_type_1_window_serves_every_queue_pair_of_its_domain() {
    let case = Case::new(MwType::One);
    assert_eq!(case.bind(&case.request()), Ok(()));
    let new = case.key(1);
    assert_eq!(case.write(case.fixture.who(0x99), new, BASE + 16), Ok(()));
    let other = accessor(case.registry().alloc_pd(), QPN);
    assert_eq!(case.write(other, new, BASE + 16), DOMAIN);
}

#[test]
fn a_type_2_window_serves_the_queue_pair_that_bound_it() {
    let case = Case::new(MwType::Two);
    assert_eq!(case.bind(&case.request()), Ok(()));
    let new = case.key(1);
    assert_eq!(case.write(case.who(), new, BASE + 16), Ok(()));
    assert_eq!(case.write(case.fixture.who(0x99), new, BASE + 16), DOMAIN);
    let other = accessor(case.registry().alloc_pd(), QPN);
    assert_eq!(case.write(other, new, BASE + 16), DOMAIN);
}

#[test]
fn a_type_1_window_is_bound_again_at_once_and_unbound_by_no_bytes() {
    let case = Case::new(MwType::One);
    assert_eq!(case.bind(&case.request()), Ok(()));
    let again = BindMw { window: case.key(1), new_rkey: case.key(2), addr: BASE, ..case.request() };
    assert_eq!(case.bind(&again), Ok(()));
    assert_eq!(case.write(case.who(), case.key(1), BASE + 16), BAD_KEY);
    assert_eq!(case.write(case.who(), case.key(2), BASE), Ok(()));
    let unbind = BindMw { window: case.key(2), new_rkey: case.key(3), region: LKey(0), len_bytes: 0, ..again };
    assert_eq!(case.bind(&unbind), Ok(()));
    assert_eq!(case.write(case.who(), case.key(2), BASE), BAD_KEY);
    assert_eq!(case.write(case.who(), case.key(3), BASE), BAD_KEY);
    assert_eq!(case.registry().deregister(case.keys.id), Ok(()));
}

#[test]
fn a_failed_bind_leaves_the_window_as_it_was() {
    let case = Case::new(MwType::One);
    assert_eq!(case.bind(&case.request()), Ok(()));
    let bad = BindMw { window: case.key(1), new_rkey: case.key(2), addr: BASE + 60, ..case.request() };
    assert_eq!(case.bind(&bad), BOUNDS);
    assert_eq!(case.write(case.who(), case.key(1), BASE + 16), Ok(()));
}

#[test]
fn a_type_2_window_is_invalidated_before_it_is_bound_again() {
    let case = Case::new(MwType::Two);
    assert_eq!(case.bind(&BindMw { len_bytes: 0, ..case.request() }), BOUNDS);
    assert_eq!(case.bind(&case.request()), Ok(()));
    let again = BindMw { window: case.key(1), new_rkey: case.key(2), ..case.request() };
    assert_eq!(case.bind(&again), RIGHT);
    let registry = case.registry();
    assert_eq!(registry.invalidate(case.fixture.who(0x99), case.key(1)), DOMAIN);
    let other = accessor(registry.alloc_pd(), QPN);
    assert_eq!(registry.invalidate(other, case.key(1)), DOMAIN);
    assert_eq!(registry.invalidate(case.who(), case.key(2)), BAD_KEY);
    assert_eq!(case.write(case.who(), case.key(1), BASE + 16), Ok(()));
    assert_eq!(registry.invalidate(case.who(), case.key(1)), Ok(()));
    assert_eq!(case.write(case.who(), case.key(1), BASE + 16), BAD_KEY);
    assert_eq!(registry.invalidate(case.who(), case.key(1)), Ok(()), "nothing left to do");
    assert_eq!(registry.invalidate(other, case.key(1)), DOMAIN);
    assert_eq!(case.bind(&again), Ok(()));
    assert_eq!(case.write(case.who(), case.key(2), BASE + 16), Ok(()));
}

#[test]
fn a_type_1_window_cannot_be_invalidated() {
    let case = Case::new(MwType::One);
    assert_eq!(case.bind(&case.request()), Ok(()));
    assert_eq!(case.registry().invalidate(case.who(), case.key(1)), RIGHT);
    assert_eq!(case.write(case.who(), case.key(1), BASE + 16), Ok(()));
}

#[test]
fn a_region_outlives_its_windows() {
    for kind in [MwType::One, MwType::Two] {
        let case = Case::new(kind);
        assert_eq!(case.bind(&case.request()), Ok(()));
        assert_eq!(case.registry().deregister(case.keys.id), Err(MrError::Busy));
        assert_eq!(case.write(case.who(), case.key(1), BASE + 16), Ok(()));
        assert_eq!(case.registry().dealloc_mw(case.window.id), Ok(()));
        assert_eq!(case.write(case.who(), case.key(1), BASE + 16), BAD_KEY);
        assert_eq!(case.registry().deregister(case.keys.id), Ok(()));
        let gone = Err(MrError::UnknownId);
        assert_eq!(case.registry().dealloc_mw(case.window.id), gone);
        assert_eq!(case.registry().mw_info(case.window.id).map(drop), gone);
        assert_eq!(case.registry().free_pd(case.fixture.pd), Ok(()));
    }
}

#[test]
fn windows_keep_their_domain_busy_and_need_one() {
    let Fixture { registry, pd } = Fixture::new();
    assert_eq!(registry.alloc_mw(PdId(99), MwType::One), Err(MrError::UnknownPd));
    registry.control.lock().slots.limit = 1;
    let window = registry.alloc_mw(pd, MwType::One).expect("a window");
    assert_eq!(registry.alloc_mw(pd, MwType::One), Err(MrError::Full));
    assert_eq!(registry.free_pd(pd), Err(MrError::Busy));
    assert_eq!(registry.dealloc_mw(window.id), Ok(()));
    assert_eq!(registry.free_pd(pd), Ok(()));
}

#[test]
fn a_queue_pair_takes_its_type_2_binds_along() {
    let case = Case::new(MwType::Two);
    let (registry, pd) = (case.registry(), case.fixture.pd);
    let other = registry.alloc_mw(pd, MwType::Two).expect("a window");
    let shared = registry.alloc_mw(pd, MwType::One).expect("a window");
    assert_eq!(case.bind(&case.request()), Ok(()));
    let bind = |who, window: MwKeys| {
        let bind = BindMw { window: window.rkey, new_rkey: window.rkey, ..case.request() };
        registry.bind(who, &bind)
    };
    assert_eq!(bind(case.fixture.who(QPN + 1), other), Ok(()));
    assert_eq!(bind(case.who(), shared), Ok(()));
    registry.release_qp(Qpn::new(QPN));
    registry.release_qp(Qpn::new(QPN));
    assert_eq!(case.write(case.who(), case.key(1), BASE + 16), BAD_KEY);
    assert_eq!(case.write(case.fixture.who(QPN + 1), other.rkey, BASE + 16), Ok(()));
    assert_eq!(case.write(case.who(), shared.rkey, BASE + 16), Ok(()));
    assert_eq!(bind(case.who(), MwKeys { rkey: case.key(1), ..case.window }), Ok(()));
}

#[test]
fn a_window_that_went_to_another_queue_pair_stays_there() {
    let case = Case::new(MwType::Two);
    assert_eq!(case.bind(&case.request()), Ok(()));
    assert_eq!(case.registry().invalidate(case.who(), case.key(1)), Ok(()));
    let heir = case.fixture.who(QPN + 1);
    let again = BindMw { window: case.key(1), new_rkey: case.key(2), ..case.request() };
    assert_eq!(case.registry().bind(heir, &again), Ok(()));
    case.registry().release_qp(Qpn::new(QPN));
    assert_eq!(case.write(heir, case.key(2), BASE + 16), Ok(()));
}

#[test]
fn of_the_new_key_only_the_low_byte_is_the_consumers() {
    for kind in [MwType::One, MwType::Two] {
        let case = Case::new(kind);
        let wild = RKey(0x1234_5600 | case.key(1).0 & 0xff);
        assert_eq!(case.bind(&BindMw { new_rkey: wild, ..case.request() }), Ok(()));
        assert_eq!(case.registry().mw_info(case.window.id).unwrap().rkey, case.key(1));
        assert_eq!(case.write(case.who(), case.key(1), BASE + 16), Ok(()));
        assert_eq!(case.write(case.who(), wild, BASE + 16), BAD_KEY);
    }
}

/// A program that does not know the window's latest key can still bind it.
#[test]
fn any_key_of_the_window_names_it_in_a_bind() {
    let case = Case::new(MwType::One);
    assert_eq!(case.bind(&case.request()), Ok(()));
    let second = BindMw { new_rkey: case.key(2), ..case.request() };
    assert_eq!(case.bind(&second), Ok(()));
    assert_eq!(case.registry().mw_info(case.window.id).unwrap().rkey, case.key(2));
}

#[test]
fn a_peer_cannot_invalidate_a_window_that_is_not_bound() {
    let case = Case::new(MwType::Two);
    assert_eq!(case.registry().remote_invalidate(case.who(), case.window.rkey), BAD_KEY);
    assert_eq!(case.bind(&case.request()), Ok(()));
    assert_eq!(case.registry().remote_invalidate(case.fixture.who(0x99), case.key(1)), DOMAIN);
    assert_eq!(case.registry().remote_invalidate(case.who(), case.key(1)), Ok(()));
    assert_eq!(case.registry().remote_invalidate(case.who(), case.key(1)), BAD_KEY);
    assert_eq!(case.registry().invalidate(case.who(), case.key(1)), Ok(()), "invalid already");
}
