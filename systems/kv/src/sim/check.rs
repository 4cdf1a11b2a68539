//! Whether the history of a key is linearizable, expiry included.
//!
//! The search is that of [`history`](crate::sim): Wing and Gong, with Lowe's memory of points that led nowhere. Here operations take
//! effect at times that do not go back: a key with an expiry is there before it and absent from then on. The world knows
//! the time at which a key expires as an interval: the server took its clock some time between begin and end of the operation.

use std::collections::HashSet;

use crate::sim::record::{Deed, KeyDeed, Term};

/// Points after which a search is given up.
const MOST_POINTS: usize = 2_000_000;
/// Stands for values that nobody has seen.
const UNSEEN: u64 = u64::MAX;

/// The rules beside those of time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keyed {
    /// A key may be gone at any time.
    pub(crate) evicts: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    NotLinearizable,
    TooLong,
}

/// A value, and the earliest and the latest time at which it expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Held {
    value: u64,
    earliest: u64,
    latest: u64,
    /// Its expiry has changed since it was put, and with it its version.
    is_renewed: bool,
}

/// A state, and the time since which it is.
type Moment = (Option<Held>, u64);

/// The states that a key can have for an operation which takes effect between two times.
fn moments((state, since): Moment, (begin, end): (u64, u64), rules: Keyed) -> Vec<Moment> {
    let now = since.max(begin);
    let Some(held) = state else { return vec![(None, now)] };
    let mut moments = Vec::new();
    if held.latest > now {
        moments.push((Some(Held { earliest: held.earliest.max(now.saturating_add(1)), ..held }), now));
    }
    if rules.evicts {
        moments.push((None, now));
    } else if held.earliest <= end {
        moments.push((None, now.max(held.earliest)));
    }
    moments
}

/// The state with a value whose expiry an operation has set that took the server's clock between two times.
fn put(before: Option<Held>, value: u64, term: Term, (begin, end): (u64, u64)) -> Option<Held> {
    let (earliest, latest) = match (term, before) {
        (Term::Never, _) | (Term::Keep, None) => (u64::MAX, u64::MAX),
        (Term::Keep, Some(held)) => (held.earliest, held.latest),
        (Term::After(ns), _) => (begin.saturating_add(ns), end.saturating_add(ns)),
    };
    Some(Held { value, earliest, latest, is_renewed: false })
}

/// The state after an operation; `None` if its outcome does not fit the state before.
fn after(deed: KeyDeed, state: Option<Held>, clock: (u64, u64)) -> Option<Option<Held>> {
    let value = state.map(|held| held.value);
    let put = |new, term| put(state, new, term, clock);
    match deed {
        KeyDeed::Get(found) => (found == value).then_some(state),
        KeyDeed::Put(new, term) => Some(put(new, term)),
        KeyDeed::Insert(new, term, true) => value.is_none().then(|| put(new, term)),
        KeyDeed::Insert(.., false) => value.is_some().then_some(state),
        KeyDeed::Update(new, term, true) => value.is_some().then(|| put(new, term)),
        KeyDeed::Update(.., false) => value.is_none().then_some(state),
        KeyDeed::Replace(old, new, term, true) => (value == Some(old)).then(|| put(new, term)),
        KeyDeed::Replace(old, .., false) => has_other_version(state, old).then_some(state),
        KeyDeed::Delete(was_there) => (was_there == value.is_some()).then_some(None),
        KeyDeed::DeleteOf(old, Some(true)) => (value == Some(old)).then_some(None),
        KeyDeed::DeleteOf(old, Some(false)) => (value.is_some() && has_other_version(state, old)).then_some(state),
        KeyDeed::DeleteOf(_, None) => value.is_none().then_some(state),
        KeyDeed::Add(by, sum) => {
            let new = (value.unwrap_or(0) as i64).wrapping_add(by);
            sum.is_none_or(|sum| sum == new).then(|| put(new as u64, Term::Keep))
        }
        KeyDeed::Expire(Term::Keep, true) => value.is_some().then_some(state),
        KeyDeed::Expire(term, true) => {
            let held = put(value?, term)?;
            Some(Some(Held { is_renewed: true, ..held }))
        }
        KeyDeed::Expire(_, false) => value.is_none().then_some(state),
        KeyDeed::Wipe => Some(None),
    }
}

