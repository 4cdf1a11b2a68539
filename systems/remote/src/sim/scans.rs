//! Answers of scans, and the question whether they are complete.

use std::ops::RangeInclusive;

use crate::sim::story::Operation;

/// The answer of a scan. Its values are checked as those of lookups.
#[derive(Clone, Debug)]
pub(crate) struct ScanRecord {
    pub(crate) begin: usize,
    pub(crate) end: usize,
    /// The keys of the range, by their numbers. Keys are in ascending order.
    pub(crate) keys: RangeInclusive<usize>,
    pub(crate) limit: usize,
    pub(crate) items: Vec<(usize, Vec<u8>)>,
    /// False if it ended early, because writers were in between.
    pub(crate) is_whole: bool,
}

impl ScanRecord {
    /// The keys for which the scan has an answer: up to the last item, if there may be more behind it.
    fn covered(&self) -> RangeInclusive<usize> {
        let is_cut = !self.is_whole || self.items.len() == self.limit;
        match self.items.last() {
            Some((last, _)) if is_cut => *self.keys.start()..=*last,
            None if is_cut => RangeInclusive::new(1, 0),
            _ => self.keys.clone(),
        }
    }

    /// Checks that keys ascend, and that none is missing that was there all the time.
    fn check(&self, presence: &[Vec<(bool, usize, usize)>]) -> Result<(), String> {
        let describe =
            |problem: String| format!("a scan of keys {:?} from {} to {}: {problem}", self.keys, self.begin, self.end);
        if self.items.len() > self.limit || self.items.iter().any(|(key, _)| !self.keys.contains(key)) {
            return Err(describe("too many keys, or others".into()));
        }
        if let Some(pair) = self.items.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
            return Err(describe(format!("key {} comes before key {}", pair[0].0, pair[1].0)));
        }
        let mut items = self.items.iter().map(|(key, _)| *key).peekable();
        for key in self.covered() {
            let is_told = items.next_if_eq(&key).is_some();
            let may_be_absent = presence[key]
                .iter()
                .any(|(is_there, since, until)| !is_there && *since <= self.end && *until >= self.begin);
            if !is_told && !may_be_absent {
                return Err(describe(format!("key {key} is missing")));
            }
        }
        Ok(())
    }
}

/// Checks all scans.
pub(crate) fn check(operations: &[Operation], keys: usize, scans: &[ScanRecord]) -> Result<(), String> {
    // Of each key: whether it was there, from the begin of that operation to the end of the next.
    let mut presence = vec![vec![(false, 0, usize::MAX)]; keys];
    for operation in operations {
        let states = &mut presence[operation.key];
        if let Some(last) = states.last_mut() {
            last.2 = operation.end;
        }
        states.push((operation.value.is_some(), operation.begin, usize::MAX));
    }
    scans.iter().try_for_each(|scan| scan.check(&presence))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(key: usize, is_put: bool, begin: usize) -> Operation {
        Operation { key, value: is_put.then(Vec::new), begin, end: begin + 5 }
    }

    fn scan(keys: RangeInclusive<usize>, times: (usize, usize), found: &[usize]) -> ScanRecord {
        let items = found.iter().map(|key| (*key, Vec::new())).collect();
        ScanRecord { begin: times.0, end: times.1, keys, limit: 3, items, is_whole: true }
    }

    #[test]
    fn missing_and_disordered_keys_are_found() {
        let operations: Vec<Operation> = (0..5).map(|key| operation(key, true, key * 10)).collect();
        let fits = |scan: ScanRecord| check(&operations, 5, &[scan]).is_ok();
        assert!(fits(scan(0..=2, (100, 200), &[0, 1, 2])));
        assert!(!fits(scan(0..=1, (100, 200), &[1])) && !fits(scan(0..=1, (100, 200), &[0])));
        assert!(!fits(scan(0..=2, (100, 200), &[0, 2, 1])) && !fits(scan(0..=1, (100, 200), &[0, 0, 1])));
        assert!(!fits(scan(1..=2, (100, 200), &[0, 1, 2])), "a key of another range");
        assert!(!fits(scan(0..=4, (100, 200), &[0, 1, 2, 3])), "more than the limit");
        // Behind the limit, and behind the place where a scan gave up, nothing is missing.
        assert!(fits(scan(0..=4, (100, 200), &[0, 1, 2])) && !fits(scan(0..=4, (100, 200), &[0, 1, 3])));
        assert!(fits(ScanRecord { is_whole: false, ..scan(0..=4, (100, 200), &[0]) }));
        assert!(fits(ScanRecord { is_whole: false, ..scan(0..=4, (100, 200), &[]) }));
        // The last key was being put.
        assert!(fits(scan(3..=4, (42, 43), &[3])) && fits(scan(3..=4, (42, 43), &[3, 4])));
        assert!(!fits(scan(3..=4, (46, 47), &[3])));
    }

    #[test]
    fn a_key_that_was_away_for_a_moment_may_be_missing() {
        let operations = [operation(0, true, 0), operation(0, false, 20), operation(0, true, 30)];
        let fits = |times, found: &[usize]| check(&operations, 1, &[scan(0..=0, times, found)]).is_ok();
        assert!(fits((22, 50), &[]) && fits((22, 50), &[0]) && fits((10, 60), &[]));
        assert!(!fits((10, 12), &[]) && !fits((36, 60), &[]));
    }
}
