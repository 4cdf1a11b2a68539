//! Blocks of a table's memory: slabs for small objects, runs of pages for large ones, both reused late.
//!
//! A reader may hold the location of a freed block for a while. It finds out (its state, its incarnation and its check say
//! so), but an incarnation has 14 bits only. So a freed block waits before its memory is given out again.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::object::SizeClass;

const PAGE_BYTES: u64 = 4096;

/// Sizes and times of an allocator.
#[derive(Clone, Copy, Debug)]
pub struct AllocatorOptions {
    /// Small blocks are cut from slabs of about this length; blocks of half of it or more are runs of pages.
    pub slab_bytes: u64,
    /// A freed block waits so long for its reuse.
    pub reuse_after_ns: u64,
}

impl Default for AllocatorOptions {
    fn default() -> AllocatorOptions {
        AllocatorOptions { slab_bytes: 64 << 10, reuse_after_ns: 10_000_000 }
    }
}

/// The memory has no room for the block, now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom {
    /// Bytes of the block.
    pub wanted_bytes: u64,
    /// Bytes of freed blocks that still wait for their reuse.
    pub waiting_bytes: u64,
}

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NoRoom { wanted_bytes, waiting_bytes } = self;
        write!(f, "no room for {wanted_bytes} bytes; {waiting_bytes} freed ones wait for their reuse")
    }
}

impl std::error::Error for NoRoom {}

/// A piece of memory that is cut into blocks of one class.
#[derive(Debug)]
struct Slab {
    class: SizeClass,
    len_bytes: u64,
    free: Vec<u64>,
    used: u64,
}

/// The blocks of a range of memory. The notes are in the owner's private memory.
#[derive(Debug)]
pub struct BlockAllocator {
    options: AllocatorOptions,
    /// Free runs of pages: start and length. No two touch.
    runs: BTreeMap<u64, u64>,
    slabs: BTreeMap<u64, Slab>,
    /// The number of slabs without a block in use or waiting.
    empty_slabs: usize,
    /// For each class, slabs with a free block.
    open: FxHashMap<SizeClass, Vec<u64>>,
    /// Blocks in use: a peer with the right to write may lead the owner anywhere. The owner alone chooses the keys, so
    /// the hash needs no secret.
    held: FxHashMap<u64, SizeClass>,
    waiting: VecDeque<(u64, u64, SizeClass)>,
    waiting_bytes: u64,
    used_bytes: u64,
    now_ns: u64,
}

impl BlockAllocator {
    /// An allocator of that range, whole pages of it.
    pub fn new(range: Range<u64>, options: AllocatorOptions) -> BlockAllocator {
        let (start, end) = (range.start.next_multiple_of(PAGE_BYTES), range.end / PAGE_BYTES * PAGE_BYTES);
        let runs = if start < end { BTreeMap::from([(start, end - start)]) } else { BTreeMap::new() };
        BlockAllocator {
            options,
            runs,
            slabs: BTreeMap::new(),
            empty_slabs: 0,
            open: FxHashMap::default(),
            held: FxHashMap::default(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            used_bytes: 0,
            now_ns: 0,
        }
    }

    /// Tells the time. It counts from any start, and never goes back.
    pub fn set_now(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
        while let Some((freed_ns, at, class)) = self.waiting.front().copied() {
            if freed_ns.saturating_add(self.options.reuse_after_ns) > self.now_ns {
                break;
            }
            self.waiting.pop_front();
            self.waiting_bytes -= class.bytes();
            self.release(at, class);
        }
    }

    /// Bytes of blocks in use.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    /// Bytes of freed blocks that wait for their reuse.
    pub fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes
    }

    /// A block of that class. Blocks begin at multiples of 64.
    ///
    /// # Errors
    /// If there is no room now.
    pub fn allocate(&mut self, class: SizeClass) -> Result<u64, NoRoom> {
        let no_room = NoRoom { wanted_bytes: class.bytes(), waiting_bytes: self.waiting_bytes };
        let at = match self.take(class) {
            // Slabs of other classes may be empty.
            None if self.give_empty_slabs() => self.take(class),
            taken => taken,
        };
        let at = at.ok_or(no_room)?;
        self.used_bytes += class.bytes();
        self.held.insert(at, class);
        Ok(at)
    }