fn has_other_version(state: Option<Held>, old: u64) -> bool {
    state.is_none_or(|held| held.value != old || held.is_renewed)
}

/// A point of the search: ended operations that have taken effect (a prefix, and others), unknown ones, and the state.
#[derive(Clone, PartialEq, Eq, Hash)]
struct SearchPoint {
    prefix: usize,
    others: Vec<usize>,
    unknown: Vec<usize>,
    moment: Moment,
}

impl SearchPoint {
    fn with(&self, at: usize, moment: Moment) -> SearchPoint {
        let mut next = SearchPoint { moment, ..self.clone() };
        next.others.push(at);
        next.others.sort_unstable();
        while next.others.first() == Some(&next.prefix) {
            next.others.remove(0);
            next.prefix += 1;
        }
        next
    }

    fn with_unknown(&self, at: usize, moment: Moment) -> SearchPoint {
        let mut next = SearchPoint { moment, ..self.clone() };
        next.unknown.push(at);
        next.unknown.sort_unstable();
        next
    }
}

/// The states after an operation, which takes effect before `limit`.
fn steps(deed: &Deed, moment: Moment, limit: u64, rules: Keyed) -> Vec<Moment> {
    let end = deed.end.unwrap_or(u64::MAX);
    let clock = (deed.begin, end);
    let mut steps = Vec::new();
    for (state, now) in moments(moment, (deed.begin, end.min(limit)), rules) {
        if now <= limit.min(end)
            && let Some(state) = after(deed.deed, state, clock)
        {
            // Without an expiry, the time does not matter.
            let now = if state.is_some_and(|held| held.earliest != u64::MAX) { now } else { 0 };
            steps.push((state, now));
        }
    }
    steps
}

/// True if the operation changes no state, and fits this one whenever it takes effect.
fn is_idle(deed: &Deed, (state, _): Moment) -> bool {
    let stays = state.is_none_or(|held| held.earliest == u64::MAX);
    let is_change = match deed.deed {
        KeyDeed::Put(..)
        | KeyDeed::Add(..)
        | KeyDeed::Delete(true)
        | KeyDeed::DeleteOf(_, Some(true))
        | KeyDeed::Wipe => true,
        KeyDeed::Insert(.., done) | KeyDeed::Update(.., done) | KeyDeed::Replace(.., done) => done,
        KeyDeed::Expire(term, was_there) => was_there && term != Term::Keep,
        KeyDeed::Get(_) | KeyDeed::Delete(false) | KeyDeed::DeleteOf(_, None | Some(false)) => false,
    };
    stays && !is_change && after(deed.deed, state, (deed.begin, u64::MAX)) == Some(state)
}

/// The operations of which nobody knows whether they were executed, in the order of their begins. Values that nobody has seen are
/// all alike.
fn unknown_of(history: &[Deed]) -> Vec<Deed> {
    let seen: HashSet<u64> = history.iter().filter_map(|one| seen_value(one.deed)).collect();
    let has_sums = history.iter().any(|one| matches!(one.deed, KeyDeed::Add(..)));
    let alike = |value: u64| if has_sums || seen.contains(&value) { value } else { UNSEEN };
    let mut unknown: Vec<Deed> = history.iter().filter(|one| one.end.is_none()).copied().collect();
    for one in &mut unknown {
        match &mut one.deed {
            KeyDeed::Put(value, _) | KeyDeed::Insert(value, ..) | KeyDeed::Update(value, ..) => *value = alike(*value),
            KeyDeed::Replace(_, value, ..) => *value = alike(*value),
            _ => {}
        }
    }
    unknown.sort_by_key(|one| one.begin);
    unknown
}

