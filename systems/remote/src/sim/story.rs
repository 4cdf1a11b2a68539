//! A story: the operations of an owner on a few keys, in little memory, and the stores that they made.

use fastrand::Rng;

use crate::allocator::AllocatorOptions;
use crate::layout::TableLayout;
use crate::object::TornCheck;
use crate::owner::{OwnerError, OwnerOptions, TableOwner};
use crate::sim::peer::PeerWrite;
use crate::sim::timeline::{NotedMemory, WordStore};

/// One operation that has changed a key.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) key: usize,
    /// The value after it; `None` after a delete.
    pub(crate) value: Option<Vec<u8>>,
    /// The stores that it made.
    pub(crate) begin: usize,
    pub(crate) end: usize,
}

/// The operations, and the stores.
pub(crate) struct Story {
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) operations: Vec<Operation>,
    pub(crate) stores: Vec<WordStore>,
    pub(crate) memory_bytes: u64,
    /// Operations that found no room.
    pub(crate) refused: u64,
    /// Operations of the owner that found a peer's lock.
    pub(crate) locked: u64,
    /// Updates by peers, and locks that the owner had to break.
    pub(crate) by_peers: u64,
    pub(crate) broken: u64,
    /// The peer's update that is under way.
    peer: Option<PeerWrite>,
}

/// Bytes that follow from a number.
fn value(random: &mut Rng, number: usize) -> Vec<u8> {
    let longest = [0, 8, 40, 100, 300, 1200, 5000][random.usize(..7)];
    let len_bytes = random.usize(..=longest);
    let mut bytes = Rng::with_seed(number as u64);
    (number as u32).to_le_bytes().into_iter().chain((0..len_bytes).map(|_| bytes.u8(..))).collect()
}

impl Story {
    /// Tells the story of a seed.
    pub(crate) fn tell<L: TableLayout, C: TornCheck>(random: &mut Rng) -> Story {
        let memory = NotedMemory::new(random.u64(48..200) << 10, random.fork());
        let memory_bytes = crate::memory::WordMemory::len_bytes(&memory);
        let keys = random.usize(2..80);
        let reuse_after_ns = [0, 5, 50][random.usize(..3)];
        let options = OwnerOptions {
            keys: random.u64(1..40),
            may_grow: true,
            in_place_bytes: [0, 64, 1024, 1 << 20][random.usize(..4)],
            allocator: AllocatorOptions { slab_bytes: [4096, 16384][random.usize(..2)], reuse_after_ns },
            salt: random.u64(..),
        };
        let mut story = Story {
            keys: (0..keys).map(|key| format!("key {key} {}", "x".repeat(key % 30)).into_bytes()).collect(),
            operations: Vec::new(),
            stores: Vec::new(),
            memory_bytes,
            refused: 0,
            locked: 0,
            by_peers: 0,
            broken: 0,
            peer: None,
        };
        if let Ok(mut owner) = TableOwner::<_, L, C>::create(&memory, options) {
            for number in 0..random.usize(20..250) {
                owner.set_now(number as u64);
                match random.u8(..8) {
                    0..2 if C::PEERS_MAY_WRITE => story.let_peer(&mut owner, &memory, random, number),
                    _ => story.operate(&mut owner, &memory, random, number),
                }
            }
            while story.peer.is_some() {
                story.let_peer(&mut owner, &memory, random, 0);
            }
        }
        story.stores = memory.into_stores();
        story
    }

    /// One step of a peer. Sometimes it dies, and the owner breaks its lock.
    fn let_peer<L: TableLayout, C: TornCheck>(
        &mut self,
        owner: &mut TableOwner<&NotedMemory, L, C>,
        memory: &NotedMemory,
        random: &mut Rng,
        number: usize,
    ) {
        let Some(mut peer) = self.peer.take() else {
            let key = random.usize(..self.keys.len());
            self.peer = PeerWrite::start(owner, memory, random, (key, &self.keys[key]));
            return;
        };
        if random.u8(..8) == 0 {
            let value = value(random, number);
            match owner.break_lock(&self.keys[peer.key], peer.held, &value) {
                Ok(_) => {
                    self.broken += 1;
                    self.note(peer.key, value, peer.begin, memory.now());
                }
                // Without room the lock stays for now.
                Err(OwnerError::NoRoom(_)) => self.peer = Some(peer),
                Err(error) => panic!("operation {number}: {error}"),
            }
        } else if peer.advance(memory, random) {
            self.by_peers += 1;
            self.note(peer.key, peer.value, peer.begin, memory.now());
        } else {
            self.peer = Some(peer);
        }
    }

    fn note(&mut self, key: usize, value: Vec<u8>, begin: usize, end: usize) {
        self.operations.push(Operation { key, value: Some(value), begin, end });
    }

    fn operate<L: TableLayout, C: TornCheck>(
        &mut self,
        owner: &mut TableOwner<&NotedMemory, L, C>,
        memory: &NotedMemory,
        random: &mut Rng,
        number: usize,
    ) {
        let (key, begin) = (random.usize(..self.keys.len()), memory.now());
        let done = if random.u8(..4) == 0 {
            owner.delete(&self.keys[key]).map(|was_there| was_there.then_some(None))
        } else {
            let value = value(random, number);
            owner.put(&self.keys[key], &value).map(|_| Some(Some(value)))
        };
        match done {
            Ok(Some(value)) => self.operations.push(Operation { key, value, begin, end: memory.now() }),
            Ok(None) => {}
            Err(OwnerError::NoRoom(_) | OwnerError::Full(_)) => self.refused += 1,
            Err(OwnerError::Locked(_)) => self.locked += 1,
            Err(error) => panic!("operation {number}: {error}"),
        }
    }
}
