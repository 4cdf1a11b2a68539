//! A node's memory, and the model of it that it must equal.
//!
//! An [`Area`] is a registered region with a twin: plain bytes that change only when the checkers know that the
//! region must have changed. A write without a right, in the wrong place or twice makes the two differ.

use std::ops::Range;
use std::sync::Arc;

use faults::Rng;
use memory::{MrKeys, Region, Registry};
use transport::{Access, PdId, Sge};

use crate::check::{Outcome, Violation};

/// A stretch of an area's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AreaPiece {
    pub(crate) offset: usize,
    pub(crate) len: usize,
}

impl AreaPiece {
    pub(crate) fn range(self) -> Range<usize> {
        self.offset..self.offset + self.len
    }
}

/// Total length of pieces.
pub(crate) fn total_len(pieces: &[AreaPiece]) -> usize {
    pieces.iter().map(|piece| piece.len).sum()
}

/// A registered region and its model.
pub(crate) struct Area {
    name: &'static str,
    region: Arc<Region>,
    keys: MrKeys,
    base: u64,
    model: Vec<u8>,
}

impl Area {
    /// Registers `len` bytes of random contents, at a random address that may be the
    /// last of all, or counted from zero.
    pub(crate) fn new(
        name: &'static str,
        registry: &Registry,
        pd: PdId,
        access: Access,
        len: usize,
        rng: &mut Rng,
    ) -> Area {
        let len = len.max(64).next_multiple_of(64);
        let region = Arc::new(Region::allocate(len as u64).expect("memory for a simulated node"));
        let mut model = vec![0; len];
        rng.fill(&mut model);
        region.span().write(&model);
        let (base, access) = match rng.below(4) {
            0 => (0, access | Access::ZERO_BASED),
            1 => (!4095 - (len as u64).next_multiple_of(4096), access),
            _ => ((rng.next_u64() >> 16).next_multiple_of(4096), access),
        };
        let keys = registry
            .register_region(pd, Arc::clone(&region), Some(base), access)
            .expect("a region of a simulated node can be registered");
        Area { name, region, keys, base, model }
    }

    /// Begins the last word with zero.
    pub(crate) fn clear_last_word(&mut self) {
        let offset = self.model.len() - 8;
        self.model[offset..].fill(0);
        let span = self.region.span().part(offset, 8);
        span.expect("an area has a last word").write(&[0; 8]);
    }

    pub(crate) fn keys(&self) -> &MrKeys {
        &self.keys
    }

    pub(crate) fn len(&self) -> usize {
        self.model.len()
    }

    /// The address by which peers and lists name the byte at `offset`.
    pub(crate) fn addr(&self, offset: usize) -> u64 {
        self.base + offset as u64
    }

    pub(crate) fn sge(&self, piece: AreaPiece) -> Sge {
        Sge { addr: self.addr(piece.offset), len_bytes: piece.len as u32, lkey: self.keys.lkey }
    }

    /// The expected bytes.
    pub(crate) fn model(&self) -> &[u8] {
        &self.model
    }

