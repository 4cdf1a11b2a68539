//! Completion channels: one descriptor that tells which completion queues have news.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::engine::EngineRef;
use crate::error::Error;
use crate::objects::channel::CompletionEvents;
use crate::objects::cq::CqChannel;
use crate::objects::users::{Counted, Lease};

/// A completion channel.
///
/// Its descriptor is readable exactly while events are pending. An armed completion queue adds one event when it gets
/// its completion. Each [`next`](CompChannel::next) takes one.
#[derive(Clone, Debug)]
pub struct CompChannel {
    handle: Arc<ChannelHandle>,
}

#[derive(Debug)]
struct ChannelHandle {
    channel: Arc<CqChannel>,
    engine: EngineRef,
}

impl CompChannel {
    pub(crate) fn new(engine: &EngineRef) -> Result<CompChannel, Error> {
        engine.check()?;
        let channel = Arc::new(CompletionEvents::new()?);
        Ok(CompChannel { handle: Arc::new(ChannelHandle { channel, engine: engine.clone() }) })
    }

    /// A completion queue's hold, if this is a channel of that engine.
    pub(crate) fn lease(&self, engine: &EngineRef) -> Result<Lease<CqChannel>, Error> {
        if !engine.is_same(&self.handle.engine) {
            return Err(Error::OtherDevice(CqChannel::WHAT));
        }
        Lease::new(&self.handle.channel)
    }

    /// The descriptor, which is readable exactly while events are pending. Do not read from it.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.handle.channel.fd()
    }

    /// Takes the oldest event and returns the cookie of its completion queue. Never waits.
    ///
    /// The queue counts the event as unacknowledged until [`Cq::ack_events`](crate::Cq::ack_events).
    #[allow(clippy::should_implement_trait, reason = "an iterator would look finished between events")]
    pub fn next(&self) -> Option<u64> {
        self.handle.engine.check().ok()?;
        let ring = self.handle.channel.take()?;
        ring.note_event_fetched();
        Some(ring.cookie())
    }

    /// Destroys it.
    ///
    /// # Errors
    /// [`Error::Busy`] while completion queues use it.
    pub fn destroy(&self) -> Result<(), Error> {
        self.handle.engine.check()?;
        self.handle.channel.users().close(CqChannel::WHAT)
    }
}
