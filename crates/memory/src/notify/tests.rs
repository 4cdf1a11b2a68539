use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use transport::{BindMw, LKey, Memory};

use super::*;
use crate::testing::{ALL, BASE, Fixture, sge};
use crate::{MrKeys, MrSpec, MwType, ObjectFile, ObjectPlace, Region, Span};

/// The notifications, in order.
#[derive(Clone, PartialEq, Debug)]
enum Told {
    Added(u32, u64),
    Removed(u32),
    Opened(u32, SharedKey),
    Closed(u32),
}

#[derive(Default)]
struct Log {
    told: Mutex<Vec<Told>>,
    /// The descriptor of the latest object.
    fd: Mutex<Option<Arc<OwnedFd>>>,
}

impl Log {
    fn take(&self) -> Vec<Told> {
        std::mem::take(&mut self.told.lock().expect("no panic"))
    }

    fn push(&self, told: Told) {
        self.told.lock().expect("no panic").push(told);
    }
}

impl Mirror for Log {
    fn object_added(&self, object: u32, file: &ObjectFile) {
        *self.fd.lock().expect("no panic") = Some(Arc::clone(&file.fd));
        self.push(Told::Added(object, file.len_bytes));
    }

    fn given_up(&self) {}

    fn object_removed(&self, object: u32) {
        self.push(Told::Removed(object));
    }

    fn opened(&self, slot: u32, key: &SharedKey) {
        self.push(Told::Opened(slot, *key));
    }

    fn closed(&self, slot: u32) {
        self.push(Told::Closed(slot));
    }
}

fn mirrored() -> (Fixture, Arc<Log>) {
    let (fixture, log) = (Fixture::new(), Arc::new(Log::default()));
    fixture.registry.set_mirror(log.clone());
    (fixture, log)
}

/// The object number of the first notification.
fn added(told: &[Told]) -> u32 {
    match told.first() {
        Some(Told::Added(object, _)) => *object,
        other => panic!("no object first, but {other:?}"),
    }
}

#[test]
fn a_region_is_told_with_its_memory_and_taken_back() {
    let (fixture, log) = mirrored();
    let (region, keys) = fixture.region(100, ALL);
    let told = log.take();
    let object = added(&told);
    let slot = fixture.registry.remote_keys().slot(keys.rkey);
    let key = SharedKey {
        rkey: keys.rkey,
        pd: fixture.pd,
        access: ALL,
        only: None,
        base: BASE,
        len_bytes: 100,
        start: region.ptr().addr() as u64,
        place: Some(ObjectPlace { object, offset: 0, skip_front: 0, skip_back: 0 }),
    };
    assert_eq!(told, [Told::Added(object, region.mapped_bytes()), Told::Opened(slot, key)]);
    let fd = log.fd.lock().expect("no panic").take().expect("a descriptor");
    region.span().write(&[7; 100]);
    let mut seen = [0u8; 100];
    // SAFETY: the kernel writes at most 100 bytes to the array.
    let count = unsafe { libc::pread(fd.as_raw_fd(), seen.as_mut_ptr().cast(), 100, 0) };
    assert_eq!((count, seen), (100, [7; 100]));
    fixture.registry.deregister(keys.id).expect("alive");
    assert_eq!(log.take(), [Told::Closed(slot), Told::Removed(object)]);
}

#[test]
fn an_object_lasts_from_its_first_key_to_its_last() {
    let (fixture, log) = mirrored();
    let region = Arc::new(Region::allocate(64).expect("memory"));
    let register = || fixture.registry.register_region(fixture.pd, region.clone(), None, ALL).expect("a region");
    let (one, two) = (register(), register());
    let told = log.take();
    assert!(matches!(told[..], [Told::Added(..), Told::Opened(..), Told::Opened(..)]), "{told:?}");
    fixture.registry.deregister(one.id).expect("alive");
    assert!(matches!(log.take()[..], [Told::Closed(_)]));
    fixture.registry.deregister(two.id).expect("alive");
    assert!(matches!(log.take()[..], [Told::Closed(_), Told::Removed(_)]));
    register();
    assert_ne!(added(&log.take()), added(&told), "numbers are not used again");
}

