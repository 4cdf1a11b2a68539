//! Tenants, their named regions, and the pieces in them: pure, without memory, threads or clocks.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use longarm_rpc::Status;

use crate::allocator::{AllocatorOptions, BlockAllocator};
use crate::object::SizeClass;
use crate::proof::ProofSecret;
use crate::regions::protocol::{NamedRegionInfo, PieceLife};

/// The longest name of a region, in bytes.
const LONGEST_NAME: usize = 256;

/// In shorter regions pieces are cut from single pages.
const SMALL: u64 = 16 << 20;
/// Pieces of one region: each costs the server about 100 bytes of private memory.
const MOST_PIECES: usize = 1 << 20;

/// A tenant of a memory server, and its bounds.
#[derive(Clone, Debug)]
pub struct TenantOptions {
    /// The owner's secret, from which those of readers and writers follow. Without one, everybody owns the tenant's regions.
    pub secret: Option<ProofSecret>,
    /// The bound of the memory of its regions, in bytes.
    pub max_bytes: u64,
    /// Regions at a time.
    pub max_regions: usize,
}

impl Default for TenantOptions {
    fn default() -> TenantOptions {
        TenantOptions { secret: None, max_bytes: u64::MAX, max_regions: 1024 }
    }
}

/// A client's session, by its number.
pub(crate) type SessionNumber = u64;

pub(crate) struct NamedRegion {
    pub(crate) number: u64,
    /// Its place in the server's memory.
    pub(crate) range: Range<u64>,
    class: SizeClass,
    blocks: BlockAllocator,
    pieces: HashMap<u64, (SizeClass, Option<SessionNumber>)>,
}

struct Tenant {
    options: TenantOptions,
    used_bytes: u64,
    regions: BTreeMap<String, NamedRegion>,
}

pub(crate) struct RegionStore {
    space: BlockAllocator,
    tenants: HashMap<String, Tenant>,
    made: u64,
    delay: AllocatorOptions,
}

impl RegionStore {
    /// A store of so many bytes. Memory that was given back waits a moment for its reuse.
    pub(crate) fn new(len_bytes: u64, tenants: Vec<(String, TenantOptions)>) -> RegionStore {
        let delay = AllocatorOptions::default();
        let tenant = |options| Tenant { options, used_bytes: 0, regions: BTreeMap::new() };
        let tenants = tenants.into_iter().map(|(name, options)| (name, tenant(options))).collect();
        RegionStore { space: BlockAllocator::new(0..len_bytes, delay), tenants, made: 0, delay }
    }

    pub(crate) fn set_now(&mut self, now_ns: u64) {
        self.space.set_now(now_ns);
        self.regions_mut().for_each(|region| region.blocks.set_now(now_ns));
    }

    fn regions_mut(&mut self) -> impl Iterator<Item = &mut NamedRegion> {
        self.tenants.values_mut().flat_map(|tenant| tenant.regions.values_mut())
    }

    /// The owner's secret of a tenant.
    pub(crate) fn secret(&self, tenant: &str) -> Result<Option<&ProofSecret>, Status> {
        Ok(self.tenant(tenant)?.options.secret.as_ref())
    }

    fn tenant(&self, name: &str) -> Result<&Tenant, Status> {
        self.tenants.get(name).ok_or_else(|| Status::not_found(format!("the server has no tenant {name:?}")))
    }

