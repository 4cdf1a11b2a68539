//! Which members have been silent for so long that none of their terms can last.

use std::collections::BTreeMap;

use crate::config::{ClusterConfig, MemberId};
use crate::coordinator::{ClusterPicture, Revision};
use crate::term::{LONGEST_TERM, SHORTEST_TERM, over_ns};

/// The last beat of a member as this process saw it.
#[derive(Clone, Copy, Debug)]
struct SeenBeat {
    revision: Revision,
    term_ns: u64,
    /// When this process saw it first.
    seen_ns: u64,
    /// This process saw one before.
    is_later: bool,
}

/// The beats of other members that this process saw.
#[derive(Clone, Debug, Default)]
pub(crate) struct BeatWatch {
    seen: BTreeMap<MemberId, SeenBeat>,
    looked_ns: Option<u64>,
}

impl BeatWatch {
    /// Takes a picture that was there at `now_ns`. After a gap of more than `longest_gap_ns` the others get their whole time
    /// again: it was perhaps the coordinator that was away.
    pub(crate) fn look(&mut self, picture: &ClusterPicture, now_ns: u64, longest_gap_ns: u64) {
        let had_gap = self.looked_ns.is_none_or(|before| now_ns.saturating_sub(before) > longest_gap_ns);
        self.looked_ns = Some(now_ns);
        let members = picture.config.iter().flat_map(|(config, _)| members_of(config));
        let beats =
            picture.beats.iter().map(|(beat, revision)| (beat.member.id.clone(), *revision, term_of(beat.term_ns)));
        // A member without a beat: somebody has deleted it. Nobody knows its term.
        let missing = members.filter(|id| picture.last_beat(id) == 0).map(|id| (id, 0, LONGEST_TERM.as_nanos() as u64));
        let now: Vec<_> = beats.chain(missing).collect();
        self.seen.retain(|id, _| now.iter().any(|(other, ..)| other == id));
        for (id, revision, term_ns) in now {
            let fresh = SeenBeat { revision, term_ns, seen_ns: now_ns, is_later: false };
            let seen = self.seen.entry(id).or_insert(fresh);
            if had_gap || seen.revision != revision {
                *seen = SeenBeat { is_later: seen.is_later || seen.revision != revision, ..fresh };
            }
        }
    }

    /// The revision of a member's last beat, if no term of it can last.
    pub(crate) fn silent(&self, id: &MemberId, now_ns: u64) -> Option<Revision> {
        let seen = self.seen.get(id)?;
        (now_ns >= over_ns(seen.seen_ns, seen.term_ns)).then_some(seen.revision)
    }

    /// The same for a member that others may replace. One that this process has not seen beat anew gets one more term: after a power cut for all,
    /// each process waits for the end of its predecessor's term before it beats.
    pub(crate) fn gone(&self, id: &MemberId, now_ns: u64) -> Option<Revision> {
        let seen = self.seen.get(id)?;
        let may_be_starting = !seen.is_later && seen.revision != 0;
        self.silent(id, now_ns.saturating_sub(if may_be_starting { seen.term_ns } else { 0 }))
    }

    /// The member has beaten since this process looks, and it is not silent.
    pub(crate) fn lives(&self, id: &MemberId, now_ns: u64) -> bool {
        self.seen.get(id).is_some_and(|seen| seen.is_later) && self.silent(id, now_ns).is_none()
    }
}

fn members_of(config: &ClusterConfig) -> impl Iterator<Item = MemberId> {
    config.members.iter().map(|member| member.id.clone())
}

/// A member that tells a term that is too long would never be deposed.
fn term_of(told_ns: u64) -> u64 {
    told_ns.clamp(SHORTEST_TERM.as_nanos() as u64, LONGEST_TERM.as_nanos() as u64)
}