#[test]
fn keys_without_remote_rights_are_not_told_but_their_memory_is() {
    let (fixture, log) = mirrored();
    let (_region, keys) = fixture.region(64, Access::LOCAL_WRITE | Access::MW_BIND);
    let told = log.take();
    assert!(matches!(told[..], [Told::Added(_, 4096)]), "{told:?}");
    fixture.registry.deregister(keys.id).expect("alive");
    assert_eq!(log.take(), [Told::Removed(added(&told))]);
}

#[test]
fn keys_from_before_the_mirror_are_told_when_it_is_set() {
    let fixture = Fixture::new();
    let (_one, kept) = fixture.region(64, ALL);
    let (_two, ended) = fixture.region(64, ALL);
    let window = fixture.registry.alloc_mw(fixture.pd, MwType::Two).expect("a window");
    fixture.registry.alloc_mw(fixture.pd, MwType::One).expect("a window that stays unbound");
    let bind = BindMw {
        window: window.rkey,
        new_rkey: window.rkey,
        region: kept.lkey,
        addr: BASE,
        len_bytes: 8,
        access: Access::REMOTE_READ,
    };
    fixture.registry.bind(fixture.who(5), &bind).expect("bound");
    fixture.registry.deregister(ended.id).expect("alive");
    let log = Arc::new(Log::default());
    fixture.registry.set_mirror(log.clone());
    let told = log.take();
    let rkeys: Vec<_> =
        told.iter().filter_map(|t| if let Told::Opened(_, key) = t { Some(key.rkey) } else { None }).collect();
    added(&told);
    assert_eq!((told.len(), rkeys), (3, vec![kept.rkey, window.rkey]));
}

#[test]
#[should_panic(expected = "one mirror")]
fn a_second_mirror_is_refused() {
    let (fixture, log) = mirrored();
    fixture.registry.set_mirror(log);
}

/// The key of the last notification.
fn last_key(log: &Log) -> SharedKey {
    match log.take().last() {
        Some(Told::Opened(_, key)) => *key,
        other => panic!("no key last, but {other:?}"),
    }
}

#[test]
fn a_window_is_told_with_its_own_place_and_taken_back_whatever_ends_it() {
    let (fixture, log) = mirrored();
    let (registry, who) = (&fixture.registry, fixture.who(9));
    let (region, keys) = fixture.region(100, Access::LOCAL_WRITE | Access::MW_BIND);
    let object = added(&log.take());
    let window = registry.alloc_mw(fixture.pd, MwType::Two).expect("a window");
    let slot = registry.remote_keys().slot(window.rkey);
    let access = Access::REMOTE_WRITE | Access::ZERO_BASED;
    let mut bind = BindMw {
        window: window.rkey,
        new_rkey: window.rkey,
        region: keys.lkey,
        addr: BASE + 16,
        len_bytes: 32,
        access,
    };
    registry.bind(who, &bind).expect("bound");
    let expected = SharedKey {
        rkey: window.rkey,
        pd: fixture.pd,
        access,
        only: Some(who.qpn),
        base: 0,
        len_bytes: 32,
        start: region.ptr().addr() as u64 + 16,
        place: Some(ObjectPlace { object, offset: 16, skip_front: 0, skip_back: 0 }),
    };
    assert_eq!(log.take(), [Told::Opened(slot, expected)]);
    registry.invalidate(who, window.rkey).expect("its own");
    assert_eq!(log.take(), [Told::Closed(slot)]);
    registry.bind(who, &bind).expect("bound");
    registry.release_qp(who.qpn);
    assert!(matches!(log.take()[..], [Told::Opened(..), Told::Closed(_)]));
    registry.bind(who, &bind).expect("bound");
    registry.dealloc_mw(window.id).expect("alive");
    assert!(matches!(log.take()[..], [Told::Opened(..), Told::Closed(_)]));
    let first = registry.alloc_mw(fixture.pd, MwType::One).expect("a window");
    (bind.window, bind.new_rkey, bind.access) = (first.rkey, first.rkey, Access::REMOTE_READ);
    registry.bind(who, &bind).expect("bound");
    assert_eq!(last_key(&log).only, None);
    registry.bind(who, &BindMw { len_bytes: 0, ..bind }).expect("unbound");
    assert!(matches!(log.take()[..], [Told::Closed(_)]));
}

