//! Remote memory of an unreliable connection: each WRITE has a place of its own, which
//! holds a beginning of its bytes, packet by packet: none if it was lost, all if it arrived.

use super::{Outcome, ensure};
use crate::area::{Area, AreaPiece};

const RULE: &str = "a lost WRITE leaves a beginning of its bytes";

#[derive(Debug)]
struct Write {
    number: u64,
    at: AreaPiece,
    bytes: Vec<u8>,
    whole: bool,
}

/// The model of one direction.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    next: usize,
    writes: Vec<Write>,
}

impl Writes {
    /// The first byte that no WRITE has been given.
    pub(crate) fn next(&self) -> usize {
        self.next
    }

    /// Request `number` will write this at [`next`](Writes::next).
    pub(crate) fn write(&mut self, number: u64, bytes: Vec<u8>) {
        let at = AreaPiece { offset: self.next, len: bytes.len() };
        self.next += bytes.len() + 16;
        self.writes.push(Write { number, at, bytes, whole: false });
    }

    /// The peer was told that request `number` has arrived.
    pub(crate) fn arrived(&mut self, number: u64) {
        let write = self.writes.iter_mut().rev().find(|write| write.number == number);
        if let Some(write) = write {
            write.whole = true;
        }
    }

    /// The run is over. In a calm one everything has arrived.
    pub(crate) fn settle(&self, mtu_bytes: usize, all: bool, area: &mut Area) -> Outcome {
        for write in &self.writes {
            let actual = area.actual(write.at.range());
            let same = actual.iter().zip(&write.bytes).take_while(|(a, b)| a == b).count();
            let landed = if same == actual.len() { same } else { same / mtu_bytes * mtu_bytes };
            let (number, len) = (write.number, write.at.len);
            ensure!(RULE, landed == len || !(write.whole || all), "{number} arrived, but only {landed} bytes of {len}");
            area.expect(write.at.offset, &write.bytes[..landed]);
            area.check(write.at.range()).map_err(|violation| violation.at(format!("WRITE {number}")))?;
        }
        Ok(())
    }
}
