//! Changes of nodes: new ones take the place of old neighbours, and one store of a word makes the change.
//!
//! ```text
//!  1  find blocks for all new nodes, up to the first that takes the place of exactly one       nothing has changed yet
//!  2  write the new nodes, from right to left and from the leaves up
//!  3  store one word: a child of a node that stays, or the root record's pointer
//!  4  lead the links of the left neighbours to the new nodes
//!  5  lead the links of the old nodes to the new ones, and mark them as replaced
//! ```
//! A new node holds the same keys as the old ones did, and no slot changes before step 5 is done.

use crate::memory::WordMemory;
use crate::object::TornCheck;
use crate::owner::OwnerError;
use crate::tree::image::{NodeContent, NodeImage, store_node};
use crate::tree::node::{Aim, CHILD_BYTES, LINK_AT, NodeView};
use crate::tree::owner::split::split_inner;
use crate::tree::owner::{TreeOwner, node_class};
use crate::tree::pointer::{NodeHeader, NodePointer};
use crate::tree::separator::Separator;

pub(super) type PlacedNode = (NodePointer, NodeImage);

/// All that a change will store.
#[derive(Default)]
struct NodeChange {
    /// New nodes with their numbers, in the order in which they are written.
    new: Vec<(NodePointer, u64, NodeImage)>,
    /// For each level: the old nodes, and the first new one.
    old: Vec<(Vec<PlacedNode>, NodePointer)>,
    /// The word that makes the change, and the root's level after it.
    word_at: u64,
    word: NodePointer,
    root_level: u8,
}

impl<M: WordMemory, C: TornCheck> TreeOwner<M, C> {
    /// Puts new nodes in the place of old ones, which are neighbours below one parent. There are one or two of each.
    pub(super) fn change(&mut self, old: Vec<PlacedNode>, new: Vec<NodeImage>) -> Result<(), OwnerError> {
        let mut change = NodeChange::default();
        if let Err(error) = self.plan(&mut change, old, new) {
            if let Ok(class) = node_class() {
                change.new.iter().for_each(|(pointer, ..)| self.objects.blocks.free(pointer.at(), class));
            }
            self.longs.free_unused(&mut self.objects.blocks);
            return Err(error);
        }
        self.carry_out(change)
    }

    /// Finds a place for a node.
    fn place(&mut self, change: &mut NodeChange, image: NodeImage) -> Result<NodePointer, OwnerError> {
        let at = self.objects.blocks.allocate(node_class()?)?;
        self.numbers += 1;
        let pointer = NodePointer::new(at, self.numbers);
        change.new.push((pointer, self.numbers, image));
        Ok(pointer)
    }

    /// Finds places for neighbours, the rightmost first, and links them.
    fn place_all(
        &mut self,
        change: &mut NodeChange,
        images: Vec<NodeImage>,
        mut link: NodePointer,
    ) -> Result<Vec<NodePointer>, OwnerError> {
        let mut pointers = Vec::new();
        for image in images.into_iter().rev() {
            link = self.place(change, NodeImage { link, ..image })?;
            pointers.insert(0, link);
        }
        Ok(pointers)
    }

