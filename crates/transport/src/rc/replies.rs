//! Replies of the responder that duplicates are answered from: a request that has a reply is never executed twice.
//!
//! A reply is kept until `max_dest_rd_atomic` newer ones have come, as the results of atomics are (9.7.5.1.4): the peer
//! has no more requests outstanding than that.

use std::collections::VecDeque;

use wire::Psn;

/// A reply in whole. Its packets leave with the PSNs from `start` on.
#[derive(Debug)]
pub(super) struct KeptReply {
    pub(super) start: Psn,
    pub(super) bytes: Box<[u8]>,
}

impl KeptReply {
    /// The number of its packets.
    pub(super) fn packets(&self, mtu: u32) -> u32 {
        (self.bytes.len() as u32).div_ceil(mtu).max(1)
    }
}

/// The latest replies, oldest first.
#[derive(Debug, Default)]
pub(super) struct KeptReplies(VecDeque<KeptReply>);

impl KeptReplies {
    /// Keeps a reply, and `limit` of them at most.
    pub(super) fn keep(&mut self, reply: KeptReply, limit: usize) {
        while self.0.len() >= limit.max(1) {
            self.0.pop_front();
        }
        self.0.push_back(reply);
    }

    /// The reply that begins with this PSN.
    pub(super) fn at(&self, start: Psn) -> Option<&KeptReply> {
        self.0.iter().find(|reply| reply.start == start)
    }

    /// The reply that has a packet with this PSN.
    pub(super) fn with_packet(&self, psn: Psn, mtu: u32) -> Option<&KeptReply> {
        let has = |reply: &&KeptReply| {
            u32::try_from(psn.distance(reply.start)).is_ok_and(|packet| packet < reply.packets(mtu))
        };
        self.0.iter().find(has)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(start: u32, len_bytes: usize) -> KeptReply {
        KeptReply { start: Psn::new(start), bytes: vec![0; len_bytes].into() }
    }

    #[test]
    fn the_latest_are_kept() {
        let mut replies = KeptReplies::default();
        for start in [0xff_fffe, 1, 2] {
            replies.keep(reply(start, 700), 2);
        }
        assert!(replies.at(Psn::new(0xff_fffe)).is_none() && replies.at(Psn::new(2)).is_some());
        replies.keep(reply(3, 0), 0);
        assert!(replies.at(Psn::new(2)).is_none(), "one at least");
        assert!(replies.at(Psn::new(3)).is_some());
    }

    #[test]
    fn a_reply_is_found_by_each_of_its_packets() {
        let mut replies = KeptReplies::default();
        replies.keep(reply(0xff_fffe, 700), 4);
        replies.keep(reply(10, 0), 4);
        let found = |psn| replies.with_packet(Psn::new(psn), 256).map(|reply| reply.start.get());
        assert_eq!(
            (found(0xff_fffd), found(0xff_fffe), found(0), found(1)),
            (None, Some(0xff_fffe), Some(0xff_fffe), None)
        );
        assert_eq!((found(9), found(10), found(11)), (None, Some(10), None));
    }
}
