//! The right to serve, as threads of a server ask for it.

use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use crate::config::wish::ConfigWish;
use crate::config::{ClusterConfig, MemberId};
use crate::handover::{HandOverEnd, HandOvers};
use crate::slot::HashSlot;
use crate::term::boot_ns;

/// Leave to serve a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotGrant {
    /// The epoch of the configuration that gives it.
    pub epoch: u64,
    /// The end in nanoseconds of [`boot_ns`]; `u64::MAX` if it has none.
    pub until_ns: u64,
    /// Clients may read the slot in this member's memory alone. Not so shortly before another member serves it.
    pub may_read_alone: bool,
}

/// The reason why a member does not serve a slot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotServing {
    /// Another member does.
    #[error("slot {slot} is served by {address} in epoch {epoch}")]
    Moved {
        /// The slot.
        slot: HashSlot,
        /// The address of its primary.
        address: String,
        /// The epoch of the configuration.
        epoch: u64,
    },
    /// Nobody does: all members that had the data are gone.
    #[error("slot {0} is served by nobody: the members that have its data are gone")]
    Down(HashSlot),
    /// This member may be the primary, but its term has ended: it cannot reach the coordinator, or has not yet.
    #[error("this server has no term: it does not reach the coordinator of the cluster")]
    NoTerm,
}

/// The reason why a member does not take a wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WishRefused {
    /// The configuration never changes.
    #[error("the servers of this cluster never change: it has no coordinator")]
    Fixed,
    /// It is an order to move slots, and the server does not carry out moves: [`MemberOptions::moves_slots`](crate::MemberOptions).
    #[error("this server does not move slots")]
    NoMoves,
}

/// The configuration that a member knows, and how long it may act on it. Clones share it.
#[derive(Clone, Debug)]
pub struct ServingRight {
    me: Arc<MemberId>,
    state: Arc<RwLock<RightState>>,
    /// Wishes for the member's thread; none if the configuration never changes.
    wishes: Option<Arc<Mutex<Vec<ConfigWish>>>>,
    /// The server carries out moves.
    moves_slots: bool,
}

#[derive(Debug, Default)]
struct RightState {
    config: Option<Arc<ClusterConfig>>,
    until_ns: u64,
    hand_overs: HandOvers,
}

impl ServingRight {
    /// No right yet.
    pub(crate) fn new(me: MemberId) -> ServingRight {
        ServingRight { me: Arc::new(me), state: Arc::default(), wishes: Some(Arc::default()), moves_slots: false }
    }