    /// True if a block of that class is in use there.
    pub fn is_held(&self, at: u64, class: SizeClass) -> bool {
        self.held.get(&at) == Some(&class)
    }

    /// Frees a block, which then waits for its reuse. Nothing happens if no block of that class is in use there.
    pub fn free(&mut self, at: u64, class: SizeClass) {
        if !self.is_held(at, class) {
            return;
        }
        self.held.remove(&at);
        self.used_bytes -= class.bytes();
        self.waiting_bytes += class.bytes();
        self.waiting.push_back((self.now_ns, at, class));
        self.set_now(self.now_ns);
    }

    fn is_small(&self, class: SizeClass) -> bool {
        class.bytes() < self.options.slab_bytes / 2
    }

    fn take(&mut self, class: SizeClass) -> Option<u64> {
        if self.is_small(class) { self.take_from_slab(class) } else { self.take_run(run_bytes(class)) }
    }

    /// Makes runs of all empty slabs. False if there are none.
    fn give_empty_slabs(&mut self) -> bool {
        if self.empty_slabs == 0 {
            return false;
        }
        self.empty_slabs = 0;
        let empty: Vec<(u64, Slab)> = self.slabs.extract_if(.., |_, slab| slab.used == 0).collect();
        for (start, slab) in &empty {
            if let Some(open) = self.open.get_mut(&slab.class) {
                open.retain(|other| other != start);
            }
            self.give_run(*start, slab.len_bytes);
        }
        true
    }

    fn take_from_slab(&mut self, class: SizeClass) -> Option<u64> {
        let open = self.open.entry(class).or_default();
        if open.is_empty() {
            let len_bytes = self.options.slab_bytes.next_multiple_of(PAGE_BYTES);
            let start = self.take_run(len_bytes)?;
            let count = len_bytes / class.bytes();
            let free = (0..count).rev().map(|number| start + number * class.bytes()).collect();
            self.slabs.insert(start, Slab { class, len_bytes, free, used: 0 });
            self.empty_slabs += 1;
            self.open.entry(class).or_default().push(start);
        }
        let open = self.open.get_mut(&class)?;
        let slab = self.slabs.get_mut(open.last()?)?;
        let at = slab.free.pop()?;
        self.empty_slabs -= usize::from(slab.used == 0);
        slab.used += 1;
        if slab.free.is_empty() {
            open.pop();
        }
        Some(at)
    }

    /// Makes a block free at once.
    fn release(&mut self, at: u64, class: SizeClass) {
        if !self.is_small(class) {
            return self.give_run(at, run_bytes(class));
        }
        let Some((start, slab)) = self.slabs.range_mut(..=at).next_back() else { return };
        debug_assert!(slab.class == class && at < start + slab.len_bytes, "a block of another class");
        let (start, was_full) = (*start, slab.free.is_empty());
        slab.free.push(at);
        slab.used -= 1;
        let (is_empty, len_bytes) = (slab.used == 0, slab.len_bytes);
        self.empty_slabs += usize::from(is_empty);
        let open = self.open.entry(class).or_default();
        if was_full {
            open.push(start);
        }
        // One empty slab of each class stays while there is room, so that a block that comes and goes does not make one each time.
        if is_empty && open.len() > 1 {
            open.retain(|other| *other != start);
            self.slabs.remove(&start);
            self.empty_slabs -= 1;
            self.give_run(start, len_bytes);
        }
    }

    fn take_run(&mut self, len_bytes: u64) -> Option<u64> {
        let (at, all) = self.runs.iter().map(|(at, all)| (*at, *all)).find(|(_, all)| *all >= len_bytes)?;
        self.runs.remove(&at);
        if all > len_bytes {
            self.runs.insert(at + len_bytes, all - len_bytes);
        }
        Some(at)
    }

