//! Ranges of a table whose keys are in order.

use std::ops::Bound;

use longarm_rpc::{Code, Status};
use remote::KeyRange;

use crate::envelope::{ENVELOPE_BYTES, Envelope, KvVersion};
use crate::protocol::{RangeItem, encode};
use crate::server::figures::count;
use crate::server::table::{TableWriter, broken, status_of, tick};

/// Keys of one answer, those included that have expired: others wait for the writer meanwhile.
const MOST_KEYS: u64 = 1000;
/// An answer that has so many bytes takes no further item.
const MOST_BYTES: usize = 1 << 20;
/// Longer values are fetched one by one.
const LONGEST_VALUE: u64 = 64 << 10;

/// The part of a range that one answer tells.
#[derive(Debug)]
pub(crate) struct ToldRange {
    /// Keys that were told.
    pub(crate) items: u64,
    /// The key from which to go on; `None` if the range ends here.
    pub(crate) next: Option<Vec<u8>>,
}

/// The keys from `first` to the one before `end`.
pub(crate) fn range_of(first: &[u8], end: Option<&[u8]>) -> KeyRange {
    KeyRange::from((Bound::Included(first), end.map_or(Bound::Unbounded, Bound::Excluded)))
}

impl TableWriter {
    /// Appends [`RangeItem`]s to `out`: the first keys of a range, in the order of their bytes, `limit` of them at most. All of an
    /// answer are of one moment.
    ///
    /// # Errors
    /// If the table has no order.
    pub(crate) fn range(
        &mut self,
        range: &KeyRange,
        limit: u64,
        now_ns: u64,
        out: &mut Vec<u8>,
    ) -> Result<ToldRange, Status> {
        self.set_now(now_ns);
        let (mut told, mut seen, mut is_broken) = (ToldRange { items: 0, next: None }, 0, false);
        let directory = &mut self.directory;
        let done = self.owner.scan_parts(range, ENVELOPE_BYTES as u64 + LONGEST_VALUE, &mut |part| {
            if told.items >= limit || seen >= MOST_KEYS || out.len() >= MOST_BYTES {
                told.next = Some(part.key.to_vec());
                return false;
            }
            seen += 1;
            let Some((envelope, value)) = Envelope::split(part.value) else {
                is_broken = true;
                return false;
            };
            if envelope.expires_ns == 0 || envelope.expires_ns > now_ns {
                let value_bytes = part.value_bytes - ENVELOPE_BYTES as u64;
                let here = if value_bytes <= LONGEST_VALUE { value } else { &[] };
                let item = RangeItem {
                    version: KvVersion::new(envelope.stamp, part.header),
                    key_bytes: part.key.len() as u32,
                    value_bytes,
                    here_bytes: here.len() as u32,
                };
                encode(&item, &[part.key, here], out);
                told.items += 1;
                if let Some(note) = directory.find(part.key) {
                    note.used = tick(now_ns);
                }
            }
            true
        });
        let done = done.ok_or_else(|| {
            Status::new(Code::Unimplemented, "the table has no order, so no ranges: its layout is no tree")
        });
        done?.map_err(|error| status_of(&error))?;
        count(&self.counts.ranges);
        if is_broken { Err(broken()) } else { Ok(told) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{PutExpiry, PutIf, decode};
    use crate::server::layout::{KvLayout, create};
    use crate::server::table::WhenFull;
    use remote::{OwnerOptions, PlainMemory};
    use std::collections::BTreeMap;

    fn writer(layout: KvLayout) -> TableWriter {
        let owner = create(layout, PlainMemory::new(32 << 20), OwnerOptions::default()).unwrap();
        TableWriter::new(owner, 24 << 20, WhenFull::Refuse, 3)
    }

    /// All keys of a range, with the lengths of their values, by as many answers as it takes.
    fn all(table: &mut TableWriter, range: &KeyRange, limit: u64, now_ns: u64) -> (Vec<(Vec<u8>, u64)>, usize) {
        let (mut found, mut rest, mut answers) = (Vec::new(), range.clone(), 0);
        loop {
            let mut out = Vec::new();
            let told = table.range(&rest, limit - found.len() as u64, now_ns, &mut out).unwrap();
            let mut bytes = &out[..];
            for _ in 0..told.items {
                let (item, behind): (RangeItem, _) = decode(bytes).unwrap();
                let (key, behind) = behind.split_at(item.key_bytes as usize);
                assert!(
                    u64::from(item.here_bytes) == if item.value_bytes <= LONGEST_VALUE { item.value_bytes } else { 0 }
                );
                found.push((key.to_vec(), item.value_bytes));
                bytes = &behind[item.here_bytes as usize..];
            }
            answers += 1;
            assert!(bytes.is_empty());
            match told.next {
                Some(next) if (found.len() as u64) < limit => rest = range.starting_at(&next),
                _ => return (found, answers),
            }
        }
    }

    #[test]
    fn answers_in_order_make_a_range() {
        let (mut table, mut model) = (writer(KvLayout::Tree), BTreeMap::new());
        let mut random = fastrand::Rng::with_seed(5);
        for number in 0..6000_u32 {
            let key = random.u32(..).to_be_bytes().to_vec();
            let value_bytes = if number % 1000 == 0 { 200_000 } else { random.usize(..2000) };
            // A third of them expire at 50.
            let expiry = if number % 3 == 0 { PutExpiry::AfterNs(49) } else { PutExpiry::Never };
            table.put(&key, &vec![1; value_bytes], PutIf::Always, expiry, 1).unwrap();
            model.insert(key, (value_bytes as u64, number % 3 == 0));
        }
        let cases = [
            (KeyRange::all(), u64::MAX),
            (KeyRange::from([50_u8]..[200]), 3000),
            (KeyRange::from([7_u8, 7]..[7, 9]), 10),
            (KeyRange::from([9_u8]..[9]), 10),
            (KeyRange::all(), 0),
        ];
        // At 50 the expired ones are there still: their removal takes its time.
        for (now_ns, (range, limit)) in [2, 50].iter().flat_map(|now_ns| cases.iter().map(move |case| (*now_ns, case)))
        {
            let is_there = |expires: bool| now_ns < 50 || !expires;
            let wanted = model.iter().filter(|(key, (_, expires))| range.contains(key) && is_there(*expires));
            let wanted: Vec<_> = wanted.map(|(key, (len, _))| (key.clone(), *len)).take(*limit as usize).collect();
            let (found, answers) = all(&mut table, range, *limit, now_ns);
            assert!(found == wanted, "{range:?}: {} of {}", found.len(), wanted.len());
            assert!(answers > wanted.len() / 1000);
        }
    }

    #[test]
    fn tables_without_order_have_no_ranges() {
        for layout in KvLayout::ALL.into_iter().filter(|layout| *layout != KvLayout::Tree) {
            let refused = writer(layout).range(&KeyRange::all(), 1, 1, &mut Vec::new()).unwrap_err();
            assert_eq!(refused.code(), Code::Unimplemented);
        }
    }
}
