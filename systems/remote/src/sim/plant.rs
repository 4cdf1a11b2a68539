//! Planted bugs: mistakes that an implementation could make. The checks must find each of them.

use crate::memory::{WordMemory, word_at};
use crate::object::{Crc64, ObjectHeader, ObjectState, OpenObject, ReadGrain, Seal, TornCheck, Unopened};
use crate::sim::story::Story;
use crate::sim::timeline::WordStore;
use crate::tree::{NODE_BYTES, NodeHeader, NodeState};

/// A mistake in the writer's order of stores, or in the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// The writer does not count the moves of slots.
    UncountedMoves,
    /// The writer makes replaced and deleted objects dead much later.
    LateDeaths,
    /// The writer leads to the new area before it has filled it.
    EarlyRoots,
    /// The reader compares the root record with itself.
    OldRoots,
    /// The owner of a tree marks nodes as replaced much later.
    LateReplacements,
    /// The owner of a tree leads to new nodes before it has written them.
    EarlyNodes,
    /// The reader READs objects in pieces that it has to READ at one moment.
    PlainReads,
}

impl Plant {
    /// All.
    pub const ALL: [Plant; 7] = [
        Plant::UncountedMoves,
        Plant::LateDeaths,
        Plant::EarlyRoots,
        Plant::OldRoots,
        Plant::LateReplacements,
        Plant::EarlyNodes,
        Plant::PlainReads,
    ];

    /// Changes the order of a story's stores.
    pub(crate) fn spoil(self, story: &mut Story) {
        match self {
            Plant::UncountedMoves => forget_moves(story),
            Plant::LateDeaths => (0..story.operations.len()).for_each(|number| delay_death(story, number)),
            Plant::EarlyRoots => {
                story.operations.iter().for_each(|done| hurry_root(&mut story.stores[done.begin..done.end]))
            }
            Plant::LateReplacements => delay_replacements(story),
            Plant::EarlyNodes => {
                story.operations.iter().for_each(|done| hurry_nodes(&mut story.stores[done.begin..done.end]))
            }
            Plant::OldRoots | Plant::PlainReads => {}
        }
    }
}

/// Keeps the epoch in the first word of the root record, and no moves.
fn forget_moves(story: &mut Story) {
    story.stores.iter_mut().filter(|store| store.at == 0).for_each(|store| store.word &= !0xffff_ffff);
}

/// True for a store that makes a live object dead.
fn is_death(stores: &[WordStore], number: usize) -> bool {
    let store = &stores[number];
    let before = stores[..number].iter().rfind(|earlier| earlier.at == store.at);
    store.at > 64
        && before.map(|before| ObjectHeader::from_word(before.word)).is_some_and(|header| {
            header.state() == ObjectState::Live && header.held_by(0).with_state(ObjectState::Dead).word() == store.word
        })
}

/// Moves the store that makes an object dead behind many later ones.
fn delay_death(story: &mut Story, number: usize) {
    let (begin, end) = (story.operations[number].begin, story.operations[number].end);
    let Some(from) = (begin..end).rfind(|number| is_death(&story.stores, *number)) else { return };
    let to = (from + 100).min(story.stores.len());
    let store = story.stores[from];
    insert_store(story, to, store);
    // In its old place the object stays what it was.
    let before = story.stores[..from].iter().rfind(|earlier| earlier.at == store.at).copied();
    story.stores[from] = before.unwrap_or(store);
}

/// Adds a store.
fn insert_store(story: &mut Story, to: usize, store: WordStore) {
    story.stores.insert(to, store);
    for operation in story.operations.iter_mut().filter(|operation| operation.end >= to) {
        operation.end += 1;
        operation.begin += usize::from(operation.begin >= to);
    }
}

/// Moves the nine words of a new root record to the begin of the operation.
fn hurry_root(stores: &mut [WordStore]) {
    let root = stores.iter().rposition(|store| store.at == 0 && store.word & 0xffff_ffff == 0);
    if let Some(root) = root {
        stores[..=root].rotate_right(9.min(root + 1));
    }
}

/// True for the first word of a node in that state.
fn is_node_header(store: &WordStore, state: NodeState) -> bool {
    let header = NodeHeader::from_word(store.word);
    store.at > 0 && store.at.is_multiple_of(NODE_BYTES) && header.state() == state && header.number() < 1 << 20
}

/// Moves the stores that mark nodes as replaced behind many later ones.
fn delay_replacements(story: &mut Story) {
    let is_mark = |number: &usize| is_node_header(&story.stores[*number], NodeState::Replaced);
    let marks: Vec<usize> = (0..story.stores.len()).filter(is_mark).collect();
    for from in marks.into_iter().rev() {
        let mark = story.stores[from];
        // Not behind the place where the block is used again.
        let behind = story.stores[from + 1..].iter().take(3000).take_while(|other| other.at != mark.at).count();
        insert_store(story, from + 1 + behind, mark);
        let header = NodeHeader::from_word(mark.word);
        story.stores[from].word = NodeHeader::new(NodeState::Live, header.level(), header.number()).word();
    }
}

