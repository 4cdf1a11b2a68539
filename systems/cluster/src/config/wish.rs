//! Wishes: changes that a member or an operator asks for.

use crate::config::{ClusterConfig, MemberId, SlotMove};

/// A change that somebody wants. Shares are named by their first slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigWish {
    /// The primary's: a member that was joining has all the data, and becomes a backup. The target of a move goes on to
    /// [`ShareMove::Close`](crate::ShareMove::Close).
    Admit {
        /// The first slot of the share.
        from: u16,
        /// The member.
        member: MemberId,
        /// The epoch that the primary knew when it found the data complete. A member that has joined since may have dropped them.
        epoch: u64,
    },
    /// The primary's: a backup did not take a record. From now on the primary answers without it. The backup has to fetch the data
    /// anew.
    Demote {
        /// The first slot of the share.
        from: u16,
        /// The member.
        member: MemberId,
    },
    /// The primary's, of a share that is closed: the target may take over. The member's agent carries it out when nobody can read the
    /// primary's memory alone any more.
    HandOver {
        /// The first slot of the share.
        from: u16,
    },
    /// The target's: the former primary has released the share to it. Or the former primary's, if it does not serve the share.
    Arrive {
        /// The first slot of the share.
        from: u16,
        /// The epoch in which the hand-over began.
        since: u64,
    },
    /// The former primary's: it has not released the share, and keeps it.
    TakeBack {
        /// The first slot of the share.
        from: u16,
        /// The epoch in which the hand-over began.
        since: u64,
    },
    /// An operator's: these slots move.
    Move(SlotMove),
    /// An operator's: all members that are not drained serve equally many slots, and as few as possible move.
    Rebalance,
    /// An operator's: the member's shares go to others, and it gets no new ones.
    Drain {
        /// The member.
        member: MemberId,
    },
    /// An operator's: the member may have shares again.
    Undrain {
        /// The member.
        member: MemberId,
    },
}

impl ConfigWish {
    /// True if an operator ordered it. It comes true once at most: two orders that contradict each other do not go on for ever.
    pub(crate) fn is_order(&self) -> bool {
        use ConfigWish::{Drain, Move, Rebalance, Undrain};
        matches!(self, Move(_) | Rebalance | Drain { .. } | Undrain { .. })
    }
}

impl ClusterConfig {
    /// As a member wishes; `None` if there is nothing to do (any more), or it is not the one who may.
    #[doc(hidden)]
    pub fn granted(&self, wish: &ConfigWish, who: &MemberId) -> Option<ClusterConfig> {
        match wish {
            ConfigWish::Admit { epoch, .. } if *epoch < self.joined => None,
            ConfigWish::Admit { from, member, .. } => self.admitted(*from, member, who),
            ConfigWish::Demote { from, member } => self.demoted(*from, member, who),
            ConfigWish::HandOver { from } => self.handing_over(*from, who),
            ConfigWish::Arrive { from, since } => self.arrived(*from, *since, who),
            ConfigWish::TakeBack { from, since } => self.taken_back(*from, *since, who),
            ConfigWish::Move(one) => self.with_moves(std::slice::from_ref(one)),
            ConfigWish::Rebalance => self.with_moves(&self.balance()),
            ConfigWish::Drain { member } => self.drained(member),
            ConfigWish::Undrain { member } => self.undrained(member),
        }
    }
}
