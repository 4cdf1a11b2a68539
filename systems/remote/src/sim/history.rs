//! The states of each key, and the question whether the answers of lookups fit them.

use crate::sim::story::Operation;

/// An answer of a lookup, with the times of its begin and its end.
#[derive(Clone, Debug)]
pub(crate) struct LookupRecord {
    pub(crate) key: usize,
    pub(crate) begin: usize,
    pub(crate) end: usize,
    /// The value; `None` if the key was absent.
    pub(crate) answer: Option<Vec<u8>>,
}

/// The states of one key: the value, the time when its operation began, and when the next one had ended.
struct KeyStates<'a>(Vec<(Option<&'a [u8]>, usize, usize)>);

impl<'a> KeyStates<'a> {
    fn of(operations: &'a [Operation], key: usize) -> KeyStates<'a> {
        let mut states = vec![(None, 0, usize::MAX)];
        for operation in operations.iter().filter(|operation| operation.key == key) {
            if let Some(last) = states.last_mut() {
                last.2 = operation.end;
            }
            states.push((operation.value.as_deref(), operation.begin, usize::MAX));
        }
        KeyStates(states)
    }

    /// The earliest state from number `first` on that the answer can mean.
    fn earliest(&self, lookup: &LookupRecord, first: usize) -> Option<usize> {
        (first..self.0.len()).find(|state| {
            let (value, since, until) = self.0[*state];
            value == lookup.answer.as_deref() && since <= lookup.end && until >= lookup.begin
        })
    }
}

/// Checks all answers. Each gets the earliest state that fits it and all lookups that had ended before it began.
pub(crate) fn check(operations: &[Operation], keys: usize, mut lookups: Vec<LookupRecord>) -> Result<(), String> {
    lookups.sort_by_key(|lookup| lookup.begin);
    for key in 0..keys {
        let states = KeyStates::of(operations, key);
        let mut ended: Vec<(usize, usize)> = Vec::new();
        for lookup in lookups.iter().filter(|lookup| lookup.key == key) {
            let first = ended.iter().filter(|(end, _)| *end < lookup.begin).map(|(_, state)| *state).max().unwrap_or(0);
            let Some(state) = states.earliest(lookup, first) else {
                return Err(describe(lookup, &states, first));
            };
            ended.push((lookup.end, state));
        }
    }
    Ok(())
}

fn describe(lookup: &LookupRecord, states: &KeyStates<'_>, first: usize) -> String {
    let name = |value: Option<&[u8]>| match value {
        None => "absent".to_owned(),
        Some(value) => format!("value {} of {} bytes", number_of(value), value.len()),
    };
    let near =
        states.0.iter().enumerate().filter(|(_, (_, since, until))| *since <= lookup.end && *until >= lookup.begin);
    let near: Vec<String> = near.map(|(state, (value, ..))| format!("{state}: {}", name(*value))).collect();
    let LookupRecord { key, begin, end, answer } = lookup;
    let got = name(answer.as_deref());
    format!("a lookup of key {key} from {begin} to {end} got {got}; it could be {near:?}, from state {first} on")
}

fn number_of(value: &[u8]) -> u32 {
    value.first_chunk().map_or(u32::MAX, |number| u32::from_le_bytes(*number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(number: u8, begin: usize, end: usize) -> Operation {
        Operation { key: 0, value: Some(vec![number]), begin, end }
    }

    fn lookup(answer: Option<u8>, begin: usize, end: usize) -> LookupRecord {
        LookupRecord { key: 0, begin, end, answer: answer.map(|number| vec![number]) }
    }

    #[test]
    fn answers_of_other_times_and_inversions_are_found() {
        let operations = [put(1, 10, 20), put(2, 30, 40)];
        let fits = |lookups: &[LookupRecord]| check(&operations, 1, lookups.to_vec()).is_ok();
        assert!(fits(&[lookup(None, 0, 5), lookup(Some(1), 15, 16), lookup(Some(2), 50, 60)]));
        assert!(fits(&[lookup(Some(1), 35, 36), lookup(Some(2), 37, 38)]));
        assert!(!fits(&[lookup(Some(2), 35, 36), lookup(Some(1), 37, 38)]), "the old value after the new one");
        assert!(!fits(&[lookup(Some(1), 41, 50)]));
        assert!(!fits(&[lookup(None, 21, 50)]));
        assert!(!fits(&[lookup(Some(3), 0, 100)]));
    }
}
