//! Owners of stories: of tables in each layout, and of trees.

use std::marker::PhantomData;

use fastrand::Rng;

use crate::allocator::AllocatorOptions;
use crate::layout::TableLayout;
use crate::lookup::KeyLookup;
use crate::object::{ObjectHeader, TornCheck};
use crate::owner::{OwnerError, OwnerOptions, TableOwner};
use crate::sim::peer::PeerWrite;
use crate::sim::searches::{SimSearch, TreeSearch};
use crate::sim::timeline::NotedMemory;
use crate::tree::{TreeOptions, TreeOwner};

/// Tables of one layout, or trees: their owners and their readers.
pub(crate) trait SimFamily {
    type Owner<'m>: SimOwner<'m>;
    type Search: SimSearch;
}

/// Tables of a layout.
pub(crate) struct TableFamily<L, C>(PhantomData<(L, C)>);

impl<L: TableLayout, C: TornCheck> SimFamily for TableFamily<L, C> {
    type Owner<'m> = TableOwner<&'m NotedMemory, L, C>;
    type Search = KeyLookup<L, C>;
}

/// Trees.
pub(crate) struct TreeFamily<C>(PhantomData<C>);

impl<C: TornCheck> SimFamily for TreeFamily<C> {
    type Owner<'m> = TreeOwner<&'m NotedMemory, C>;
    type Search = TreeSearch<C>;
}

/// The size of a story.
pub(crate) struct StoryPlan {
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) options: OwnerOptions,
    pub(crate) operations: std::ops::Range<usize>,
    /// So many of four operations are deletes: at the begin, in the middle, and at the end.
    pub(crate) deletes: [u8; 3],
    /// The longest values.
    pub(crate) longest: &'static [usize],
}

/// The owner of a story.
pub(crate) trait SimOwner<'m>: Sized {
    /// True if peers update objects in the story.
    const HAS_PEERS: bool;
    fn memory_bytes(random: &mut Rng) -> u64;
    fn plan(random: &mut Rng) -> StoryPlan;
    fn create(memory: &'m NotedMemory, options: OwnerOptions) -> Result<Self, OwnerError>;
    fn set_now(&mut self, now_ns: u64);
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), OwnerError>;
    fn delete(&mut self, key: &[u8]) -> Result<bool, OwnerError>;
    fn break_lock(&mut self, key: &[u8], held: ObjectHeader, value: &[u8]) -> Result<ObjectHeader, OwnerError>;
    /// A peer takes the lock of a key's object.
    fn start_peer(&self, memory: &NotedMemory, random: &mut Rng, key: (usize, &[u8])) -> Option<PeerWrite>;
}

fn options(random: &mut Rng, reuse_after_ns: u64) -> OwnerOptions {
    OwnerOptions {
        keys: random.u64(1..40),
        may_grow: true,
        in_place_bytes: [0, 64, 1024, 1 << 20][random.usize(..4)],
        allocator: AllocatorOptions { slab_bytes: [4096, 16384][random.usize(..2)], reuse_after_ns },
        salt: random.u64(..),
    }
}

impl<'m, L: TableLayout, C: TornCheck> SimOwner<'m> for TableOwner<&'m NotedMemory, L, C> {
    const HAS_PEERS: bool = C::PEERS_MAY_WRITE;

    fn memory_bytes(random: &mut Rng) -> u64 {
        random.u64(48..200) << 10
    }

    fn plan(random: &mut Rng) -> StoryPlan {
        let keys = random.usize(2..80);
        let reuse_after_ns = [0, 5, 50][random.usize(..3)];
        StoryPlan {
            keys: (0..keys).map(|key| format!("key {key} {}", "x".repeat(key % 30)).into_bytes()).collect(),
            options: options(random, reuse_after_ns),
            operations: 20..250,
            deletes: [1; 3],
            longest: &[0, 8, 40, 100, 300, 1200, 5000],
        }
    }

    fn create(memory: &'m NotedMemory, options: OwnerOptions) -> Result<Self, OwnerError> {
        TableOwner::create(memory, options)
    }

    fn set_now(&mut self, now_ns: u64) {
        TableOwner::set_now(self, now_ns);
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), OwnerError> {
        TableOwner::put(self, key, value).map(|_| ())
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool, OwnerError> {
        TableOwner::delete(self, key)
    }

    fn break_lock(&mut self, key: &[u8], held: ObjectHeader, value: &[u8]) -> Result<ObjectHeader, OwnerError> {
        TableOwner::break_lock(self, key, held, value)
    }

    fn start_peer(&self, memory: &NotedMemory, random: &mut Rng, key: (usize, &[u8])) -> Option<PeerWrite> {
        PeerWrite::start(self, memory, random, key)
    }
}

impl<'m, C: TornCheck> SimOwner<'m> for TreeOwner<&'m NotedMemory, C> {
    const HAS_PEERS: bool = false;

    fn memory_bytes(random: &mut Rng) -> u64 {
        random.u64(32..600) << 10
    }

    /// Keys with a common beginning make separators long, and inner nodes full with few children.
    fn plan(random: &mut Rng) -> StoryPlan {
        let (keys, begin) = (random.usize(2..700), [0, 40, 62, 100][random.usize(..4)]);
        let key = |number: usize| format!("{}{:05}", "k".repeat(begin), number * 7919 % 100_000).into_bytes();
        let reuse_after_ns = [0, 5, 50][random.usize(..3)];
        let mut keys: Vec<Vec<u8>> = (0..keys).map(key).collect();
        keys.sort();
        StoryPlan {
            keys,
            options: options(random, reuse_after_ns),
            operations: 50..1200,
            deletes: [[0, 1, 3], [0, 3, 1], [1, 1, 1], [0, 0, 4]][random.usize(..4)],
            longest: &[0, 8, 40, 40, 300],
        }
    }

    fn create(memory: &'m NotedMemory, options: OwnerOptions) -> Result<Self, OwnerError> {
        let OwnerOptions { in_place_bytes, allocator, salt, .. } = options;
        TreeOwner::create(memory, TreeOptions { in_place_bytes, allocator, salt })
    }

    fn set_now(&mut self, now_ns: u64) {
        TreeOwner::set_now(self, now_ns);
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), OwnerError> {
        TreeOwner::put(self, key, value).map(|_| ())
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool, OwnerError> {
        TreeOwner::delete(self, key)
    }

    fn break_lock(&mut self, key: &[u8], held: ObjectHeader, value: &[u8]) -> Result<ObjectHeader, OwnerError> {
        TreeOwner::break_lock(self, key, held, value)
    }

    fn start_peer(&self, _: &NotedMemory, _: &mut Rng, _: (usize, &[u8])) -> Option<PeerWrite> {
        None
    }
}