    /// The right of a member of a configuration that never changes: no coordinator, no term that ends.
    ///
    /// ```
    /// use longarm_cluster::{ClusterConfig, HashSlot, ServingRight};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let config = ClusterConfig::fixed(&[("a", "host1:7480"), ("b", "host2:7480")])?;
    /// let right = ServingRight::fixed(config, "a");
    /// assert!(right.check(HashSlot::of_key(b"bar")).is_ok());
    /// assert!(right.check(HashSlot::of_key(b"foo")).unwrap_err().to_string().contains("host2:7480"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn fixed(config: ClusterConfig, name: &str) -> ServingRight {
        let incarnation = config.member(name).map_or(0, |member| member.id.incarnation);
        let mut right = ServingRight::new(MemberId { name: name.into(), incarnation });
        right.wishes = None;
        right.set(Some(Arc::new(config)), u64::MAX);
        right
    }

    /// Takes orders to move slots if the server carries out moves.
    pub(crate) fn set_moves_slots(&mut self, moves_slots: bool) {
        self.moves_slots = moves_slots;
    }

    /// The member.
    pub fn member(&self) -> &MemberId {
        &self.me
    }

    /// The newest configuration that the member knows, even if its term has ended.
    pub fn config(&self) -> Option<Arc<ClusterConfig>> {
        self.state.read().config.clone()
    }

    /// The end of the term in nanoseconds of [`boot_ns`].
    pub fn until_ns(&self) -> u64 {
        self.state.read().until_ns
    }

    /// The newest configuration and the end of the term, of one moment. `None` without a configuration.
    pub fn term(&self) -> Option<(Arc<ClusterConfig>, u64)> {
        let state = self.state.read();
        state.config.clone().map(|config| (config, state.until_ns))
    }

    /// Asks whether this member may serve a slot now.
    ///
    /// A server asks after it has read the value and before it sends it. A pause between this and the client's receipt can outlast the
    /// term, so the client has to know [`SlotGrant::until_ns`], too.
    ///
    /// # Errors
    /// [`NotServing`] says who does.
    pub fn check(&self, slot: HashSlot) -> Result<SlotGrant, NotServing> {
        self.check_at(slot, boot_ns())
    }

    /// The same, at another moment of the clock.
    pub(crate) fn check_at(&self, slot: HashSlot, now_ns: u64) -> Result<SlotGrant, NotServing> {
        let state = self.state.read();
        let config = state.config.as_ref().ok_or(NotServing::NoTerm)?;
        let share = config.share(slot).ok_or(NotServing::Down(slot))?;
        if !state.hand_overs.serves(&self.me, config, share) {
            // During a hand-over, the other end serves.
            let primary = share.primary.as_deref().ok_or(NotServing::Down(slot))?;
            let other = share.hand_over().map(|(former, _)| former).filter(|_| primary == self.me.name);
            let other = config.member(other.unwrap_or(primary)).ok_or(NotServing::Down(slot))?;
            return Err(NotServing::Moved { slot, address: other.address.clone(), epoch: config.epoch });
        }
        if now_ns >= state.until_ns {
            return Err(NotServing::NoTerm);
        }
        let may_read_alone = share.may_be_read_alone();
        Ok(SlotGrant { epoch: config.epoch, until_ns: state.until_ns, may_read_alone })
    }

    /// Our end of the hand-over of the share with that first slot, which began in that epoch.
    pub fn hand_over(&self, from: u16, since: u64) -> Option<HandOverEnd> {
        self.state.read().hand_overs.end(from, since)
    }

    /// The former primary of a share serves it no more from now on. Returns false if this process may not say so: then the target must
    /// not hear of it either. To be called before the target gets the answer.
    pub fn release(&self, from: u16, since: u64) -> bool {
        self.state.write().hand_overs.release(from, since)
    }

    /// The target of a hand-over has heard that the share is released: it serves from now on. False: it is not the target.
    pub fn accept(&self, from: u16, since: u64) -> bool {
        self.state.write().hand_overs.accept(from, since)
    }

    /// The former primary keeps the share. False: it has released it.
    pub(crate) fn keep(&self, from: u16, since: u64) -> bool {
        self.state.write().hand_overs.keep(from, since)
    }

    /// Wishes a change. A later configuration shows whether it has come true.
    ///
    /// # Errors
    /// [`WishRefused`] says why the member does not take it.
    pub fn wish(&self, wish: ConfigWish) -> Result<(), WishRefused> {
        if wish.is_order() {
            self.check_orders()?;
        }
        self.wishes.as_ref().ok_or(WishRefused::Fixed)?.lock().push(wish);
        Ok(())
    }

    /// Asks whether the member takes orders to move slots.
    pub(crate) fn check_orders(&self) -> Result<(), WishRefused> {
        match self.wishes {
            None => Err(WishRefused::Fixed),
            Some(_) if !self.moves_slots => Err(WishRefused::NoMoves),
            Some(_) => Ok(()),
        }
    }

    /// The wishes since the last time.
    pub(crate) fn take_wishes(&self) -> Vec<ConfigWish> {
        self.wishes.as_ref().map(|wishes| std::mem::take(&mut *wishes.lock())).unwrap_or_default()
    }

    /// Ends the term now.
    pub(crate) fn end(&self) {
        self.set(None, 0);
    }

    pub(crate) fn set(&self, config: Option<Arc<ClusterConfig>>, until_ns: u64) {
        let mut state = self.state.write();
        if let Some(after) = config {
            let RightState { config, hand_overs, .. } = &mut *state;
            hand_overs.learn(&self.me, config.as_deref(), &after);
            *config = Some(after);
        }
        state.until_ns = until_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ShareMove;

    fn two() -> ClusterConfig {
        ClusterConfig::fixed(&[("a", "h:1"), ("b", "h:2")]).unwrap()
    }

    /// Readers ask for the share that goes, and for no other.
    #[test]
    fn a_share_that_goes_is_not_read_alone() {
        let mut config = two();
        let may_be_read = |config: &ClusterConfig| [0, 1].map(|at: usize| config.shares[at].may_be_read_alone());
        config.shares[0].moving = Some(ShareMove::Copy { to: "b".into() });
        assert_eq!(may_be_read(&config), [true, true]);
        config.shares[0].moving = Some(ShareMove::Close { to: "b".into() });
        assert_eq!(may_be_read(&config), [false, true]);
        config.shares[0].primary = Some("b".into());
        config.shares[0].moving = Some(ShareMove::HandOver { former: "a".into(), since: 1 });
        assert_eq!(may_be_read(&config), [false, true]);
        config.shares[0].moving = None;
        assert_eq!(may_be_read(&config), [true, true]);
    }

    /// A server that does not carry out moves takes the wishes of its own replication, but no orders.
    #[test]
    fn orders_need_a_server_that_moves_slots() {
        let member = MemberId { name: "a".into(), incarnation: 1 };
        let orders = [
            ConfigWish::Rebalance,
            ConfigWish::Drain { member: member.clone() },
            ConfigWish::Undrain { member: member.clone() },
            ConfigWish::Move(crate::SlotMove { from: 0, to: 9, target: "b".into() }),
        ];
        let mut right = ServingRight::new(member.clone());
        let admit = ConfigWish::Admit { from: 0, member, epoch: 1 };
        assert_eq!(right.wish(admit.clone()), Ok(()));
        for order in orders {
            right.set_moves_slots(false);
            assert_eq!(right.wish(order.clone()), Err(WishRefused::NoMoves));
            right.set_moves_slots(true);
            assert_eq!(right.wish(order.clone()), Ok(()));
            assert_eq!(ServingRight::fixed(two(), "a").wish(order), Err(WishRefused::Fixed));
        }
        assert_eq!(right.take_wishes().len(), 5);
        assert_eq!(ServingRight::fixed(two(), "a").wish(admit), Err(WishRefused::Fixed));
    }
}