    fn give_run(&mut self, mut at: u64, mut len_bytes: u64) {
        if let Some((before, before_bytes)) = self.runs.range(..at).next_back().map(|(at, len)| (*at, *len))
            && before + before_bytes == at
        {
            self.runs.remove(&before);
            (at, len_bytes) = (before, before_bytes + len_bytes);
        }
        if let Some(next_bytes) = self.runs.remove(&(at + len_bytes)) {
            len_bytes += next_bytes;
        }
        self.runs.insert(at, len_bytes);
    }
}

fn run_bytes(class: SizeClass) -> u64 {
    class.bytes().next_multiple_of(PAGE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(len_bytes: u64) -> SizeClass {
        SizeClass::of(len_bytes).unwrap()
    }

    #[test]
    fn a_freed_block_waits_for_its_time() {
        let options = AllocatorOptions { slab_bytes: 4096, reuse_after_ns: 100 };
        let mut blocks = BlockAllocator::new(0..8192, options);
        let first = blocks.allocate(class(8192)).unwrap();
        blocks.free(first, class(8192));
        let refused = blocks.allocate(class(64)).unwrap_err();
        assert_eq!(refused, NoRoom { wanted_bytes: 64, waiting_bytes: 8192 });
        blocks.set_now(99);
        assert!(blocks.allocate(class(64)).is_err());
        blocks.set_now(100);
        assert_eq!(blocks.allocate(class(64)), Ok(first));
        assert_eq!((blocks.used_bytes(), blocks.waiting_bytes()), (64, 0));
    }

    /// Memory that was cut for small blocks serves large ones, and blocks of other lengths, when the small ones are gone.
    #[test]
    fn empty_slabs_make_room_for_others() {
        let options = AllocatorOptions { slab_bytes: 4096, reuse_after_ns: 0 };
        let mut blocks = BlockAllocator::new(0..4 * 4096, options);
        for len_bytes in [64, 128, 512, 1024] {
            let at = blocks.allocate(class(len_bytes)).unwrap();
            blocks.free(at, class(len_bytes));
        }
        let whole = blocks.allocate(class(4 * 4096)).unwrap();
        assert!(blocks.allocate(class(64)).is_err());
        blocks.free(whole, class(4 * 4096));
        let small = blocks.allocate(class(64)).unwrap();
        assert!(blocks.allocate(class(4 * 4096)).is_err(), "one slab is in use");
        assert!(blocks.is_held(small, class(64)) && blocks.allocate(class(3 * 4096)).is_ok());
    }

    #[test]
    fn blocks_never_overlap_and_all_memory_comes_back() {
        let options = AllocatorOptions { slab_bytes: 16 << 10, reuse_after_ns: 0 };
        let (mut blocks, mut random) = (BlockAllocator::new(100..1 << 20, options), fastrand::Rng::with_seed(7));
        let mut held: BTreeMap<u64, SizeClass> = BTreeMap::new();
        for _ in 0..20_000 {
            if random.bool()
                && let Ok(at) = {
                    let class = class(random.u64(1..40_000));
                    blocks.allocate(class).inspect(|at| {
                        held.insert(*at, class);
                    })
                }
            {
                let len_bytes = held[&at].bytes();
                assert!(at >= 4096 && at + len_bytes <= 1 << 20 && at.is_multiple_of(64));
                let before = held.range(..at).next_back().map(|(at, class)| at + class.bytes());
                assert!(before.is_none_or(|end| end <= at));
                assert!(held.range(at + 1..).next().is_none_or(|(next, _)| at + len_bytes <= *next));
            } else if let Some(at) = held.keys().nth(random.usize(..held.len().max(1))).copied() {
                blocks.free(at, held.remove(&at).unwrap());
            }
        }
        held.iter().for_each(|(at, class)| blocks.free(*at, *class));
        assert_eq!((blocks.used_bytes(), blocks.waiting_bytes()), (0, 0));
        // Each class keeps one empty slab at most.
        assert_eq!(blocks.empty_slabs, blocks.slabs.len());
        let kept: u64 = blocks.slabs.values().map(|slab| slab.len_bytes).sum();
        assert_eq!(blocks.runs.values().sum::<u64>() + kept, (1 << 20) - 4096);
    }
}
