//! The term of a member with backups, as a reader of its memory knows it (`docs/replication.md`, "Readers of memory").

use std::sync::Arc;
use std::time::Instant;

use cluster::{CONFIGURATION, ClusterConfig, HashSlot, MemberId};

use crate::client::session::{Repeat, TableSession};
use crate::clock::{ClockReading, ExpiryVerdict, now_ns};
use crate::error::KvError;
use crate::server::{STANDING, StandingReply};

/// The right to read slots of a member out of its memory.
#[derive(Clone, Debug)]
pub(crate) struct MemberTerm {
    pub(crate) member: MemberId,
    /// The configuration that gives the member its slots.
    pub(crate) config: Arc<ClusterConfig>,
    /// In the member's clock.
    pub(crate) until_ns: u64,
    /// Changes up to this number are with all backups.
    pub(crate) safe: u64,
    /// The member has told of a later epoch. This term stays true until its end.
    pub(crate) is_old: bool,
}

impl MemberTerm {
    /// True if the member is the primary of the key, and lets clients read it alone.
    pub(crate) fn serves(&self, key: &[u8]) -> bool {
        let slot = HashSlot::of_key(key);
        self.config.share(slot).is_some_and(|share| share.may_be_read_alone())
            && self.config.primary(slot).is_some_and(|primary| primary.id == self.member)
    }

    /// True if the term certainly lasts now. To be asked after a READ.
    pub(crate) fn lasts(&self, clock: Option<ClockReading>) -> bool {
        lasts(self.until_ns, clock)
    }

    /// Learns that changes up to this number are safe, if that was said in the same epoch.
    pub(crate) fn learn(&mut self, epoch: u64, number: u64) {
        if epoch == self.config.epoch {
            self.safe = self.safe.max(number);
        }
        self.is_old |= epoch > self.config.epoch;
    }
}

/// True if a moment in the member's clock has certainly not come yet.
pub(crate) fn lasts(until_ns: u64, clock: Option<ClockReading>) -> bool {
    until_ns != 0 && clock.is_some_and(|clock| clock.judge(until_ns, now_ns()) == ExpiryVerdict::Live)
}

impl TableSession {
    /// Asks for the server's term, if readers have to mind it, and the known one has ended or is of an earlier epoch.
    pub(crate) fn renew_term(&mut self, until: Instant) -> Result<(), KvError> {
        let Some(member) = self.open(until)?.member.clone() else { return Ok(()) };
        if self.term.as_ref().is_some_and(|term| !term.is_old && term.lasts(self.clock)) {
            return Ok(());
        }
        let asked_ns = now_ns();
        let told: StandingReply = self.call(STANDING, Repeat::Always, until, |_, _| ())?;
        let StandingReply { server_ns, epoch, until_ns, safe } = told;
        self.learn(ClockReading { asked_ns, server_ns, answered_ns: now_ns() });
        let known = self.term.take().map(|term| term.config).filter(|config| config.epoch == epoch);
        if until_ns == 0 {
            return Ok(());
        }
        let config = match known {
            Some(config) => config,
            None => {
                let mut text = Vec::new();
                let ask = |_, out: &mut Vec<u8>| out.extend_from_slice(&0_u64.to_le_bytes());
                self.call_into(CONFIGURATION, Repeat::Always, until, ask, &mut text)?;
                let config = ClusterConfig::from_json(&text).map_err(|error| KvError::Cluster(error.to_string()))?;
                if config.epoch != epoch {
                    // It has just changed. The next question finds both the same.
                    return Ok(());
                }
                config.into()
            }
        };
        // A server that was started anew meanwhile is another member.
        if self.opened().is_some_and(|opened| opened.member.as_ref() == Some(&member)) {
            self.term = Some(MemberTerm { member, config, until_ns, safe, is_old: false });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use cluster::ShareMove;

    use super::*;

    #[test]
    fn a_term_is_for_slots_of_its_member_in_its_epoch() {
        let config = Arc::new(ClusterConfig::fixed(&[("a", "h:1"), ("b", "h:2")]).unwrap());
        let member = config.members[1].id.clone();
        let mut term = MemberTerm { member, config, until_ns: 50, safe: 7, is_old: false };
        assert!(term.serves(b"foo") && !term.serves(b"bar"));
        term.learn(2, 100);
        assert_eq!((term.safe, term.is_old), (7, true), "said in another epoch");
        term.learn(1, 9);
        term.learn(1, 8);
        assert_eq!(term.safe, 9);
        let now = now_ns();
        let clock = |server_ns| Some(ClockReading { asked_ns: now, server_ns, answered_ns: now });
        assert!(term.lasts(clock(1).map(|clock| ClockReading { asked_ns: now, ..clock })) || now_ns() - now > 40);
        assert!(!term.lasts(clock(50)) && !term.lasts(None));
        term.until_ns = 0;
        assert!(!term.lasts(clock(0)), "no term");
        let mut config = (*term.config).clone();
        config.shares[1].moving = Some(ShareMove::Close { to: "a".into() });
        term.config = Arc::new(config);
        assert!(!term.serves(b"foo"), "the server has to be asked for a share that goes");
    }
}
