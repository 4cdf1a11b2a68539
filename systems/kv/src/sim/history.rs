//! Histories of single keys, and the question whether they are linearizable.
//!
//! Wing and Gong: "Testing and Verifying Concurrent Objects", JPDC 1993, with Lowe's memory of states that led nowhere ("Testing
//! for linearizability", 2017). An operation whose outcome nobody knows may take effect at any time after its begin, or never.

#![allow(dead_code, reason = "each user of this file has a part of the operations")]

use std::collections::HashSet;

/// An operation on one key, with its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyOp {
    Get(Option<u64>),
    Put(u64),
    /// A PUT of an absent key; false: it was present.
    Insert(u64, bool),
    /// False: the key was absent.
    Delete(bool),
    /// A PUT that compared the version: the value that had it, and the new one.
    Replace(u64, u64),
}

/// An operation and its time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recorded {
    pub(crate) op: KeyOp,
    pub(crate) begin: u64,
    /// `None`: nobody knows whether it was executed.
    pub(crate) end: Option<u64>,
}

/// The state after an operation; `None` if its outcome does not fit the state before.
pub(crate) fn after(op: KeyOp, state: Option<u64>) -> Option<Option<u64>> {
    match op {
        KeyOp::Get(value) => (value == state).then_some(state),
        KeyOp::Put(value) => Some(Some(value)),
        KeyOp::Insert(value, true) => state.is_none().then_some(Some(value)),
        KeyOp::Insert(_, false) => state.is_some().then_some(state),
        KeyOp::Replace(from, to) => (state == Some(from)).then_some(Some(to)),
        KeyOp::Delete(was_there) => (was_there == state.is_some()).then_some(None),
    }
}

/// A point of the search: ended operations that have taken effect (a prefix, and others), unknown ones, and the state.
#[derive(Clone, PartialEq, Eq, Hash)]
struct SearchPoint {
    prefix: usize,
    others: Vec<usize>,
    unknown: Vec<usize>,
    state: Option<u64>,
}

/// True if the operations on one key can have taken effect one by one, each between its begin and its end.
pub(crate) fn is_linearizable(history: &[Recorded]) -> bool {
    let history = with_like_values(history);
    let mut ended: Vec<&Recorded> = history.iter().filter(|one| one.end.is_some()).collect();
    ended.sort_by_key(|one| one.begin);
    let mut unknown: Vec<&Recorded> = history.iter().filter(|one| one.end.is_none()).collect();
    unknown.sort_by_key(|one| one.begin);
    let start = SearchPoint { prefix: 0, others: Vec::new(), unknown: Vec::new(), state: None };
    let (mut stack, mut seen) = (vec![start], HashSet::new());
    while let Some(point) = stack.pop() {
        if point.prefix == ended.len() {
            return true;
        }
        if !seen.insert(point.clone()) {
            continue;
        }
        // Nothing can take effect after the end of an operation that has not yet.
        let open = (point.prefix..ended.len()).filter(|at| !point.others.contains(at));
        let limit = open.clone().filter_map(|at| ended[at].end).min().unwrap_or(u64::MAX);
        let open = open.take_while(|at| ended[*at].begin <= limit);
        // One that never changes anything, and fits: no other order is better.
        let is_idle = |at: &usize| {
            let op = ended[*at].op;
            matches!(op, KeyOp::Get(_) | KeyOp::Delete(false) | KeyOp::Insert(_, false))
                && after(op, point.state).is_some()
        };
        if let Some(idle) = open.clone().find(is_idle) {
            stack.push(with(&point, idle, point.state));
            continue;
        }
        for (at, one) in unknown.iter().enumerate().take_while(|(_, one)| one.begin <= limit) {
            // Of those that are alike, the first one can do all that a later one can.
            let is_first = || !(0..at).any(|other| unknown[other].op == one.op && !point.unknown.contains(&other));
            let state = after(one.op, point.state).filter(|state| *state != point.state);
            if let Some(state) = state.filter(|_| !point.unknown.contains(&at) && is_first()) {
                let mut next = SearchPoint { state, ..point.clone() };
                next.unknown.push(at);
                next.unknown.sort_unstable();
                stack.push(next);
            }
        }
        // These come from the stack before the unknown ones, the earliest first.
        let fits = |at: usize| after(ended[at].op, point.state).map(|state| with(&point, at, state));
        let next: Vec<SearchPoint> = open.filter_map(fits).collect();
        stack.extend(next.into_iter().rev());
    }
    false
}

/// Stands for values that nobody has seen.
const UNSEEN: u64 = u64::MAX;

/// The same operations. All values that nobody has seen are one: the search would tell them apart for nothing.
fn with_like_values(history: &[Recorded]) -> Vec<Recorded> {
    let met = |one: &Recorded| match one.op {
        KeyOp::Get(value) => value,
        KeyOp::Replace(from, _) => Some(from),
        KeyOp::Put(_) | KeyOp::Insert(..) | KeyOp::Delete(_) => None,
    };
    let seen: HashSet<u64> = history.iter().filter_map(met).collect();
    let like = |value: u64| if seen.contains(&value) { value } else { UNSEEN };
    let with = |one: &Recorded| {
        let op = match one.op {
            KeyOp::Put(value) => KeyOp::Put(like(value)),
            KeyOp::Insert(value, done) => KeyOp::Insert(like(value), done),
            KeyOp::Replace(from, to) => KeyOp::Replace(from, like(to)),
            op @ (KeyOp::Get(_) | KeyOp::Delete(_)) => op,
        };
        Recorded { op, ..*one }
    };
    history.iter().map(with).collect()
}

fn with(point: &SearchPoint, at: usize, state: Option<u64>) -> SearchPoint {
    let mut next = SearchPoint { state, ..point.clone() };
    next.others.push(at);
    next.others.sort_unstable();
    while next.others.first() == Some(&next.prefix) {
        next.others.remove(0);
        next.prefix += 1;
    }
    next
}
