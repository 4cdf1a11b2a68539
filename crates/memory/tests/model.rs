//! The registry against a model: random calls with extreme numbers. After each call both return the same
//! result and hold the same bytes. The model computes in 128 bits, where nothing wraps.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::{sge, who};
use longarm_memory::{MrId, MrKeys, Region, Registry};
use proptest::prelude::*;
use transport::{Access, AtomicOp, LKey, Memory, MemoryError, PdId, Sge};
use wire::RKey;

/// One call. Numbers select regions and domains modulo their count.
#[derive(Clone, Debug)]
enum Call {
    Register { pd: usize, len: u64, base: u64, access: Access },
    Deregister { region: usize },
    Write { target: Target, len: usize },
    Read { target: Target, len: usize },
    Atomic { target: Target, op: AtomicOp },
    CheckRemote { target: Target, len: u64, access: Access },
    Scatter { pd: usize, list: Vec<Target>, lens: Vec<u32>, offset: u64, len: usize },
    Gather { pd: usize, list: Vec<Target>, lens: Vec<u32>, offset: u64, len: usize },
}

/// An address with a key, and the domain of the queue pair that uses them.
#[derive(Clone, Debug)]
struct Target {
    pd: usize,
    region: usize,
    addr: Addr,
    /// Bits of the key to flip; mostly none.
    spoil: u32,
}

/// Close to a region's ends, or anywhere.
#[derive(Clone, Debug)]
enum Addr {
    FromStart(i64),
    FromEnd(i64),
    Any(u64),
}

struct ModelRegion {
    id: MrId,
    keys: MrKeys,
    pd: PdId,
    base: u64,
    access: Access,
    bytes: Vec<u8>,
    real: Arc<Region>,
}

struct Model {
    registry: Registry,
    pds: Vec<PdId>,
    /// By order of registration. Dead regions keep their `keys`, so that dead keys are tried.
    regions: BTreeMap<usize, ModelRegion>,
    keys: Vec<(MrKeys, u64, u64)>,
    /// A byte counter, so that every write has new contents.
    counter: u8,
}

impl Model {
    fn new() -> Model {
        let registry = Registry::new(3);
        let pds = (0..2).map(|_| registry.alloc_pd()).collect();
        Model { registry, pds, regions: BTreeMap::new(), keys: Vec::new(), counter: 0 }
    }

    fn pd(&self, number: usize) -> PdId {
        self.pds[number % self.pds.len()]
    }

    /// Key pair and address of a target; unused keys while there are no regions.
    fn resolve(&self, target: &Target) -> (LKey, RKey, u64) {
        let Some((keys, base, len)) = self.keys.get(target.region % self.keys.len().max(1)) else {
            return (LKey(1), RKey(1), 0);
        };
        let addr = match target.addr {
            Addr::FromStart(delta) => base.wrapping_add_signed(delta),
            Addr::FromEnd(delta) => base.wrapping_add(*len).wrapping_add_signed(delta),
            Addr::Any(addr) => addr,
        };
        let spoil = |key: u32| key ^ target.spoil;
        (LKey(spoil(keys.lkey.0)), RKey(spoil(keys.rkey.0)), addr)
    }

    /// The expected result of an access: the region's number and the offset in it.
    fn expect(
        &self,
        found: impl Fn(&ModelRegion) -> bool,
        pd: PdId,
        access: Access,
        addr: u64,
        len: u64,
    ) -> Result<(usize, usize), MemoryError> {
        let region = self.regions.iter().find(|(_, region)| found(region));
        let (number, region) = region.ok_or(MemoryError::BadKey)?;
        if region.pd != pd {
            return Err(MemoryError::WrongDomain);
        }
        if !region.access.contains(access) {
            return Err(MemoryError::NoPermission);
        }
        let (first, end) = (i128::from(region.base), region.bytes.len() as i128);
        let offset = i128::from(addr) - first;
        if offset < 0 || offset + i128::from(len) > end {
            return Err(MemoryError::OutOfBounds);
        }
        Ok((*number, offset as usize))
    }

