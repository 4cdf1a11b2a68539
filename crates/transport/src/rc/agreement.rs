//! The agreement on selective retransmission: how two Longarm ends make it, and how packets prove it.
//!
//! Each direction of a connection has its own agreement, made in packets that are in sequence. So it needs no help
//! of the connection setup. The responder draws a [`Cookie`]. A peer that proves the cookie has read the responder's
//! packets; a blind attacker has not.
//!
//! ```text
//!  requester                                responder
//!  request, in its turn, Mark::OFFER  ──►   understands: answers carry the cookie's mark
//!                                     ◄──   ACK or NAK with the cookie, for an outstanding PSN
//!  requests with the cookie's mark    ──►   in its turn: agreed
//! ```
//! - The responder keeps a packet ahead of its turn only if it carries the mark. Once the agreement is made, it drops
//!   every request without the mark, one in its turn the first time that it comes: a peer whose queue pair
//!   was reset meanwhile sends it again, a blind attacker would have to hit the PSN twice.
//! - The requester, once it knows the cookie, drops every answer without the mark, until a whole ACK timeout has
//!   passed without progress: the peer's queue pair may have been reset.
//!
//! An end that does not know any of this ignores the reserved bits, and acknowledges without a mark: then the
//! requester stops offering, and both do what the specification says. docs/security.md computes what an attack costs.

use wire::{Cookie, Mark, Packet, Psn};

use crate::drop::DropReason;

/// The responder's half.
#[derive(Debug, Default)]
pub(super) struct ResponderAgreement {
    /// `None`: selective retransmission is off.
    cookie: Option<Cookie>,
    mark: Mark,
    /// The latest request in its turn carried an offer or our mark.
    peer_understands: bool,
    /// The latest request in its turn carried our mark.
    agreed: bool,
    /// A request in its turn came without the mark, and was dropped.
    suspect: Option<Psn>,
}

impl ResponderAgreement {
    pub(super) fn new(cookie: Option<Cookie>) -> ResponderAgreement {
        let mark = cookie.map_or(Mark::NONE, Cookie::mark);
        ResponderAgreement { cookie, mark, ..ResponderAgreement::default() }
    }

    /// Whether a request with `mark` may be processed.
    #[inline]
    pub(super) fn admits(&mut self, mark: Mark, psn: Psn, expected: Psn) -> bool {
        !self.agreed || mark == self.mark || self.admits_unmarked(psn, expected)
    }

    #[cold]
    fn admits_unmarked(&mut self, psn: Psn, expected: Psn) -> bool {
        let comes_again = psn == expected && self.suspect == Some(psn);
        if psn == expected {
            self.suspect = Some(psn);
        }
        comes_again
    }

    /// A request came in its turn.
    #[inline]
    pub(super) fn note_in_order(&mut self, mark: Mark) {
        self.agreed = self.is_proven_by(mark);
        self.peer_understands = self.agreed || self.cookie.is_some() && mark == Mark::OFFER;
    }

    /// Whether a packet with this mark comes from a peer that was told the cookie.
    #[inline]
    pub(super) fn is_proven_by(&self, mark: Mark) -> bool {
        self.cookie.is_some() && mark == self.mark
    }

    pub(super) fn is_agreed(&self) -> bool {
        self.agreed
    }

    pub(super) fn peer_understands(&self) -> bool {
        self.peer_understands
    }

    /// The mark of responses.
    pub(super) fn answer_mark(&self) -> Mark {
        if self.peer_understands { self.mark } else { Mark::NONE }
    }

    /// The cookie, if the peer has yet to be told.
    pub(super) fn untold_cookie(&self) -> Option<Cookie> {
        self.cookie.filter(|_| self.peer_understands && !self.agreed)
    }

    /// The cookie, if the peer knows it.
    pub(super) fn shared(&self) -> Option<Cookie> {
        self.cookie.filter(|_| self.agreed)
    }

    /// The cookie for packets of ours that must carry one whole. The peer has been told, or will be.
    pub(super) fn own(&self) -> Option<Cookie> {
        self.cookie.filter(|_| self.peer_understands)
    }

    #[cfg(test)]
    pub(super) fn cookie(&self) -> Option<Cookie> {
        self.cookie
    }
}

/// The kind of a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AnswerKind {
    /// To what is outstanding: a request has arrived.
    Positive,
    /// A NAK of what is outstanding.
    Negative,
    /// To nothing that is outstanding.
    Ghost,
}

/// The requester's half.
#[derive(Debug, Default)]
pub(super) struct RequesterAgreement {
    /// The mark of requests.
    mark: Mark,
    /// The peer's, once it has told us.
    cookie: Option<Cookie>,
    /// Answers without the cookie's mark are dropped.
    strict: bool,
    /// The peer sends a delayed ACK for requests that do not ask for one.
    pub(super) peer_delays_acks: bool,
    /// The peer takes requests that carry an ACK.
    pub(super) peer_takes_piggybacks: bool,
    /// The peer's latest answer told whether it carries out requests of Longarm's own.
    told_extends: Option<bool>,
}

