//! The leaf where a scan is: windows of its objects, the items that they make, and the way to the next leaf.

use crate::lookup::ReadRequest;
use crate::memory::word_at;
use crate::object::{SlotKind, TornCheck};
use crate::tree::cache::NodeCache;
use crate::tree::descent::TreePlace;
use crate::tree::node::{Aim, NodeView, head_of};
use crate::tree::range::KeyRange;
use crate::tree::scan::{ItemPlace, ScanStage, ScanStep, TreeScan};
use crate::tree::separator::Separator;
use crate::tree::window::{SlotOutcome, SlotRead};

/// Bytes of the objects that a scan reads at a time, unless they have the same heads.
const WINDOW_BYTES: u64 = 4 << 20;

impl<C: TornCheck> TreeScan<C> {
    /// Reads the objects of the next slots, and the first word of the leaf if it has not been read again.
    pub(super) fn begin_window(&mut self) -> ScanStep {
        self.window.clear();
        self.arena.clear();
        let (width, mut len_bytes) = (self.width.min(self.left), 0);
        while let Some(next) = self.waiting.last() {
            let is_full = self.window.len() >= width || len_bytes >= WINDOW_BYTES;
            if is_full && self.window.last().is_some_and(|last| last.slot.head != next.slot.head) {
                break;
            }
            len_bytes += next.slot.location.class().bytes();
            self.window.extend(self.waiting.pop());
        }
        self.read_window()
    }

    /// Asks for the READs that the slots of the window still need.
    fn read_window(&mut self) -> ScanStep {
        self.stage = ScanStage::Window;
        self.reads.clear();
        self.readers.clear();
        if !self.is_confirmed {
            self.reads.push(ReadRequest { at: self.descent.pointer().at(), len_bytes: 8 });
            self.readers.push(None);
        }
        for (number, read) in self.window.iter().enumerate() {
            let SlotOutcome::Wanted(len_bytes) = read.outcome else { continue };
            let at = read.slot.location.offset();
            if at.checked_add(len_bytes).is_none_or(|end| end > self.memory_bytes) {
                return self.again();
            }
            self.reads.push(ReadRequest { at, len_bytes });
            self.readers.push(Some(number));
        }
        ScanStep::Reads
    }

    /// All READs of the window have been fed.
    pub(super) fn on_window(&mut self, cache: &mut NodeCache) -> ScanStep {
        let first_word = self.descent.view().map(|view| view.header().word());
        if !self.is_confirmed && first_word != Some(word_at(&self.bytes, 0)) {
            return self.again();
        }
        self.is_confirmed = true;
        if self.window.iter().any(|read| read.outcome == SlotOutcome::Stale) {
            return self.again();
        }
        if self.window.iter().any(|read| matches!(read.outcome, SlotOutcome::Wanted(_))) {
            return self.read_window();
        }
        self.tell();
        self.stage = ScanStage::Told;
        if self.items.is_empty() {
            return self.next_window(cache);
        }
        self.attempts = 0;
        ScanStep::Items
    }

    /// Makes items of a window that is read.
    fn tell(&mut self) {
        self.items.clear();
        let (range, cursor, arena) = (&self.range, &self.cursor, &self.arena);
        for read in &self.window {
            let SlotOutcome::Found { header, ref key, value_end } = read.outcome else { continue };
            let bytes = &arena[key.clone()];
            if bytes >= cursor.as_slice() && range.contains(bytes) {
                let location = read.slot.location;
                self.items.push(ItemPlace { key: key.clone(), value_end, header, location });
            }
        }
        self.items.sort_by(|a, b| arena[a.key.clone()].cmp(&arena[b.key.clone()]));
        // A key that was deleted and inserted again meanwhile may have had two slots.
        self.items.dedup_by(|a, b| arena[a.key.clone()] == arena[b.key.clone()]);
        self.items.truncate(self.left);
        self.left -= self.items.len();
        if let Some(last) = self.items.last() {
            self.cursor.clear();
            self.cursor.extend_from_slice(&arena[last.key.clone()]);
            self.cursor.push(0);
        }
    }

    /// The next window of the leaf, or the next leaf.
    pub(super) fn next_window(&mut self, cache: &mut NodeCache) -> ScanStep {
        if !self.waiting.is_empty() {
            return self.begin_window();
        }
        let high = self.descent.view().and_then(|view| view.high());
        match high.map(Separator::into_owned) {
            Some(Separator::Infinite) => self.done(),
            Some(Separator::Short(high)) => self.next_leaf(high.into_owned(), cache),
            Some(Separator::Long(long)) => {
                let is_inside =
                    long.at.checked_add(u64::from(long.len_bytes)).is_some_and(|end| end <= self.memory_bytes);
                match is_inside {
                    true => self.read_one(ScanStage::Fence(long), long.at, u64::from(long.len_bytes)),
                    false => self.again(),
                }
            }
            None => self.again(),
        }
    }

    /// Goes to the leaf that begins at the high fence of this one.
    pub(super) fn next_leaf(&mut self, high: Vec<u8>, cache: &mut NodeCache) -> ScanStep {
        let (Some(root), Some(view)) = (self.root, self.descent.view()) else { return self.again() };
        if self.range.is_above(&high) {
            return self.done();
        }
        let link = view.link();
        (self.cursor, self.attempts) = (high, 0);
        let place = TreePlace { salt: root.salt, memory_bytes: self.memory_bytes };
        let step = self.descent.start(place, (link, 0), Aim::At(&self.cursor), Some(cache));
        self.on_descent(step)
    }
}

/// The slots of a leaf that may be of the range from the cursor on, the highest head first.
pub(super) fn collect(leaf: &NodeView<'_>, cursor: &[u8], range: &KeyRange, slots: &mut Vec<SlotRead>) {
    let skip = leaf.skip();
    let first = head_of(cursor, skip);
    // The cursor is in the leaf, so it begins as the keys there do. An end that begins otherwise is behind all of them.
    let is_near = |end: &&[u8]| end.get(..skip).is_some_and(|begin| cursor.get(..skip) == Some(begin));
    let last = range.end().filter(is_near).map_or(u32::MAX, |end| head_of(end, skip));
    let all = (0..leaf.slots()).map(|number| leaf.slot(number));
    let inside = all.filter(|slot| slot.location.kind() == SlotKind::Object && (first..=last).contains(&slot.head));
    slots.clear();
    slots.extend(inside.map(SlotRead::new));
    slots.sort_by_key(|read| std::cmp::Reverse(read.slot.head));
}