    fn fresh(&mut self, len: usize) -> Vec<u8> {
        (0..len)
            .map(|_| {
                self.counter = self.counter.wrapping_add(1);
                self.counter
            })
            .collect()
    }

    fn register(&mut self, pd: usize, len: u64, base: u64, access: Access) {
        let (pd, real) = (self.pd(pd), Arc::new(Region::allocate(len).expect("memory")));
        let entered = self.registry.register_region(pd, real.clone(), Some(base), access);
        let needs = Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
        let lacks = access.intersects(needs) && !access.contains(Access::LOCAL_WRITE);
        let wraps = i128::from(base) + i128::from(len) > i128::from(u64::MAX);
        assert_eq!(entered.is_err(), lacks || wraps, "{entered:?}");
        let Ok(keys) = entered else { return };
        let number = self.keys.len();
        self.keys.push((keys, base, len));
        let region = ModelRegion { id: keys.id, keys, pd, base, access, bytes: vec![0; len as usize], real };
        self.regions.insert(number, region);
    }

    fn deregister(&mut self, region: usize) {
        let Some((keys, ..)) = self.keys.get(region % self.keys.len().max(1)) else {
            return;
        };
        let id = keys.id;
        let alive = self.regions.iter().find(|(_, region)| region.id == id);
        let alive = alive.map(|(number, _)| *number);
        assert_eq!(self.registry.deregister(id).is_ok(), alive.is_some());
        if let Some(number) = alive {
            self.regions.remove(&number);
        }
    }

    fn write(&mut self, target: &Target, len: usize) {
        let (_, rkey, addr) = self.resolve(target);
        let (pd, data) = (self.pd(target.pd), self.fresh(len));
        let answer = self.registry.remote_write(who(pd), rkey, addr, &data);
        if len == 0 {
            return assert_eq!(answer, Ok(()));
        }
        let right = Access::REMOTE_WRITE;
        let expected = self.expect(|r| r.keys.rkey == rkey, pd, right, addr, len as u64);
        assert_eq!(answer, expected.map(drop));
        if let Ok((number, offset)) = expected {
            let region = self.regions.get_mut(&number).expect("just found");
            region.bytes[offset..offset + len].copy_from_slice(&data);
        }
    }

    fn read(&mut self, target: &Target, len: usize) {
        let (_, rkey, addr) = self.resolve(target);
        let (pd, mut out) = (self.pd(target.pd), vec![0xaa; len]);
        let answer = self.registry.remote_read(who(pd), rkey, addr, &mut out);
        if len == 0 {
            return assert_eq!(answer, Ok(()));
        }
        let right = Access::REMOTE_READ;
        let expected = self.expect(|r| r.keys.rkey == rkey, pd, right, addr, len as u64);
        assert_eq!(answer, expected.map(drop));
        match expected {
            Ok((number, at)) => assert_eq!(out, self.regions[&number].bytes[at..at + len]),
            Err(_) => assert_eq!(out, vec![0xaa; len]),
        }
    }

    fn atomic(&mut self, target: &Target, op: AtomicOp) {
        let (_, rkey, addr) = self.resolve(target);
        let pd = self.pd(target.pd);
        let answer = self.registry.remote_atomic(who(pd), rkey, addr, op);
        let right = Access::REMOTE_ATOMIC;
        let expected = self.expect(|r| r.keys.rkey == rkey, pd, right, addr, 8);
        // The memory begins at a page, so an offset has the alignment of its address.
        let aligned = |at: usize| addr.is_multiple_of(8) && at.is_multiple_of(8);
        match expected {
            Ok((_, at)) if !aligned(at) => assert_eq!(answer, Err(MemoryError::Misaligned)),
            Ok((number, at)) => {
                let region = self.regions.get_mut(&number).expect("just found");
                let word = region.bytes[at..].first_chunk_mut().expect("inside");
                let before = u64::from_ne_bytes(*word);
                assert_eq!(answer, Ok(before));
                *word = u64::to_ne_bytes(match op {
                    AtomicOp::FetchAdd { add } => before.wrapping_add(add),
                    AtomicOp::CompareSwap { compare, swap } if before == compare => swap,
                    AtomicOp::CompareSwap { .. } => before,
                });
            }
            Err(error) => assert_eq!(answer, Err(error)),
        }
    }