impl RequesterAgreement {
    /// Offers it, if it is to be made.
    pub(super) fn new(offers: bool) -> RequesterAgreement {
        RequesterAgreement { mark: if offers { Mark::OFFER } else { Mark::NONE }, ..RequesterAgreement::default() }
    }

    /// Learns from a response of this kind. AckReq beside a mark says that the peer takes requests that carry ACKs: in a
    /// response it has no other meaning. `may_piggyback` tells whether this end sends such requests.
    #[inline]
    pub(super) fn check_response(
        &mut self,
        packet: &Packet<'_>,
        kind: AnswerKind,
        may_piggyback: bool,
    ) -> Result<(), DropReason> {
        let (bth, told) = (packet.bth(), packet.cookie());
        if told.is_some() && packet.sack().is_some() && told != self.cookie {
            return Err(DropReason::NotAgreed);
        }
        self.check_mark(bth.mark, told, kind)?;
        let is_made = self.is_made();
        self.peer_delays_acks = is_made;
        self.peer_takes_piggybacks = is_made && bth.ack_req && may_piggyback;
        if bth.mark != Mark::NONE && kind != AnswerKind::Ghost {
            self.told_extends = Some(bth.solicited);
        }
        Ok(())
    }

    /// Whether the peer carries out requests of Longarm's own. Beside a mark the solicited event bit of its answers says so:
    /// in a response it has no other meaning. A peer without marks does not. `None`: no answer has told yet.
    pub(super) fn peer_extends(&self) -> Option<bool> {
        match self.told_extends {
            None if self.mark == Mark::NONE => Some(false),
            told => told,
        }
    }

    #[inline]
    pub(super) fn request_mark(&self) -> Mark {
        self.mark
    }

    /// The cookie, if both know it.
    #[inline]
    pub(super) fn shared(&self) -> Option<Cookie> {
        self.cookie
    }

    /// Whether it is offered, and no answer has shown what the peer makes of it.
    pub(super) fn is_open(&self) -> bool {
        self.mark == Mark::OFFER
    }

    #[inline]
    pub(super) fn is_made(&self) -> bool {
        self.cookie.is_some()
    }

    /// An answer came that carries `mark`, and perhaps tells a cookie.
    #[inline]
    pub(super) fn check_mark(
        &mut self,
        mark: Mark,
        told: Option<Cookie>,
        answer: AnswerKind,
    ) -> Result<(), DropReason> {
        if let Some(cookie) = self.cookie {
            if mark == cookie.mark() && told.is_none_or(|told| told == cookie) {
                self.strict = true;
                return Ok(());
            }
            if self.strict {
                return Err(DropReason::NotAgreed);
            }
        }
        if answer != AnswerKind::Ghost {
            self.learn(mark, told, answer);
        }
        Ok(())
    }

    /// Nothing is agreed yet, or no longer: what does the answer say about the peer?
    fn learn(&mut self, mark: Mark, told: Option<Cookie>, answer: AnswerKind) {
        let was_made = self.cookie.is_some();
        match told {
            _ if self.mark == Mark::NONE => {}
            Some(cookie) if cookie.mark() == mark => {
                *self =
                    RequesterAgreement { mark, cookie: Some(cookie), strict: true, ..RequesterAgreement::default() };
            }
            _ if was_made => *self = RequesterAgreement::new(true),
            // A peer that sends a NAK may not have had a request in sequence, and so no offer.
            _ if mark == Mark::NONE && answer == AnswerKind::Positive => *self = RequesterAgreement::new(false),
            // The peer understands the offer; an ACK will tell the cookie.
            _ => {}
        }
    }