    fn plan(
        &mut self,
        change: &mut NodeChange,
        mut old: Vec<PlacedNode>,
        mut new: Vec<NodeImage>,
    ) -> Result<(), OwnerError> {
        loop {
            let (Some(first_old), Some(last_old)) = (old.first(), old.last()) else { return Err(OwnerError::Broken) };
            let (is_root, old_len) = (first_old.0 == self.root.pointer, old.len());
            let (first_pointer, level, low) = (first_old.0, first_old.1.level, first_old.1.low.clone());
            let lows: Vec<Separator<'static>> = new.iter().skip(1).map(|image| image.low.clone()).collect();
            let pointers = self.place_all(change, new, last_old.1.link)?;
            change.old.push((old, pointers[0]));
            if is_root {
                return self.plan_root(change, (level, lows), pointers);
            }
            let low_bytes = self.longs.bytes_of(&self.objects.memory, self.root.salt, &low)?;
            let aim = low_bytes.ok_or(OwnerError::Broken)?;
            let (parent_pointer, mut parent) = self.node_at(Aim::At(&aim), level + 1)?;
            let place = parent.children().iter().position(|child| *child == first_pointer);
            let place = place.filter(|place| place + old_len <= parent.children().len()).ok_or(OwnerError::Broken)?;
            if old_len == pointers.len() && old_len == 1 {
                let view = self.descent.view().ok_or(OwnerError::Broken)?;
                change.word_at = child_at(parent_pointer, &view, place);
                (change.word, change.root_level) = (pointers[0], self.root_level);
                return Ok(());
            }
            let NodeContent::Inner { separators, children } = &mut parent.content else {
                return Err(OwnerError::Broken);
            };
            let before = (parent_pointer, self.descent.view().and_then(|view| NodeImage::of(&view)));
            let (before_pointer, Some(before_image)) = before else { return Err(OwnerError::Broken) };
            children.splice(place..place + old_len, pointers.iter().copied());
            separators.splice(place..place + old_len - 1, lows);
            if parent_pointer == self.root.pointer && children.len() == 1 {
                // A root with one child: the child is the root.
                change.old.push((vec![(before_pointer, before_image)], pointers[0]));
                (change.word_at, change.word, change.root_level) = (0, pointers[0], level);
                return Ok(());
            }
            old = vec![(before_pointer, before_image)];
            new = split_inner(parent);
        }
    }

    /// The root is replaced: by one node, or by two below a new root.
    fn plan_root(
        &mut self,
        change: &mut NodeChange,
        (level, lows): (u8, Vec<Separator<'static>>),
        pointers: Vec<NodePointer>,
    ) -> Result<(), OwnerError> {
        (change.word_at, change.word, change.root_level) = (0, pointers[0], level);
        if pointers.len() > 1 {
            let content = NodeContent::Inner { separators: lows, children: pointers };
            let (low, high) = (Separator::LOWEST, Separator::Infinite);
            let root = NodeImage { level: level + 1, link: NodePointer::NONE, low, high, content };
            (change.word, change.root_level) = (self.place(change, root)?, level + 1);
        }
        Ok(())
    }

    fn carry_out(&mut self, change: NodeChange) -> Result<(), OwnerError> {
        let memory = &self.objects.memory;
        for (pointer, number, image) in &change.new {
            self.longs.retain(image);
            store_node(memory, pointer.at(), &image.encode(self.root.salt, pointer.at(), *number));
        }
        self.nodes += change.new.len() as u64;
        memory.store(change.word_at, change.word.word());
        self.root_level = change.root_level;
        if change.word_at == 0 {
            self.root.pointer = change.word;
        }
        let led = change.old.iter().try_for_each(|(old, first)| self.lead_left(old, *first));
        for (old, first) in &change.old {
            old.iter().try_for_each(|(pointer, image)| self.retire(*pointer, image, *first))?;
        }
        self.longs.free_unused(&mut self.objects.blocks);
        led
    }

    /// Leads the link of the left neighbour of old nodes to the first new one.
    fn lead_left(&mut self, old: &[PlacedNode], first: NodePointer) -> Result<(), OwnerError> {
        let Some((_, image)) = old.first() else { return Ok(()) };
        let low = self.longs.bytes_of(&self.objects.memory, self.root.salt, &image.low)?.unwrap_or_default();
        if low.is_empty() || image.level > self.root_level {
            return Ok(());
        }
        let left = self.go_to(Aim::Before(&low), image.level)?;
        self.objects.memory.store(left.at() + LINK_AT as u64, first.word());
        Ok(())
    }

    /// Marks a node as replaced, and frees its block.
    fn retire(&mut self, pointer: NodePointer, image: &NodeImage, first: NodePointer) -> Result<(), OwnerError> {
        let memory = &self.objects.memory;
        let header = NodeHeader::from_word(memory.load(pointer.at()));
        memory.store(pointer.at() + LINK_AT as u64, first.word());
        memory.store(pointer.at(), header.replaced().word());
        self.objects.blocks.free(pointer.at(), node_class()?);
        self.longs.release(image);
        self.nodes -= 1;
        Ok(())
    }
}

/// Where the word of a child is.
fn child_at(parent: NodePointer, view: &NodeView<'_>, place: usize) -> u64 {
    parent.at() + (view.words_at() + place * CHILD_BYTES) as u64
}
