//! The two ends of hand-overs, as one process knows them: whether it serves a share while the configuration names two for it.
//!
//! ```text
//!  former primary   Held ── release ──► Released      the target may serve now, and learns it from the answer to its question
//!                     └──── keep ─────► Kept          it never releases any more
//!                   Lost                              another process of this member served before: this one does not
//!  target           Awaited ── accept ──► Accepted    it serves
//! ```

use std::collections::BTreeMap;

use crate::config::{ClusterConfig, MemberId, SlotShare};

/// One end of a hand-over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandOverEnd {
    /// The former primary serves.
    Held,
    /// The former primary serves, and wishes to keep the share.
    Kept,
    /// The former primary serves no more.
    Released,
    /// This process is not the one that served the share before.
    Lost,
    /// The target waits.
    Awaited {
        /// This process was a member before the hand-over began. Otherwise an earlier process may have accepted the share.
        is_first: bool,
    },
    /// The target serves.
    Accepted,
}

/// The ends of all hand-overs that concern one process of a member.
#[derive(Clone, Debug, Default)]
pub struct HandOvers {
    /// By the first slot of the share: the epoch in which its hand-over began, and our end.
    ends: BTreeMap<u16, (u64, HandOverEnd)>,
}

impl HandOvers {
    /// Takes a configuration that follows one, or the first one that this process knows.
    pub fn learn(&mut self, me: &MemberId, before: Option<&ClusterConfig>, after: &ClusterConfig) {
        let mut ends = BTreeMap::new();
        for share in after.shares.iter().filter(|_| after.has(me)) {
            let Some((former, since)) = share.hand_over() else { continue };
            let known = self.ends.get(&share.from).filter(|(began, _)| *began == since);
            let end = match known {
                Some((_, end)) => *end,
                None if former == me.name && before.is_some_and(|before| self.served(me, before, share)) => {
                    HandOverEnd::Held
                }
                None if former == me.name => HandOverEnd::Lost,
                None if share.primary.as_ref() == Some(&me.name) => {
                    HandOverEnd::Awaited { is_first: before.is_some_and(|before| before.has(me)) }
                }
                None => continue,
            };
            ends.insert(share.from, (since, end));
        }
        self.ends = ends;
    }

    /// Whether this process served all slots of a share under the configuration before.
    fn served(&self, me: &MemberId, before: &ClusterConfig, share: &SlotShare) -> bool {
        let mut overlap = before.shares.iter().filter(|old| old.from <= share.to && old.to >= share.from);
        overlap.all(|old| self.serves(me, before, old))
    }

    /// Whether this process serves a share, as far as configuration and hand-overs decide that.
    pub fn serves(&self, me: &MemberId, config: &ClusterConfig, share: &SlotShare) -> bool {
        match share.hand_over() {
            Some((_, since)) => {
                let serves = [HandOverEnd::Held, HandOverEnd::Kept, HandOverEnd::Accepted];
                self.end(share.from, since).is_some_and(|end| serves.contains(&end))
            }
            None => config.has(me) && share.primary.as_ref() == Some(&me.name),
        }
    }

    /// Our end of the hand-over of a share that began in that epoch.
    pub fn end(&self, from: u16, since: u64) -> Option<HandOverEnd> {
        self.ends.get(&from).filter(|(began, _)| *began == since).map(|(_, end)| *end)
    }

    /// All our ends: the first slot, the epoch of the begin, the end.
    pub fn all(&self) -> impl Iterator<Item = (u16, u64, HandOverEnd)> {
        self.ends.iter().map(|(from, (since, end))| (*from, *since, *end))
    }

    /// The former primary serves the share no more. False: this process may not say so.
    pub fn release(&mut self, from: u16, since: u64) -> bool {
        self.step(from, since, &[HandOverEnd::Held, HandOverEnd::Released], HandOverEnd::Released)
    }

    /// The former primary keeps the share. False: it has released it.
    pub fn keep(&mut self, from: u16, since: u64) -> bool {
        self.step(from, since, &[HandOverEnd::Held, HandOverEnd::Kept], HandOverEnd::Kept)
    }

    /// The target has heard that the share is released. False: it is not the target.
    pub fn accept(&mut self, from: u16, since: u64) -> bool {
        let before =
            [HandOverEnd::Awaited { is_first: true }, HandOverEnd::Awaited { is_first: false }, HandOverEnd::Accepted];
        self.step(from, since, &before, HandOverEnd::Accepted)
    }

    fn step(&mut self, from: u16, since: u64, before: &[HandOverEnd], after: HandOverEnd) -> bool {
        let end = self.ends.get_mut(&from).filter(|(began, end)| *began == since && before.contains(end));
        end.map(|(_, end)| *end = after).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::wish::ConfigWish;
    use crate::config::{ClusterMember, SlotMove};

    fn id(name: &str) -> MemberId {
        MemberId { name: name.into(), incarnation: 1 }
    }

    /// Configurations before and after the begin of a hand-over from a to b.
    fn handing_over() -> [ClusterConfig; 2] {
        let members = ["a", "b"].map(|name| ClusterMember { id: id(name), address: format!("{name}:1") });
        let config = ClusterConfig::form(members.into(), 1);
        let one = SlotMove { from: 0, to: 99, target: "b".into() };
        let before = config.granted(&ConfigWish::Move(one), &id("a")).unwrap();
        let after = before.granted(&ConfigWish::HandOver { from: 0 }, &id("a")).unwrap();
        [before, after]
    }

    #[test]
    fn the_former_primary_serves_until_it_has_released() {
        let [before, after] = handing_over();
        let (share, since) = (&after.shares[0], after.epoch);
        let [mut a, mut b] = [HandOvers::default(), HandOvers::default()];
        a.learn(&id("a"), Some(&before), &after);
        b.learn(&id("b"), Some(&before), &after);
        let serve =
            |a: &HandOvers, b: &HandOvers| (a.serves(&id("a"), &after, share), b.serves(&id("b"), &after, share));
        assert_eq!(serve(&a, &b), (true, false));
        assert!(!a.release(0, since + 1) && a.release(0, since));
        assert_eq!(serve(&a, &b), (false, false));
        assert!(!a.keep(0, since) && a.release(0, since), "it stays released");
        assert!(b.accept(0, since) && !b.release(0, since));
        assert_eq!(serve(&a, &b), (false, true));
    }

    #[test]
    fn another_process_of_the_former_primary_does_not_serve() {
        let [_, after] = handing_over();
        let mut a = HandOvers::default();
        a.learn(&id("a"), None, &after);
        assert_eq!(a.end(0, after.epoch), Some(HandOverEnd::Lost));
        assert!(!a.serves(&id("a"), &after, &after.shares[0]) && !a.release(0, after.epoch));
    }

    #[test]
    fn a_share_that_is_kept_is_never_released() {
        let [before, after] = handing_over();
        let mut a = HandOvers::default();
        a.learn(&id("a"), Some(&before), &after);
        assert!(a.keep(0, after.epoch) && !a.release(0, after.epoch));
        assert!(a.serves(&id("a"), &after, &after.shares[0]));
    }
}