    /// A whole ACK timeout has passed: the peer may have forgotten the cookie.
    pub(super) fn relax(&mut self) {
        self.strict = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COOKIE: Cookie = Cookie(0x1234_5678);
    const OTHER: Cookie = Cookie(0x9abc_def0);

    fn agreed() -> (RequesterAgreement, ResponderAgreement) {
        let (mut requester, mut responder) = (RequesterAgreement::new(true), ResponderAgreement::new(Some(COOKIE)));
        responder.note_in_order(requester.request_mark());
        let told = responder.untold_cookie();
        assert_eq!(requester.check_mark(responder.answer_mark(), told, AnswerKind::Positive), Ok(()));
        responder.note_in_order(requester.request_mark());
        assert!(requester.is_made() && responder.is_agreed());
        (requester, responder)
    }

    #[test]
    fn an_offer_a_cookie_and_a_mark_make_it() {
        let (requester, responder) = agreed();
        assert_eq!((requester.shared(), responder.shared()), (Some(COOKIE), Some(COOKIE)));
        assert_eq!((requester.request_mark(), responder.answer_mark()), (COOKIE.mark(), COOKIE.mark()));
        assert_eq!(responder.untold_cookie(), None);
    }

    #[test]
    fn an_answer_that_answers_nothing_teaches_nothing() {
        let mut requester = RequesterAgreement::new(true);
        assert_eq!(requester.check_mark(OTHER.mark(), Some(OTHER), AnswerKind::Ghost), Ok(()));
        assert_eq!(requester.check_mark(Mark::NONE, None, AnswerKind::Ghost), Ok(()));
        assert_eq!((requester.is_made(), requester.request_mark()), (false, Mark::OFFER));
    }

    #[test]
    fn a_cookie_beside_another_mark_is_none() {
        let mut requester = RequesterAgreement::new(true);
        assert_eq!(requester.check_mark(OTHER.mark(), Some(COOKIE), AnswerKind::Positive), Ok(()));
        assert!(!requester.is_made());
    }

    #[test]
    fn an_unmarked_answer_ends_the_offer() {
        let mut requester = RequesterAgreement::new(true);
        assert_eq!(requester.check_mark(Mark::NONE, None, AnswerKind::Positive), Ok(()));
        assert_eq!(requester.request_mark(), Mark::NONE);
        assert_eq!(requester.check_mark(COOKIE.mark(), Some(COOKIE), AnswerKind::Positive), Ok(()));
        assert!(!requester.is_made(), "it was not asked for any more");
    }

    #[test]
    fn an_unmarked_nak_ends_nothing() {
        let mut requester = RequesterAgreement::new(true);
        assert_eq!(requester.check_mark(Mark::NONE, None, AnswerKind::Negative), Ok(()));
        assert_eq!(requester.request_mark(), Mark::OFFER);
        assert_eq!(requester.check_mark(COOKIE.mark(), Some(COOKIE), AnswerKind::Negative), Ok(()));
        assert!(requester.is_made());
    }

    #[test]
    fn once_made_only_the_mark_counts() {
        let (mut requester, mut responder) = agreed();
        for (mark, told) in [(Mark::NONE, None), (Mark::OFFER, None), (OTHER.mark(), None), (OTHER.mark(), Some(OTHER))]
        {
            assert_eq!(requester.check_mark(mark, told, AnswerKind::Positive), Err(DropReason::NotAgreed));
            assert!(!responder.admits(mark, Psn::new(4), Psn::new(5)));
            assert!(!responder.admits(mark, Psn::new(6), Psn::new(5)));
            assert!(!responder.admits(mark, Psn::new(6), Psn::new(5)), "however often");
        }
        assert_eq!(requester.check_mark(COOKIE.mark(), None, AnswerKind::Positive), Ok(()));
        assert!(responder.admits(COOKIE.mark(), Psn::new(6), Psn::new(5)));
    }

    #[test]
    fn a_request_in_its_turn_without_the_mark_has_to_come_twice() {
        let (_, mut responder) = agreed();
        assert!(!responder.admits(Mark::NONE, Psn::new(5), Psn::new(5)));
        assert!(!responder.admits(Mark::NONE, Psn::new(6), Psn::new(6)), "another one");
        assert!(responder.admits(Mark::NONE, Psn::new(6), Psn::new(6)));
        responder.note_in_order(Mark::NONE);
        assert!(!responder.is_agreed() && !responder.peer_understands());
        assert!(responder.admits(Mark::NONE, Psn::new(7), Psn::new(7)));
    }

    #[test]
    fn after_a_timeout_a_peer_that_was_reset_is_heard() {
        let (mut requester, _) = agreed();
        requester.relax();
        assert_eq!(requester.check_mark(Mark::NONE, None, AnswerKind::Positive), Ok(()));
        assert_eq!((requester.is_made(), requester.request_mark()), (false, Mark::OFFER));
        let (mut requester, _) = agreed();
        requester.relax();
        assert_eq!(requester.check_mark(COOKIE.mark(), None, AnswerKind::Ghost), Ok(()));
        assert_eq!(
            requester.check_mark(Mark::NONE, None, AnswerKind::Positive),
            Err(DropReason::NotAgreed),
            "it is the same as before"
        );
    }

    #[test]
    fn where_it_is_off_nothing_is_made() {
        let mut responder = ResponderAgreement::new(None);
        for mark in [Mark::OFFER, Mark::NONE, Cookie::default().mark()] {
            responder.note_in_order(mark);
            assert!(!responder.is_agreed() && !responder.peer_understands() && !responder.is_proven_by(mark));
            assert_eq!((responder.answer_mark(), responder.untold_cookie()), (Mark::NONE, None));
            assert!(responder.admits(mark, Psn::new(9), Psn::new(5)));
        }
    }
}