    /// Makes a region. Its place has to be filled with zeros before anybody gets a key to it.
    pub(crate) fn create(&mut self, tenant: &str, name: &str, len_bytes: u64) -> Result<Range<u64>, Status> {
        let no_room = |what: &str| Status::resource_exhausted(format!("{what} has no room for {len_bytes} bytes"));
        let (delay, made) = (self.delay, self.made);
        let unknown = || Status::not_found(format!("the server has no tenant {tenant:?}"));
        let owner = self.tenants.get_mut(tenant).ok_or_else(unknown)?;
        if name.is_empty() || name.len() > LONGEST_NAME || name.contains('\0') {
            return Err(Status::invalid_argument(format!(
                "a name has 1 to {LONGEST_NAME} bytes, and no zero among them"
            )));
        }
        if owner.regions.contains_key(name) {
            return Err(Status::already_exists(format!("there is a region {name:?}")));
        }
        if owner.regions.len() >= owner.options.max_regions {
            return Err(Status::resource_exhausted(format!(
                "the tenant has {} regions, its bound",
                owner.regions.len()
            )));
        }
        let class = SizeClass::of(len_bytes).filter(|_| len_bytes > 0);
        let class =
            class.ok_or_else(|| Status::invalid_argument("a region has at least one byte, and less than 192 GiB"))?;
        if owner.used_bytes.checked_add(class.bytes()).is_none_or(|used| used > owner.options.max_bytes) {
            return Err(no_room("the tenant"));
        }
        let at = self.space.allocate(class).map_err(|_| no_room("the server"))?;
        self.made += 1;
        owner.used_bytes += class.bytes();
        // Small regions are not used up by slabs of a few pieces.
        let slab_bytes = if len_bytes < SMALL { 4096 } else { delay.slab_bytes };
        let blocks = BlockAllocator::new(0..len_bytes, AllocatorOptions { slab_bytes, ..delay });
        let range = at..at + len_bytes;
        let region = NamedRegion { number: made, range: range.clone(), class, blocks, pieces: HashMap::new() };
        owner.regions.insert(name.into(), region);
        Ok(range)
    }

    /// Gives a region back. Nobody may have a key to it any more. Returns its number.
    pub(crate) fn drop_region(&mut self, tenant: &str, name: &str) -> Result<u64, Status> {
        self.find(tenant, name)?;
        let owner = self.tenants.get_mut(tenant);
        let Some((owner, region)) = owner.and_then(|owner| owner.regions.remove(name).map(|region| (owner, region)))
        else {
            return Err(Status::not_found("no such region"));
        };
        owner.used_bytes -= region.class.bytes();
        self.space.free(region.range.start, region.class);
        Ok(region.number)
    }

    pub(crate) fn find(&self, tenant: &str, name: &str) -> Result<&NamedRegion, Status> {
        let region = self.tenant(tenant)?.regions.get(name);
        region.ok_or_else(|| Status::not_found(format!("the tenant {tenant:?} has no region {name:?}")))
    }

    /// The regions of a tenant; `clients` tells how many have a region open.
    pub(crate) fn list(&self, tenant: &str, clients: impl Fn(u64) -> u64) -> Result<Vec<NamedRegionInfo>, Status> {
        let info = |(name, region): (&String, &NamedRegion)| NamedRegionInfo {
            name: name.clone(),
            len_bytes: region.range.end - region.range.start,
            used_bytes: region.blocks.used_bytes(),
            pieces: region.pieces.len() as u64,
            clients: clients(region.number),
        };
        Ok(self.tenant(tenant)?.regions.iter().map(info).collect())
    }

    fn region(&mut self, number: u64) -> Result<&mut NamedRegion, Status> {
        let found = self.regions_mut().find(|region| region.number == number);
        found.ok_or_else(|| Status::not_found("the region was dropped"))
    }

    /// A piece of a region, at a multiple of 64. Returns its offset there, and its place in the server's memory.
    pub(crate) fn allocate(
        &mut self,
        number: u64,
        len_bytes: u64,
        life: PieceLife,
        session: SessionNumber,
    ) -> Result<(u64, Range<u64>), Status> {
        let region = self.region(number)?;
        let class = SizeClass::of(len_bytes).filter(|_| len_bytes > 0);
        let class =
            class.ok_or_else(|| Status::invalid_argument("a piece has at least one byte, and less than 192 GiB"))?;
        if region.pieces.len() >= MOST_PIECES {
            return Err(Status::resource_exhausted(format!("a region has at most {MOST_PIECES} pieces")));
        }
        let at = region.blocks.allocate(class).map_err(|error| Status::resource_exhausted(error.to_string()))?;
        region.pieces.insert(at, (class, (life == PieceLife::Client).then_some(session)));
        let start = region.range.start + at;
        Ok((at, start..start + class.bytes()))
    }