#[test]
fn on_demand_memory_has_no_place_and_says_what_it_is() {
    let (fixture, log) = mirrored();
    let mut bytes = vec![0u8; 64];
    let spec = MrSpec::new(fixture.pd, bytes.as_mut_ptr(), 64, ALL | Access::ON_DEMAND);
    // SAFETY: the vector outlives the registry.
    let keys = unsafe { fixture.registry.register(&spec) }.expect("registered");
    let key = last_key(&log);
    assert_eq!((key.place, key.len_bytes, key.start), (None, 64, spec.iova));
    assert!(key.access.contains(Access::ON_DEMAND));
    let window = fixture.registry.alloc_mw(fixture.pd, MwType::One).expect("a window");
    let bind = BindMw {
        window: window.rkey,
        new_rkey: window.rkey,
        region: keys.lkey,
        addr: spec.iova + 8,
        len_bytes: 8,
        access: Access::REMOTE_READ,
    };
    fixture.registry.bind(fixture.who(1), &bind).expect("bound");
    let key = last_key(&log);
    assert_eq!((key.access, key.start, key.place), (Access::REMOTE_READ | Access::ON_DEMAND, spec.iova + 8, None));
    fixture.registry.register_null(fixture.pd, Access::LOCAL_WRITE).expect("registered");
    assert_eq!(log.take(), []);
}

#[test]
fn another_registration_of_the_same_keys_is_a_close_and_an_open() {
    let (fixture, log) = mirrored();
    let (_region, keys) = fixture.region(64, ALL);
    let object = added(&log.take());
    let mut bytes = vec![0u8; 64];
    let spec = MrSpec::new(fixture.pd, bytes.as_mut_ptr(), 64, Access::REMOTE_READ);
    // SAFETY: the vector outlives the registry.
    unsafe { fixture.registry.reregister(&keys, &spec) }.expect("accepted");
    let told = log.take();
    assert!(matches!(told[..], [Told::Closed(_), Told::Removed(o), Told::Opened(..)] if o == object), "{told:?}");
}

#[test]
fn a_registry_that_goes_takes_back_everything() {
    let (fixture, log) = mirrored();
    let (_one, _) = fixture.region(64, ALL);
    let (_two, _) = fixture.region(64, Access::LOCAL_WRITE);
    log.take();
    drop(fixture);
    let told = log.take();
    assert!(matches!(told[..], [Told::Closed(_), Told::Removed(_), Told::Removed(_)]), "{told:?}");
}

/// A mirror that reports each close and waits for permission to return.
struct Slow(Mutex<(Sender<()>, Receiver<()>)>);

impl Mirror for Slow {
    fn object_added(&self, _: u32, _: &ObjectFile) {}
    fn given_up(&self) {}
    fn object_removed(&self, _: u32) {}
    fn opened(&self, _: u32, _: &SharedKey) {}
    fn closed(&self, _: u32) {
        let (asked, go) = &*self.0.lock().expect("no panic");
        asked.send(()).expect("listened to");
        // The channel is closed when the registry is dropped; then there is no permission.
        let _ = go.recv();
    }
}

#[test]
fn deregistration_waits_for_peers_and_holds_nobody_up() {
    let fixture = Fixture::new();
    let ((asked, was_asked), (go, let_go)) = (channel(), channel());
    fixture.registry.set_mirror(Arc::new(Slow(Mutex::new((asked, let_go)))));
    let (region, keys) = fixture.region(64, ALL);
    let registry = &fixture.registry;
    std::thread::scope(|scope| {
        let ended = scope.spawn(move || registry.deregister(keys.id));
        was_asked.recv().expect("a question");
        assert!(!ended.is_finished());
        assert_eq!(
            registry.check_remote(fixture.who(1), keys.rkey, BASE, 1, Access::REMOTE_READ),
            Err(MemoryError::BadKey)
        );
        assert_eq!(Arc::strong_count(&region), 3, "kept by the slot and as an object");
        let other = registry.alloc_pd();
        assert_eq!(registry.free_pd(other), Ok(()));
        go.send(()).expect("waiting");
        assert_eq!(ended.join().expect("no panic"), Ok(()));
    });
    assert_eq!(Arc::strong_count(&region), 1);
    drop(go);
}