    fn check_remote(&mut self, target: &Target, len: u64, access: Access) {
        let (_, rkey, addr) = self.resolve(target);
        let pd = self.pd(target.pd);
        let answer = self.registry.check_remote(who(pd), rkey, addr, len, access);
        let expected = self.expect(|r| r.keys.rkey == rkey, pd, access, addr, len);
        assert_eq!(answer, if len == 0 { Ok(()) } else { expected.map(drop) });
    }

    /// The place of each byte of a part of a list, or the reason for its refusal.
    fn places(
        &self,
        pd: PdId,
        list: &[Sge],
        offset: u64,
        len: usize,
        access: Access,
    ) -> Result<Vec<(usize, usize)>, MemoryError> {
        let total: u128 = list.iter().map(|sge| u128::from(sge.len_bytes)).sum();
        if len > 0 && u128::from(offset) + len as u128 > total {
            return Err(MemoryError::OutOfBounds);
        }
        let (mut skip, mut places) = (u128::from(offset), Vec::new());
        for sge in list {
            let held = u128::from(sge.len_bytes);
            let take = held.saturating_sub(skip).min((len - places.len()) as u128) as u64;
            if take > 0 {
                let addr = u64::try_from(u128::from(sge.addr) + skip);
                // An address beyond 2^64 lies outside of every region; the key is not even checked.
                let addr = addr.map_err(|_| MemoryError::OutOfBounds)?;
                let found = self.expect(|r| r.keys.lkey == sge.lkey, pd, access, addr, take)?;
                places.extend((0..take as usize).map(|i| (found.0, found.1 + i)));
            }
            skip = skip.saturating_sub(held);
        }
        Ok(places)
    }

    fn list(&self, targets: &[Target], lens: &[u32]) -> Vec<Sge> {
        let both = targets.iter().zip(lens);
        both.map(|(target, len)| {
            let (lkey, _, addr) = self.resolve(target);
            sge(lkey, addr, *len)
        })
        .collect()
    }

    fn check_local(&self, pd: PdId, list: &[Sge]) -> Result<(), MemoryError> {
        let answer = self.registry.check_local(pd, list, true);
        let expected = list.iter().filter(|sge| sge.len_bytes > 0).try_for_each(|sge| {
            let (right, len) = (Access::LOCAL_WRITE, u64::from(sge.len_bytes));
            let found = self.expect(|r| r.keys.lkey == sge.lkey, pd, right, sge.addr, len);
            found.map(drop)
        });
        assert_eq!(answer, expected);
        answer
    }

    fn scatter(&mut self, pd: usize, list: &[Sge], offset: u64, len: usize) {
        let (pd, data) = (self.pd(pd), self.fresh(len));
        let checked = self.check_local(pd, list);
        let expected = self.places(pd, list, offset, len, Access::LOCAL_WRITE);
        if checked.is_err() {
            // The entries before the bad one may have been written. The model tests only lists that passed
            // the check, as queue pairs do.
            return;
        }
        let answer = self.registry.scatter(pd, list, offset, &data);
        assert_eq!(answer, expected.as_ref().map(drop).map_err(|e| *e));
        for ((number, at), byte) in expected.unwrap_or_default().into_iter().zip(data) {
            self.regions.get_mut(&number).expect("just found").bytes[at] = byte;
        }
    }

    fn gather(&mut self, pd: usize, list: &[Sge], offset: u64, len: usize) {
        let (pd, mut out) = (self.pd(pd), vec![0; len]);
        let answer = self.registry.gather(pd, list, offset, &mut out);
        let expected = self.places(pd, list, offset, len, Access::empty());
        assert_eq!(answer, expected.as_ref().map(drop).map_err(|e| *e));
        for ((number, at), byte) in expected.unwrap_or_default().into_iter().zip(out) {
            assert_eq!(self.regions[&number].bytes[at], byte);
        }
    }