    /// The region must have these bytes from now on.
    pub(crate) fn expect(&mut self, offset: usize, bytes: &[u8]) {
        self.model[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    /// The pieces, one after the other, must hold these bytes from now on.
    pub(crate) fn expect_pieces(&mut self, pieces: &[AreaPiece], mut bytes: &[u8]) {
        for piece in pieces {
            let (part, rest) = bytes.split_at(piece.len.min(bytes.len()));
            self.expect(piece.offset, part);
            bytes = rest;
        }
    }

    /// The bytes in memory.
    pub(crate) fn actual(&self, range: Range<usize>) -> Vec<u8> {
        let mut bytes = vec![0; range.len()];
        self.read(range.start, &mut bytes);
        bytes
    }

    fn read(&self, offset: usize, out: &mut [u8]) {
        let span = self.region.span().part(offset, out.len());
        span.expect("a range of the area").read(out);
    }

    /// The bytes of the pieces in memory, one after the other.
    pub(crate) fn actual_pieces(&self, pieces: &[AreaPiece]) -> Vec<u8> {
        let mut bytes = vec![0; total_len(pieces)];
        let mut rest = bytes.as_mut_slice();
        for piece in pieces {
            let (part, behind) = rest.split_at_mut(piece.len);
            self.read(piece.offset, part);
            rest = behind;
        }
        bytes
    }

    /// The expected bytes of the pieces, one after the other.
    pub(crate) fn model_pieces(&self, pieces: &[AreaPiece]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(total_len(pieces));
        pieces.iter().for_each(|piece| bytes.extend_from_slice(&self.model[piece.range()]));
        bytes
    }

    /// Takes the bytes in memory over into the model: their value cannot be predicted.
    pub(crate) fn accept(&mut self, range: Range<usize>) {
        let bytes = self.actual(range.clone());
        self.expect(range.start, &bytes);
    }

    /// Compares region and model.
    pub(crate) fn check(&self, range: Range<usize>) -> Outcome {
        let actual = self.actual(range.clone());
        let model = &self.model[range.clone()];
        if actual == *model {
            return Ok(());
        }
        let first = actual.iter().zip(model).position(|(a, b)| a != b).unwrap_or_default();
        let count = actual.iter().zip(model).filter(|(a, b)| a != b).count();
        Err(Violation::new(
            "memory equals the model",
            format!(
                "area {}: {count} bytes differ, the first at offset {} of {}: {:#04x}, not {:#04x}",
                self.name,
                range.start + first,
                self.len(),
                actual[first],
                model[first]
            ),
        ))
    }

    /// Compares everything.
    pub(crate) fn check_all(&self) -> Outcome {
        self.check(0..self.len())
    }
}

/// Cuts `range` into at most `most` pieces in any order, some perhaps empty.
pub(crate) fn cut(rng: &mut Rng, range: Range<usize>, most: u32) -> Vec<AreaPiece> {
    let count = rng.range(1..=u64::from(most)) as usize;
    let mut ends: Vec<usize> = (1..count).map(|_| rng.range(range.start as u64..=range.end as u64) as usize).collect();
    ends.push(range.end);
    ends.sort_unstable();
    let mut offset = range.start;
    let mut pieces: Vec<AreaPiece> = ends
        .into_iter()
        .map(|end| {
            let piece = AreaPiece { offset, len: end - offset };
            offset = end;
            piece
        })
        .collect();
    for last in (1..pieces.len()).rev() {
        pieces.swap(last, rng.below(last as u64 + 1) as usize);
    }
    pieces
}

/// At most `most` pieces anywhere in `len` bytes, `total` bytes together.
pub(crate) fn scattered(rng: &mut Rng, len: usize, total: usize, most: u32) -> Vec<AreaPiece> {
    let lengths = cut(rng, 0..total, most);
    lengths
        .into_iter()
        .map(|piece| AreaPiece { offset: rng.below((len - piece.len) as u64 + 1) as usize, len: piece.len })
        .collect()
}

/// Places within an area, with guards of untouched bytes between them.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    slots: Vec<AreaPiece>,
    free: Vec<usize>,
}

/// Untouched bytes between two slots.
const GUARD: usize = 64;

impl Slots {
    /// Bytes that `count` slots of `len` take.
    pub(crate) fn room(count: usize, len: usize) -> usize {
        count * (len + GUARD).next_multiple_of(8) + GUARD
    }

    /// `count` slots of `len` from `start` on.
    pub(crate) fn new(start: usize, count: usize, len: usize) -> Slots {
        let stride = (len + GUARD).next_multiple_of(8);
        Slots {
            slots: (0..count).map(|i| AreaPiece { offset: start + GUARD + i * stride, len }).collect(),
            free: (0..count).rev().collect(),
        }
    }

    /// Takes a free slot.
    pub(crate) fn take(&mut self) -> Option<usize> {
        self.free.pop()
    }

    /// Gives a slot back.
    pub(crate) fn give_back(&mut self, slot: usize) {
        self.free.push(slot);
    }

    /// The place of a slot.
    pub(crate) fn at(&self, slot: usize) -> AreaPiece {
        self.slots[slot]
    }

    /// A slot with the guards around it.
    pub(crate) fn guarded(&self, slot: usize) -> Range<usize> {
        let AreaPiece { offset, len } = self.slots[slot];
        offset - GUARD..offset + len + GUARD
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_cover_the_range_once() {
        let mut rng = Rng::new(1);
        for _ in 0..200 {
            let mut pieces = cut(&mut rng, 10..77, 5);
            pieces.retain(|piece| piece.len > 0);
            pieces.sort_by_key(|piece| piece.offset);
            assert_eq!(pieces.first().map(|p| p.offset), Some(10));
            assert!(pieces.windows(2).all(|w| w[0].range().end == w[1].offset));
            assert_eq!(total_len(&pieces), 67);
        }
    }

    #[test]
    fn a_stray_byte_is_found() {
        let registry = Registry::new(1);
        let pd = registry.alloc_pd();
        let mut area = Area::new("test", &registry, pd, Access::LOCAL_WRITE, 1000, &mut Rng::new(2));
        area.check_all().expect("as it was made");
        let stray = !area.model()[700];
        area.region.span().part(700, 1).expect("inside").write(&[stray]);
        let violation = area.check_all().expect_err("a stray byte");
        assert!(violation.to_string().contains("offset 700"), "{violation}");
        area.accept(700..701);
        area.check_all().expect("accepted");
    }

    #[test]
    fn slots_do_not_touch() {
        let slots = Slots::new(100, 3, 10);
        assert!(slots.at(0).range().end + GUARD <= slots.at(1).offset);
        assert!(slots.guarded(2).end <= 100 + Slots::room(3, 10));
    }
}