#[test]
fn local_ranges_are_located() {
    let fixture = Fixture::new();
    let (_region, keys) = fixture.region(100, Access::empty());
    let (registry, pd) = (&fixture.registry, fixture.pd);
    let at = |addr, len| registry.locate(pd, &sge(keys.lkey, addr, len));
    let (object, offset) = at(BASE + 7, 93).expect("readable").expect("in an object");
    assert_eq!((offset, at(BASE, 100)), (7, Ok(Some((object, 0)))));
    assert_eq!(at(BASE, 101), Err(MemoryError::OutOfBounds));
    assert_eq!(at(BASE - 1, 1), Err(MemoryError::OutOfBounds));
    assert_eq!(registry.locate(pd, &sge(LKey(keys.lkey.0 ^ 256), BASE, 1)), Err(MemoryError::BadKey));
    assert_eq!(registry.locate(registry.alloc_pd(), &sge(keys.lkey, BASE, 1)), Err(MemoryError::WrongDomain));
    let bytes = [5u8; 16];
    let spec = MrSpec::new(pd, bytes.as_ptr().cast_mut(), 16, Access::empty());
    // SAFETY: read only, and outlives the registration.
    let foreign: MrKeys = unsafe { registry.register(&spec) }.expect("registered");
    assert_eq!(registry.locate(pd, &sge(foreign.lkey, spec.iova, 16)), Ok(None));
    registry.deregister(foreign.id).expect("alive");
}

#[test]
fn parts_of_a_place_skip_what_is_outside() {
    let place = ObjectPlace { object: 3, offset: 1000, skip_front: 10, skip_back: 20 };
    let part = |from, len| place.part(100, from, len).map(|p| (p.offset, p.skip_front, p.skip_back));
    for (from, len, expected) in [
        (0, 100, Some((1000, 10, 20))),
        (10, 70, Some((1000, 0, 0))),
        (15, 5, Some((1005, 0, 0))),
        (0, 10, None),
        (0, 11, Some((1000, 10, 0))),
        (79, 1, Some((1069, 0, 0))),
        (79, 21, Some((1069, 0, 20))),
        (80, 20, None),
        (50, 0, None),
    ] {
        assert_eq!(part(from, len), expected, "{from} {len}");
    }
}

#[test]
fn lists_are_copied_to_and_from_spans() {
    let fixture = Fixture::new();
    let (region, keys) = fixture.region(100, ALL);
    let mut bytes = vec![0u8; 100];
    let spec = MrSpec::new(fixture.pd, bytes.as_mut_ptr(), 100, ALL | Access::ON_DEMAND);
    // SAFETY: the vector outlives the registry and is reached by it alone.
    let far = unsafe { fixture.registry.register(&spec) }.expect("registered");
    let null = fixture.registry.register_null(fixture.pd, Access::LOCAL_WRITE).expect("registered");
    let (registry, pd) = (&fixture.registry, fixture.pd);
    let list = [
        sge(keys.lkey, BASE + 3, 30),
        sge(far.lkey, spec.iova + 5, 41),
        sge(null.lkey, 0, 9),
        sge(keys.lkey, BASE + 50, 20),
    ];
    let ring = Region::allocate(200).expect("memory");
    let lent: Span<'_> = ring.span().part(11, 90).expect("inside");
    let data: Vec<u8> = (1..=90).collect();
    lent.write(&data);
    assert_eq!(registry.scatter_from(pd, &list, 5, lent), Ok(()));
    let mut seen = [0; 90];
    registry.gather(pd, &list, 5, &mut seen).expect("readable");
    let mut expected = data;
    expected[66..75].fill(0);
    assert_eq!(seen[..], expected[..]);
    lent.write(&[0xee; 90]);
    assert_eq!(registry.gather_to(pd, &list, 5, lent), Ok(()));
    lent.read(&mut seen);
    assert_eq!(seen[..], expected[..]);
    let too_long = ring.span().part(0, 96).expect("inside");
    assert_eq!(registry.gather_to(pd, &list, 5, too_long), Err(MemoryError::OutOfBounds));
    let (_other, read_only) = fixture.region(8, Access::REMOTE_READ);
    let word = ring.span().part(0, 8).expect("inside");
    assert_eq!(registry.scatter_from(pd, &[sge(read_only.lkey, BASE, 8)], 0, word), Err(MemoryError::NoPermission));
    drop(region);
}
