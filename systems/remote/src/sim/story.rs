//! A story: the operations of an owner on a few keys, in little memory, and the stores that they made.

use fastrand::Rng;

use crate::owner::OwnerError;
use crate::sim::owners::{SimFamily, SimOwner};
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
    /// The longest values.
    longest: &'static [usize],
    /// The peer's update that is under way.
    peer: Option<PeerWrite>,
}

/// Bytes that follow from a number.
fn value(random: &mut Rng, number: usize, longest: &[usize]) -> Vec<u8> {
    let longest = longest[random.usize(..longest.len())];
    let len_bytes = random.usize(..=longest);
    let mut bytes = Rng::with_seed(number as u64);
    (number as u32).to_le_bytes().into_iter().chain((0..len_bytes).map(|_| bytes.u8(..))).collect()
}

impl Story {
    /// Tells the story of a seed.
    pub(crate) fn tell<F: SimFamily>(random: &mut Rng) -> Story {
        let memory = NotedMemory::new(F::Owner::memory_bytes(random), random.fork());
        let memory_bytes = crate::memory::WordMemory::len_bytes(&memory);
        let plan = F::Owner::plan(random);
        let mut story = Story {
            keys: plan.keys,
            operations: Vec::new(),
            stores: Vec::new(),
            memory_bytes,
            refused: 0,
            locked: 0,
            by_peers: 0,
            broken: 0,
            longest: plan.longest,
            peer: None,
        };
        if let Ok(mut owner) = F::Owner::create(&memory, plan.options) {
            let operations = random.usize(plan.operations);
            for number in 0..operations {
                owner.set_now(number as u64);
                let deletes = plan.deletes[number * 3 / operations];
                match random.u8(..8) {
                    0..2 if F::Owner::HAS_PEERS => story.let_peer(&mut owner, &memory, random, number),
                    _ => story.operate(&mut owner, &memory, random, (number, deletes)),
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
    fn let_peer<'m>(&mut self, owner: &mut impl SimOwner<'m>, memory: &NotedMemory, random: &mut Rng, number: usize) {
        let Some(mut peer) = self.peer.take() else {
            let key = random.usize(..self.keys.len());
            self.peer = owner.start_peer(memory, random, (key, &self.keys[key]));
            return;
        };
        if random.u8(..8) == 0 {
            let value = value(random, number, self.longest);
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

    fn operate<'m>(
        &mut self,
        owner: &mut impl SimOwner<'m>,
        memory: &NotedMemory,
        random: &mut Rng,
        (number, deletes): (usize, u8),
    ) {
        let (key, begin) = (random.usize(..self.keys.len()), memory.now());
        let done = if random.u8(..4) < deletes {
            owner.delete(&self.keys[key]).map(|was_there| was_there.then_some(None))
        } else {
            let value = value(random, number, self.longest);
            owner.put(&self.keys[key], &value).map(|()| Some(Some(value)))
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
