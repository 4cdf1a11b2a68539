//! The right to serve, as threads of a server ask for it.

use std::sync::Arc;

use parking_lot::RwLock;

use crate::config::{ClusterConfig, MemberId};
use crate::slot::HashSlot;
use crate::term::boot_ns;

/// Leave to serve a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotGrant {
    /// The epoch of the configuration that gives it.
    pub epoch: u64,
    /// The end in nanoseconds of [`boot_ns`]; `u64::MAX` if it has none.
    pub until_ns: u64,
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

/// The configuration that a member knows, and how long it may act on it. Clones share it.
#[derive(Clone, Debug)]
pub struct ServingRight {
    me: Arc<MemberId>,
    state: Arc<RwLock<RightState>>,
}

#[derive(Debug, Default)]
struct RightState {
    config: Option<Arc<ClusterConfig>>,
    until_ns: u64,
}

impl ServingRight {
    /// No right yet.
    pub(crate) fn new(me: MemberId) -> ServingRight {
        ServingRight { me: Arc::new(me), state: Arc::default() }
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
        let right = ServingRight::new(MemberId { name: name.into(), incarnation });
        right.set(Some(Arc::new(config)), u64::MAX);
        right
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

    /// The newest configuration and the end of the term, of one moment. For readers of memory: until then they may read slots
    /// that the configuration gives this member. `None` without a configuration.
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
        let primary = config.primary(slot).ok_or(NotServing::Down(slot))?;
        if primary.id != *self.me {
            return Err(NotServing::Moved { slot, address: primary.address.clone(), epoch: config.epoch });
        }
        if now_ns >= state.until_ns {
            return Err(NotServing::NoTerm);
        }
        Ok(SlotGrant { epoch: config.epoch, until_ns: state.until_ns })
    }

    /// Ends the term now.
    pub(crate) fn end(&self) {
        self.set(None, 0);
    }

    pub(crate) fn set(&self, config: Option<Arc<ClusterConfig>>, until_ns: u64) {
        let mut state = self.state.write();
        state.config = config.or_else(|| state.config.take());
        state.until_ns = until_ns;
    }
}
