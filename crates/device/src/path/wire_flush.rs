//! The wire path: from staged packets to the sockets, in groups or one by one.

use std::sync::Arc;

use smallvec::SmallVec;
use transport::Time;
use udp::{SendError, TxGroup};

use crate::clock;
use crate::objects::counters::EngineCounter;
use crate::objects::single::SinglePacket;
use crate::path::wire::WirePath;
use crate::qp::entry::QpEntry;
use crate::qp::services::QpServices;
use crate::wire::staging::{MAX_GROUPS, Staging};

/// The right to send for a queue pair, which keeps its packets in order. Dropping it gives it back, also after a panic.
pub(crate) struct SendRight(Option<Arc<QpEntry>>);

impl SendRight {
    /// The caller has [taken](crate::qp::state::QueueState::take_send_right) the right of `entry`.
    pub(crate) fn new(entry: Arc<QpEntry>) -> SendRight {
        debug_assert!(entry.state().is_sending(), "the caller has taken the right");
        SendRight(Some(entry))
    }

    /// Gives the right back. Returns the queue pair if another thread wanted to send for it meanwhile.
    pub(crate) fn give_back(mut self) -> Option<Arc<QpEntry>> {
        self.0.take().filter(|entry| entry.state().release_send_right())
    }
}

impl Drop for SendRight {
    fn drop(&mut self) {
        if let Some(entry) = self.0.take() {
            entry.state().release_send_right();
        }
    }
}

impl WirePath {
    /// Sends the staged packets. Hands the queue pairs to `again` that another thread wanted to send for meanwhile.
    pub(crate) fn flush(
        &self,
        services: &QpServices,
        staging: &mut Staging<SendRight>,
        mut again: impl FnMut(Arc<QpEntry>),
    ) {
        if staging.packets() > 0 {
            self.send_staged(services, staging);
        }
        staging.clear().filter_map(SendRight::give_back).for_each(&mut again);
    }

    fn send_staged(&self, services: &QpServices, staging: &Staging<SendRight>) {
        match staging.lone_group() {
            Some(group) => self.send_groups(services, &[group]),
            None => self.send_groups(services, &staging.groups().collect::<SmallVec<[TxGroup<'_>; MAX_GROUPS]>>()),
        }
        count_sent(services, staging.len() as u64, staging.packets(), staging.bytes_staged() as u64);
    }

    #[inline]
    fn send_groups(&self, services: &QpServices, groups: &[TxGroup<'_>]) {
        if services.capture.is_active() {
            capture_groups(services, groups);
        }
        self.tx.send(groups, |index, error| self.not_sent(services, &groups[index], &error));
    }

    /// Handles a group that the system did not take. Where it refuses segmentation, the packets go out one by one. Any
    /// other failure is a loss on the network.
    #[cold]
    fn not_sent(&self, services: &QpServices, group: &TxGroup<'_>, error: &SendError) {
        if let SendError::SegmentationRefused = error {
            services.counters.add(EngineCounter::TxSegmentationRefused, 1);
            self.send_single(services, &SinglePacket::split(group).collect::<Vec<_>>());
            return;
        }
        services.counters.unsent(error, group.segments() as u64);
        log::debug!("packets to {} were not sent: {error}", group.flow.destination);
    }

    /// Sends packets that fault injection has held and whose time has come. Whether there were any.
    pub(crate) fn release_held(&self, services: &QpServices) -> bool {
        if services.faults.earliest() == Time::NEVER {
            return false;
        }
        let out = services.faults.take_due(clock::now());
        self.send_single(services, &out);
        !out.is_empty()
    }

    fn send_single(&self, services: &QpServices, packets: &[SinglePacket]) {
        let counters = &services.counters;
        for some in packets.chunks(MAX_GROUPS) {
            let groups: SmallVec<[TxGroup<'_>; MAX_GROUPS]> = some.iter().map(SinglePacket::to_send).collect();
            if services.capture.is_active() {
                capture_groups(services, &groups);
            }
            self.tx.send(&groups, |index, error| counters.unsent(&error, groups[index].segments() as u64));
            let bytes = some.iter().map(|packet| packet.bytes.len() as u64).sum();
            count_sent(services, groups.len() as u64, groups.len() as u64, bytes);
        }
    }
}

fn count_sent(services: &QpServices, groups: u64, packets: u64, bytes: u64) {
    services.counters.add(EngineCounter::TxCalls, 1);
    services.counters.add(EngineCounter::TxGroups, groups);
    services.counters.add(EngineCounter::TxPackets, packets);
    services.counters.add(EngineCounter::TxBytes, bytes);
}

#[cold]
fn capture_groups(services: &QpServices, groups: &[TxGroup<'_>]) {
    services.capture.sent(groups, &services.counters);
}
