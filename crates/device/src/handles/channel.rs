//! Completion channels: one descriptor that tells which completion queues have news.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::engine::EngineRef;
use crate::error::Error;
use crate::handles::cq::CqShared;
use crate::objects::signal::Signal;
use crate::objects::users::{Counted, Users};

/// A completion channel.
///
/// Its descriptor is readable exactly while events are pending: every time that an armed
/// completion queue gets its completion adds one, every [`next`](CompChannel::next) takes one.
#[derive(Clone, Debug)]
pub struct CompChannel {
    pub(crate) shared: Arc<ChannelShared>,
}

#[derive(Debug)]
pub(crate) struct ChannelShared {
    engine: EngineRef,
    signal: Signal,
    pending: Mutex<VecDeque<Arc<CqShared>>>,
    users: Users,
}

impl Counted for ChannelShared {
    const WHAT: &'static str = "completion channel";

    fn users(&self) -> &Users {
        &self.users
    }
}

impl CompChannel {
    pub(crate) fn new(engine: &EngineRef) -> Result<CompChannel, Error> {
        engine.check()?;
        let shared = ChannelShared {
            engine: engine.clone(),
            signal: Signal::new()?,
            pending: Mutex::default(),
            users: Users::default(),
        };
        Ok(CompChannel { shared: Arc::new(shared) })
    }

    /// The descriptor: readable exactly while events are pending. Do not read from it.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.shared.signal.as_fd()
    }

    /// Takes the oldest event: the cookie of its completion queue. Never waits.
    /// The event counts as unacknowledged there until [`Cq::ack_events`](crate::Cq::ack_events).
    #[allow(clippy::should_implement_trait, reason = "an iterator would look finished between events")]
    pub fn next(&self) -> Option<u64> {
        self.shared.engine.check().ok()?;
        let cq = self.shared.take()?;
        cq.note_event();
        Some(cq.cookie())
    }

    /// Destroys it. `Busy` while completion queues use it.
    pub fn destroy(&self) -> Result<(), Error> {
        self.shared.engine.check()?;
        self.shared.users.close(ChannelShared::WHAT)
    }
}

impl ChannelShared {
    pub(crate) fn engine(&self) -> &EngineRef {
        &self.engine
    }

    pub(crate) fn push(&self, cq: Arc<CqShared>) {
        let mut pending = self.pending.lock();
        pending.push_back(cq);
        self.signal.raise();
    }

    fn take(&self) -> Option<Arc<CqShared>> {
        let mut pending = self.pending.lock();
        let cq = pending.pop_front()?;
        self.signal.lower();
        Some(cq)
    }

    /// Drops the pending events of a completion queue that goes away.
    pub(crate) fn forget(&self, cq: &CqShared) {
        let mut pending = self.pending.lock();
        let before = pending.len();
        pending.retain(|other| !std::ptr::eq(Arc::as_ptr(other), cq));
        for _ in pending.len()..before {
            self.signal.lower();
        }
    }
}
