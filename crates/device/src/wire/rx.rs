//! The receive side of one socket: its batches, and when it need not be polled.

use std::time::Duration;

use transport::Time;
use udp::RxBatch;

use crate::wire::packets::InboundFlow;

/// The number of datagrams that one call receives at most, while they are small.
const SMALL_BATCH: usize = 16;
/// From this mean size on, datagrams are received one by one. The first is answered before the next is copied, and the
/// buffer stays in the cache.
const LARGE_BYTES: u64 = 8 << 10;

/// After so many polls that found nothing a socket is quiet. A quiet socket is not polled for this time.
const QUIET_POLLS: u32 = 16;
const QUIET_TIME: Duration = Duration::from_micros(20);

/// See the module. It is behind a lock: only one thread at a time receives from a socket.
pub(crate) struct RxSide {
    small: RxBatch,
    large: RxBatch,
    is_large: bool,
    discarded: u64,
    /// Steps since the timers ran.
    pub(crate) since_timers: u32,
    /// Polls of the socket in a row that found nothing.
    empty_polls: u32,
    last_poll: Time,
    /// The flow of the last datagram: most of the time the next one belongs to it.
    last_flow: Option<InboundFlow>,
}

impl RxSide {
    pub(crate) fn new() -> RxSide {
        RxSide {
            small: RxBatch::new(SMALL_BATCH),
            large: RxBatch::new(1),
            is_large: false,
            discarded: 0,
            since_timers: 0,
            empty_polls: 0,
            last_poll: Time(0),
            last_flow: None,
        }
    }

    /// The batch to receive into, and the flow of the last datagram.
    pub(crate) fn batch(&mut self) -> (&mut RxBatch, &mut Option<InboundFlow>) {
        (if self.is_large { &mut self.large } else { &mut self.small }, &mut self.last_flow)
    }

    /// Notes how many bytes a batch of datagrams had.
    pub(crate) fn note_batch(&mut self, bytes: u64, datagrams: u64) {
        debug_assert!(datagrams > 0, "an empty batch is no batch");
        self.is_large = bytes / datagrams >= LARGE_BYTES;
    }

    /// Whether the socket need not be polled in this step. A frame costs a hundredth of a system call, so with peers on
    /// this host a quiet socket is polled more rarely.
    #[inline]
    pub(crate) fn may_wait(&self, framed: bool, now: Time) -> bool {
        (framed || self.empty_polls >= QUIET_POLLS) && now.since(self.last_poll) < QUIET_TIME
    }

    /// The next datagrams do not follow the last ones closely.
    pub(crate) fn pause(&mut self) {
        self.small.pause();
    }

    /// Notes a poll of the socket.
    #[inline]
    pub(crate) fn note_poll(&mut self, received: bool, now: Time) {
        self.last_poll = now;
        self.empty_polls = if received { 0 } else { self.empty_polls.saturating_add(1) };
    }

    /// The number of datagrams that the batches have discarded since the last call.
    pub(crate) fn newly_discarded(&mut self) -> u64 {
        let all = self.small.discarded() + self.large.discarded();
        all - std::mem::replace(&mut self.discarded, all)
    }
}