/// Moves the last store that leads to a new node before the stores of that.
fn hurry_nodes(stores: &mut [WordStore]) {
    let is_header = |store: &WordStore| is_node_header(store, NodeState::Live);
    let (Some(last), Some(first)) =
        (stores.iter().rposition(is_header), stores.iter().position(|store| store.word == 0))
    else {
        return;
    };
    // The word that makes the change is the store behind the last new node.
    if last + 1 < stores.len() && first < last {
        stores[first..last + 2].rotate_right(1);
    }
}

/// A planted check: versions at both ends of an object, and nothing between. It relies on READs that copy in ascending order.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BothEnds;

impl TornCheck for BothEnds {
    const CODE: u8 = 99;
    const NAME: &'static str = "both-ends";
    const NEEDS: ReadGrain = ReadGrain::Word;
    const PEERS_MAY_WRITE: bool = false;

    fn object_bytes(key_bytes: u64, value_bytes: u64) -> u64 {
        Crc64::object_bytes(key_bytes, value_bytes).next_multiple_of(8) + 8
    }

    fn encode(seal: Seal, header: ObjectHeader, key: &[u8], value: &[u8], image: &mut Vec<u8>) {
        Crc64::encode(seal, header, key, value, image);
        image.resize(image.len().next_multiple_of(8), 0);
        image.extend_from_slice(&seal.over(header.covered()).to_le_bytes());
    }

    fn store_body<M: WordMemory>(memory: &M, at: u64, image: &[u8]) {
        let tail = image.len() - 8;
        memory.store(at + tail as u64, 0);
        memory.copy_in(at + 8, &image[8..tail]);
        memory.store(at + tail as u64, word_at(image, tail));
    }

    fn open(seal: Seal, bytes: &[u8], scratch: &mut Vec<u8>) -> Result<OpenObject, Unopened> {
        let header = ObjectHeader::from_word(word_at(bytes, 0));
        let lengths = word_at(bytes, 16);
        let (key_bytes, value_bytes) = ((lengths >> 32) as usize, (lengths & 0xffff_ffff) as usize);
        match Crc64::open(seal, bytes, scratch) {
            Err(Unopened::Torn) if key_bytes <= 1 << 16 && value_bytes <= 1 << 20 => {}
            Ok(_) => {}
            other => return other,
        }
        let tail = BothEnds::object_bytes(key_bytes as u64, value_bytes as u64) as usize - 8;
        match word_at(bytes, tail) == seal.over(header.covered()) {
            true => {
                Ok(OpenObject { header, key: 24..24 + key_bytes, value: 24 + key_bytes..24 + key_bytes + value_bytes })
            }
            false => Err(Unopened::Torn),
        }
    }

    fn copy_content<M: WordMemory>(memory: &M, at: u64, from: u64, out: &mut Vec<u8>, len_bytes: u64) {
        Crc64::copy_content(memory, at, from, out, len_bytes);
    }
}

/// A planted check: none. Any bytes are an object.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unchecked;

impl TornCheck for Unchecked {
    const CODE: u8 = 98;
    const NAME: &'static str = "unchecked";
    const NEEDS: ReadGrain = ReadGrain::Word;
    const PEERS_MAY_WRITE: bool = false;

    fn object_bytes(key_bytes: u64, value_bytes: u64) -> u64 {
        Crc64::object_bytes(key_bytes, value_bytes)
    }

    fn encode(seal: Seal, header: ObjectHeader, key: &[u8], value: &[u8], image: &mut Vec<u8>) {
        Crc64::encode(seal, header, key, value, image);
    }

    fn store_body<M: WordMemory>(memory: &M, at: u64, image: &[u8]) {
        Crc64::store_body(memory, at, image);
    }

    fn open(seal: Seal, bytes: &[u8], scratch: &mut Vec<u8>) -> Result<OpenObject, Unopened> {
        let lengths = word_at(bytes, 16);
        let (key_bytes, value_bytes) = ((lengths >> 32) as usize, (lengths & 0xffff_ffff) as usize);
        let header = ObjectHeader::from_word(word_at(bytes, 0));
        match Crc64::open(seal, bytes, scratch) {
            Err(Unopened::Torn) if 24 + key_bytes + value_bytes <= bytes.len() => {
                Ok(OpenObject { header, key: 24..24 + key_bytes, value: 24 + key_bytes..24 + key_bytes + value_bytes })
            }
            other => other,
        }
    }

    fn copy_content<M: WordMemory>(memory: &M, at: u64, from: u64, out: &mut Vec<u8>, len_bytes: u64) {
        Crc64::copy_content(memory, at, from, out, len_bytes);
    }
}