    /// Gives a piece back: one of this session, or one that belongs to the region.
    pub(crate) fn free(&mut self, number: u64, at: u64, session: SessionNumber) -> Result<(), Status> {
        let region = self.region(number)?;
        let Some((class, owner)) = region.pieces.get(&at).copied() else {
            return Err(Status::not_found(format!("no piece begins at {at}")));
        };
        if owner.is_some_and(|owner| owner != session) {
            return Err(Status::permission_denied("the piece belongs to another client"));
        }
        region.pieces.remove(&at);
        region.blocks.free(at, class);
        Ok(())
    }

    /// Gives the pieces of a session back. It may have no key any more.
    pub(crate) fn end_session(&mut self, session: SessionNumber) {
        for region in self.regions_mut() {
            let its = region.pieces.extract_if(|_, (_, owner)| *owner == Some(session));
            its.for_each(|(at, (class, _))| region.blocks.free(at, class));
        }
    }

    /// Bytes in regions.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.space.used_bytes()
    }

    /// Regions of all tenants.
    pub(crate) fn regions(&self) -> usize {
        self.tenants.values().map(|tenant| tenant.regions.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use longarm_rpc::Code;

    use super::*;

    fn store() -> RegionStore {
        let small = TenantOptions { max_bytes: 64 << 10, max_regions: 2, ..TenantOptions::default() };
        RegionStore::new(1 << 20, vec![("a".into(), TenantOptions::default()), ("small".into(), small)])
    }

    fn code<T>(outcome: Result<T, Status>) -> Code {
        outcome.err().expect("a refusal").code()
    }

    #[test]
    fn regions_have_names_and_bounds_and_never_overlap() {
        let mut store = store();
        assert_eq!(code(store.create("none", "r", 1)), Code::NotFound);
        for name in ["", "a\0b", &"x".repeat(257)] {
            assert_eq!(code(store.create("a", name, 1)), Code::InvalidArgument);
        }
        for len_bytes in [0, u64::MAX] {
            assert_eq!(code(store.create("a", "r", len_bytes)), Code::InvalidArgument);
        }
        let first = store.create("small", "r", 10_000).unwrap();
        assert_eq!(code(store.create("small", "r", 10)), Code::AlreadyExists);
        assert_eq!(code(store.create("small", "s", 60_000)), Code::ResourceExhausted);
        let second = store.create("small", "s", 10_000).unwrap();
        assert_eq!(code(store.create("small", "t", 1)), Code::ResourceExhausted);
        assert!(first.end <= second.start || second.end <= first.start);
        assert_eq!(code(store.create("a", "r", 2 << 20)), Code::ResourceExhausted);
        store.drop_region("small", "s").unwrap();
        assert_eq!(code(store.drop_region("small", "s")), Code::NotFound);
        store.create("small", "t", 10_000).unwrap();
        store.drop_region("small", "r").unwrap();
        store.drop_region("small", "t").unwrap();
        assert_eq!((store.used_bytes(), store.regions()), (0, 0));
    }

    #[test]
    fn pieces_belong_to_a_session_or_to_the_region() {
        let mut store = store();
        let place = store.create("a", "r", 64 << 10).unwrap();
        let number = store.find("a", "r").unwrap().number;
        let (own, absolute) = store.allocate(number, 1000, PieceLife::Client, 1).unwrap();
        assert_eq!(absolute.start, place.start + own);
        let (kept, _) = store.allocate(number, 1000, PieceLife::Region, 1).unwrap();
        assert_eq!(code(store.free(number, own, 2)), Code::PermissionDenied);
        assert_eq!(code(store.free(number, own + 64, 1)), Code::NotFound);
        assert_eq!(code(store.allocate(number, 1 << 20, PieceLife::Client, 1)), Code::ResourceExhausted);
        store.end_session(1);
        assert_eq!(code(store.free(number, own, 1)), Code::NotFound);
        assert_eq!(store.list("a", |_| 3).unwrap()[0].pieces, 1);
        store.free(number, kept, 2).unwrap();
        let info = &store.list("a", |_| 3).unwrap()[0];
        assert_eq!((info.used_bytes, info.pieces, info.clients), (0, 0, 3));
        assert_eq!(code(store.allocate(number + 1, 1, PieceLife::Client, 1)), Code::NotFound);
    }
}
