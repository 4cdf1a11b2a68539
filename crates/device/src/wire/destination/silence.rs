//! Whether a queue pair keeps its share of a destination although its peer does not answer.
//!
//! A peer queue pair that was destroyed answers nothing, and no message tells of that. Its packets were dropped long ago,
//! but the requester waits until its retries are used up, or for ever. So each probe without an answer compares this queue
//! pair with the others of its destination. When the others were answered twice between its probes, its packets no longer
//! wait in a receive buffer, and its share *lapses*. When no queue pair was answered, the whole destination is late, and
//! all keep their shares.

/// The number of probes in a row, with answers to other queue pairs only, after which the share
/// lapses.
const PASSED_OVER_LIMIT: u8 = 2;

/// The silence of one queue pair's peer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Silence {
    /// Probes since the peer's last answer.
    probes: u32,
    /// The answers that the destination had given at the last probe.
    answers: u64,
    passed_over: u8,
}

/// The conclusion from a probe without an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Finding {
    /// It is the first one: too little to tell.
    TooEarly,
    /// The peer is silent, and perhaps everybody at the destination.
    Silent,
    /// Others were answered between the last probes.
    Lapsed,
}

impl Silence {
    /// Whether probes are unanswered.
    #[inline]
    pub(crate) fn is_silent(&self) -> bool {
        self.probes > 0
    }

    /// Whether the share has lapsed.
    #[inline]
    pub(crate) fn has_lapsed(&self) -> bool {
        self.passed_over >= PASSED_OVER_LIMIT
    }

    /// Whether `probes` is what is known already.
    #[inline]
    pub(crate) fn knows(&self, probes: u32) -> bool {
        self.probes == probes
    }

    /// Notes that `probes` are unanswered, at least one, while the destination has given `answers`.
    pub(crate) fn look(&mut self, probes: u32, answers: u64) -> Finding {
        let is_first = !self.is_silent();
        let others_answered = std::mem::replace(&mut self.answers, answers) != answers;
        self.probes = probes;
        if is_first {
            return Finding::TooEarly;
        }
        self.passed_over = self.passed_over.saturating_add(others_answered.into());
        if self.has_lapsed() { Finding::Lapsed } else { Finding::Silent }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_lapses_when_only_others_are_answered() {
        let mut silence = Silence::default();
        assert_eq!(silence.look(1, 10), Finding::TooEarly);
        assert_eq!(silence.look(2, 11), Finding::Silent);
        assert_eq!(silence.look(3, 12), Finding::Lapsed);
        assert_eq!(silence.look(4, 12), Finding::Lapsed, "it stays so until there is an answer");
    }

    #[test]
    fn no_share_lapses_while_no_queue_pair_is_answered() {
        let mut silence = Silence::default();
        assert_eq!(silence.look(1, 10), Finding::TooEarly);
        assert!((2..100).all(|probes| silence.look(probes, 10) == Finding::Silent));
        assert_eq!(silence.look(100, 11), Finding::Silent, "its own answer may be on the way");
    }
}
