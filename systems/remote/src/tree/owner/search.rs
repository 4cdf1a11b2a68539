//! The owner's own searches: it goes the same way as its readers.

use crate::memory::WordMemory;
use crate::object::{ObjectHeader, SlotKind, TornCheck};
use crate::owner::{OwnObject, OwnerError};
use crate::tree::cache::NodeCache;
use crate::tree::descent::{DescentStep, TreePlace};
use crate::tree::image::{NodeContent, NodeImage};
use crate::tree::lookup::key_tag;
use crate::tree::node::{Aim, LeafSlot};
use crate::tree::owner::{TreeOwner, node_class};
use crate::tree::pointer::NodePointer;
use crate::tree::range::KeyRange;

/// The keys of a leaf, in order, with their slots.
pub(super) type SortedSlots = Vec<(Vec<u8>, LeafSlot)>;

/// An object of a range, as the owner tells it.
#[derive(Clone, Copy, Debug)]
pub struct OwnedPart<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The first bytes of the value.
    pub value: &'a [u8],
    /// Length of the whole value.
    pub value_bytes: u64,
    /// The object's first word.
    pub header: ObjectHeader,
}

impl<M: WordMemory, C: TornCheck> TreeOwner<M, C> {
    /// Goes to the node of a level that holds the aim.
    pub(super) fn go_to(&mut self, aim: Aim<'_>, level: u8) -> Result<NodePointer, OwnerError> {
        let place = TreePlace { salt: self.root.salt, memory_bytes: self.objects.memory.len_bytes() };
        let mut none = NodeCache::new(0);
        let mut step = self.descent.start(place, (self.root.pointer, level), aim, None);
        while let DescentStep::Read(wanted) = step {
            self.buffer.resize(wanted.len_bytes as usize, 0);
            self.objects.memory.copy_out(wanted.at, &mut self.buffer);
            step = self.descent.feed(aim, &self.buffer, &mut none);
        }
        let pointer = self.descent.pointer();
        let is_ours = step == DescentStep::There && self.objects.blocks.is_held(pointer.at(), node_class()?);
        if is_ours { Ok(pointer) } else { Err(OwnerError::Broken) }
    }

    /// The node of a level that holds the aim.
    pub(super) fn node_at(&mut self, aim: Aim<'_>, level: u8) -> Result<(NodePointer, NodeImage), OwnerError> {
        let pointer = self.go_to(aim, level)?;
        let image = self.descent.view().and_then(|view| NodeImage::of(&view));
        Ok((pointer, image.ok_or(OwnerError::Broken)?))
    }

    /// The live object of a key. One that a peer has locked must be unlocked first, because its bytes may be changing.
    pub(super) fn find(&mut self, key: &[u8]) -> Result<Option<OwnObject>, OwnerError> {
        let leaf = self.go_to(Aim::At(key), 0)?;
        let tag = key_tag(self.root.salt, key) as u32;
        let view = self.descent.view().ok_or(OwnerError::Broken)?;
        for number in 0..view.slots() {
            let slot = view.slot(number);
            if slot.tag == tag && slot.location.kind() == SlotKind::Object {
                let slot_at = leaf.at() + view.slot_at(number) as u64;
                if let Some(found) = self.objects.look((slot.location, slot_at), key)? {
                    return Ok(Some(found));
                }
            }
        }
        Ok(None)
    }

    /// The keys of a leaf in order.
    pub(super) fn sorted(&mut self, leaf: &NodeImage) -> Result<SortedSlots, OwnerError> {
        let NodeContent::Leaf { slots, .. } = &leaf.content else { return Err(OwnerError::Broken) };
        let mut sorted = SortedSlots::with_capacity(slots.len());
        for slot in slots {
            self.objects.copy_key(slot.location)?;
            sorted.push((self.objects.scratch.clone(), *slot));
        }
        sorted.sort_by(|(a, _), (b, _)| a.cmp(b));
        let are_ascending = sorted.windows(2).all(|pair| pair[0].0 < pair[1].0);
        if are_ascending { Ok(sorted) } else { Err(OwnerError::Broken) }
    }

    /// Calls `each` with key, value and first word of at most `limit` objects of a range, in the order of their keys.
    ///
    /// # Errors
    /// If a peer has broken the tree. Keys that were found before have been told.
    pub fn scan(
        &mut self,
        range: &KeyRange,
        limit: usize,
        mut each: impl FnMut(&[u8], &[u8], ObjectHeader),
    ) -> Result<(), OwnerError> {
        let mut left = limit;
        if left == 0 {
            return Ok(());
        }
        self.scan_parts(range, u64::MAX, |part| {
            each(part.key, part.value, part.header);
            left -= 1;
            left > 0
        })
    }

    /// Calls `each` with the objects of a range, in the order of their keys, until it returns false. Of each value it copies no
    /// more than `len_bytes`.
    ///
    /// # Errors
    /// If a peer has broken the tree. Keys that were found before have been told.
    pub fn scan_parts(
        &mut self,
        range: &KeyRange,
        len_bytes: u64,
        mut each: impl FnMut(OwnedPart<'_>) -> bool,
    ) -> Result<(), OwnerError> {
        let mut value = Vec::new();
        self.each_slot(range, &mut |owner, key, slot| {
            let found = owner.objects.look((slot.location, 0), key)?.ok_or(OwnerError::Broken)?;
            value.clear();
            owner.objects.copy_part(found.location, key.len() as u64, found.value_bytes.min(len_bytes), &mut value);
            Ok(each(OwnedPart { key, value: &value, value_bytes: found.value_bytes, header: found.header }))
        })
    }

    /// Calls `each` with the key and the first word of each object, in the order of their keys.
    ///
    /// # Errors
    /// If a peer has broken the tree. Keys that were found before have been told.
    pub fn each_key(&mut self, mut each: impl FnMut(&[u8], ObjectHeader)) -> Result<(), OwnerError> {
        self.each_slot(&KeyRange::all(), &mut |owner, key, slot| {
            each(key, ObjectHeader::from_word(owner.objects.memory.load(slot.location.offset())));
            Ok(true)
        })
    }

    /// Calls `each` with each key of a range and its slot, until it returns false.
    fn each_slot(
        &mut self,
        range: &KeyRange,
        each: &mut impl FnMut(&mut Self, &[u8], LeafSlot) -> Result<bool, OwnerError>,
    ) -> Result<(), OwnerError> {
        let mut cursor = range.first().to_vec();
        loop {
            let (_, leaf) = self.node_at(Aim::At(&cursor), 0)?;
            for (key, slot) in self.sorted(&leaf)? {
                if key >= cursor && (range.is_above(&key) || !each(self, &key, slot)?) {
                    return Ok(());
                }
            }
            match self.longs.bytes_of(&self.objects.memory, self.root.salt, &leaf.high)? {
                Some(high) if !range.is_above(&high) => cursor = high,
                _ => return Ok(()),
            }
        }
    }
}