/// The value that an operation has met, or compares with.
fn seen_value(deed: KeyDeed) -> Option<u64> {
    match deed {
        KeyDeed::Get(value) => value,
        KeyDeed::Replace(value, ..) | KeyDeed::DeleteOf(value, _) => Some(value),
        _ => None,
    }
}

/// Whether the operations on one key can have taken effect one by one, each between its begin and its end.
pub(crate) fn is_explained(history: &[Deed], rules: Keyed) -> Result<(), Fault> {
    let mut ended: Vec<&Deed> = history.iter().filter(|one| one.end.is_some()).collect();
    ended.sort_by_key(|one| one.begin);
    let unknown = unknown_of(history);
    let start = SearchPoint { prefix: 0, others: Vec::new(), unknown: Vec::new(), moment: (None, 0) };
    let (mut stack, mut seen) = (vec![start], HashSet::new());
    while let Some(point) = stack.pop() {
        if point.prefix == ended.len() {
            return Ok(());
        }
        if seen.len() > MOST_POINTS {
            return Err(Fault::TooLong);
        }
        if !seen.insert(point.clone()) {
            continue;
        }
        // Nothing can take effect after the end of an operation that has not yet.
        let open = (point.prefix..ended.len()).filter(|at| !point.others.contains(at));
        let limit = open.clone().filter_map(|at| ended[at].end).min().unwrap_or(u64::MAX);
        // An operation that changes nothing now can as well come now.
        let idle = open.clone().take_while(|at| ended[*at].begin <= limit).find(|at| is_idle(ended[*at], point.moment));
        if let Some(at) = idle {
            stack.push(point.with(at, point.moment));
            continue;
        }
        for (at, one) in unknown.iter().enumerate() {
            // Of those that do the same, the first is as good as the others.
            let is_next = (0..at).all(|other| unknown[other].deed != one.deed || point.unknown.contains(&other));
            if one.begin <= limit && is_next && !point.unknown.contains(&at) {
                let steps = steps(one, point.moment, limit, rules);
                stack.extend(steps.into_iter().map(|moment| point.with_unknown(at, moment)));
            }
        }
        for at in open.take_while(|at| ended[*at].begin <= limit) {
            let steps = steps(ended[at], point.moment, limit, rules);
            stack.extend(steps.into_iter().map(|moment| point.with(at, moment)));
        }
    }
    Err(Fault::NotLinearizable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use KeyDeed::{Add, Delete, DeleteOf, Expire, Get, Insert, Put, Replace, Update, Wipe};

    const NEVER: Term = Term::Never;

    fn fits_with(evicts: bool, deeds: &[(KeyDeed, u64, u64)]) -> bool {
        let ended = |end| (end != 0).then_some(end);
        let deed =
            |(deed, begin, end): &(KeyDeed, u64, u64)| Deed { client: 0, deed: *deed, begin: *begin, end: ended(*end) };
        let deeds: Vec<Deed> = deeds.iter().map(deed).collect();
        is_explained(&deeds, Keyed { evicts }).is_ok()
    }

    fn fits(deeds: &[(KeyDeed, u64, u64)]) -> bool {
        fits_with(false, deeds)
    }

    #[test]
    fn values_are_those_of_the_last_change() {
        assert!(fits(&[(Put(1, NEVER), 1, 2), (Get(Some(1)), 3, 4), (Delete(true), 5, 6), (Get(None), 7, 8)]));
        assert!(!fits(&[(Put(1, NEVER), 1, 2), (Get(None), 3, 4)]));
        assert!(fits(&[(Put(1, NEVER), 1, 9), (Get(None), 3, 4), (Get(Some(1)), 5, 6)]));
        assert!(!fits(&[(Put(1, NEVER), 1, 9), (Get(Some(1)), 3, 4), (Get(None), 5, 6)]));
        assert!(!fits(&[(Put(1, NEVER), 1, 2), (Insert(2, NEVER, true), 3, 4)]));
        assert!(!fits(&[(Update(2, NEVER, true), 3, 4)]) && fits(&[(Update(2, NEVER, false), 3, 4)]));
        assert!(!fits(&[(Put(1, NEVER), 1, 2), (Replace(3, 2, NEVER, true), 3, 4)]));
        assert!(fits(&[(Put(1, NEVER), 1, 2), (DeleteOf(3, Some(false)), 3, 4), (DeleteOf(1, Some(true)), 5, 6)]));
        // A lost update: both added to the same sum.
        assert!(!fits(&[(Add(1, Some(1)), 1, 5), (Add(1, Some(1)), 2, 6)]));
        assert!(fits(&[(Add(1, Some(2)), 1, 5), (Add(1, Some(1)), 2, 6), (Get(Some(2)), 7, 8)]));
    }

    #[test]
    fn unknown_operations_happen_once_or_never() {
        let unknown = (Put(1, NEVER), 1, 0);
        assert!(fits(&[unknown, (Get(None), 2, 3)]) && fits(&[unknown, (Get(Some(1)), 2, 3)]));
        assert!(fits(&[unknown, (Get(None), 2, 3), (Get(Some(1)), 4, 5)]));
        assert!(!fits(&[unknown, (Get(Some(1)), 2, 3), (Delete(true), 4, 5), (Get(Some(1)), 6, 7)]));
        assert!(!fits(&[(Get(Some(1)), 2, 3), (Put(1, NEVER), 4, 0)]), "before its begin");
        assert!(!fits(&[(Add(1, None), 1, 0), (Get(Some(2)), 3, 4)]));
    }

    #[test]
    fn keys_expire_in_time_and_not_before() {
        let put = (Put(1, Term::After(100)), 10, 20);
        assert!(fits(&[put, (Get(Some(1)), 30, 40), (Get(None), 130, 140)]));
        assert!(!fits(&[put, (Get(None), 30, 40)]), "too early");
        assert!(!fits(&[put, (Get(Some(1)), 121, 140)]), "too late");
        // Some time between 110 and 120, and once for all.
        assert!(fits(&[put, (Get(Some(1)), 111, 112)]) && fits(&[put, (Get(None), 111, 112)]));
        assert!(!fits(&[put, (Get(None), 111, 112), (Get(Some(1)), 113, 114)]));
        assert!(fits(&[put, (Get(None), 30, 115)]) && !fits(&[put, (Get(None), 30, 109)]));
        // The value that expired had been replaced before.
        // The key was never absent during the GET.
        assert!(!fits(&[put, (Put(2, NEVER), 50, 60), (Get(None), 40, 300), (Get(Some(2)), 310, 320)]));
        assert!(fits(&[put, (Expire(NEVER, true), 30, 40), (Get(Some(1)), 500, 510)]));
        assert!(!fits(&[put, (Add(3, Some(4)), 30, 40), (Get(Some(4)), 500, 510)]), "the sum keeps the expiry");
        assert!(!fits(&[put, (Insert(2, NEVER, true), 30, 40)]) && fits(&[put, (Insert(2, NEVER, true), 130, 140)]));
    }

    #[test]
    fn servers_forget_and_keys_make_way_where_that_is_allowed() {
        assert!(fits(&[(Put(1, NEVER), 1, 2), (Wipe, 3, 4), (Get(None), 5, 6)]));
        assert!(!fits(&[(Put(1, NEVER), 1, 2), (Wipe, 3, 4), (Get(Some(1)), 5, 6)]));
        let gone = [(Put(1, NEVER), 1, 2), (Get(None), 5, 6)];
        assert!(fits_with(true, &gone) && !fits(&gone));
        assert!(!fits_with(true, &[gone[0], gone[1], (Get(Some(1)), 7, 8)]));
    }
}