    fn call(&mut self, call: &Call) {
        match call {
            Call::Register { pd, len, base, access } => self.register(*pd, *len, *base, *access),
            Call::Deregister { region } => self.deregister(*region),
            Call::Write { target, len } => self.write(target, *len),
            Call::Read { target, len } => self.read(target, *len),
            Call::Atomic { target, op } => self.atomic(target, *op),
            Call::CheckRemote { target, len, access } => self.check_remote(target, *len, *access),
            Call::Scatter { pd, list, lens, offset, len } => {
                self.scatter(*pd, &self.list(list, lens), *offset, *len);
            }
            Call::Gather { pd, list, lens, offset, len } => {
                self.gather(*pd, &self.list(list, lens), *offset, *len);
            }
        }
    }

    /// Checks the bytes of every live region against the model's.
    fn compare(&self) {
        for region in self.regions.values() {
            let mut bytes = vec![0; region.bytes.len()];
            region.real.span().read(&mut bytes);
            assert_eq!(bytes, region.bytes);
        }
    }
}

fn extreme() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..200u64,
        (0..200u64).prop_map(|n| u64::MAX - n),
        (0..200u64).prop_map(|n| (1 << 63) - 100 + n),
        (0..200u64).prop_map(|n| (1 << 32) - 100 + n),
        any::<u64>(),
    ]
}

fn access() -> impl Strategy<Value = Access> {
    // Mostly all rights, so that accesses succeed.
    prop_oneof![
        3 => Just(common::ALL),
        1 => (0..32u32).prop_map(Access::from_bits_truncate),
    ]
}

fn target() -> impl Strategy<Value = Target> {
    let addr = prop_oneof![
        4 => (-3..70i64).prop_map(Addr::FromStart),
        2 => (-70..3i64).prop_map(Addr::FromEnd),
        1 => extreme().prop_map(Addr::Any),
    ];
    let spoil = prop_oneof![9 => Just(0u32), 1 => (0..32u32).prop_map(|bit| 1 << bit)];
    let pd = prop_oneof![6 => Just(0usize), 1 => Just(1usize)];
    (pd, 0..8usize, addr, spoil).prop_map(|(pd, region, addr, spoil)| Target { pd, region, addr, spoil })
}

fn atomic_op() -> impl Strategy<Value = AtomicOp> {
    prop_oneof![
        any::<u64>().prop_map(|add| AtomicOp::FetchAdd { add }),
        any::<u64>().prop_map(|swap| AtomicOp::CompareSwap { compare: 0, swap }),
    ]
}

fn call() -> impl Strategy<Value = Call> {
    let pd = prop_oneof![6 => Just(0usize), 1 => Just(1usize)];
    let len_bytes = prop_oneof![0..20usize, 0..100usize];
    let list = proptest::collection::vec(target(), 0..4);
    let lens = proptest::collection::vec(prop_oneof![3 => 0..40u32, 1 => any::<u32>()], 4);
    let offset = prop_oneof![4 => 0..60u64, 1 => extreme()];
    let local = (pd.clone(), list, lens, offset, len_bytes.clone()).boxed();
    prop_oneof![
        2 => (pd, 1..150u64, extreme(), access())
            .prop_map(|(pd, len, base, access)| Call::Register { pd, len, base, access }),
        1 => (0..8usize).prop_map(|region| Call::Deregister { region }),
        4 => (target(), len_bytes.clone()).prop_map(|(target, len)| Call::Write { target, len }),
        3 => (target(), len_bytes).prop_map(|(target, len)| Call::Read { target, len }),
        3 => (target(), atomic_op()).prop_map(|(target, op)| Call::Atomic { target, op }),
        2 => (target(), extreme(), access())
            .prop_map(|(target, len, access)| Call::CheckRemote { target, len, access }),
        4 => local.clone().prop_map(|(pd, list, lens, offset, len)| {
            Call::Scatter { pd, list, lens, offset, len }
        }),
        4 => local.prop_map(|(pd, list, lens, offset, len)| {
            Call::Gather { pd, list, lens, offset, len }
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn the_registry_answers_as_the_model(calls in proptest::collection::vec(call(), 1..80)) {
        let mut model = Model::new();
        model.call(&Call::Register { pd: 0, len: 64, base: 0x1000, access: common::ALL });
        for call in &calls {
            model.call(call);
        }
        model.compare();
    }
}
