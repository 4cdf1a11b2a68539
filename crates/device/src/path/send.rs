//! Giving staged packets to the system, in groups or, those that fault injection had kept, one by one.

use smallvec::SmallVec;
use udp::{SendError, TxGroup};

use crate::clock;
use crate::engine::Engine;
use crate::engine::scratch::Scratch;
use crate::objects::counters::Counter;
use crate::objects::single::SinglePacket;
use crate::wire::staging::{MAX_GROUPS, Staging};

impl Engine {
    /// Sends what is staged, and lets others send for the same queue pairs again.
    pub(crate) fn flush(&self, scratch: &mut Scratch) {
        if scratch.staging.packets() > 0 {
            self.send_groups(&scratch.staging);
        }
        for token in scratch.staging.clear() {
            if let Some(entry) = token.give_back() {
                scratch.touched.push_back(entry);
            }
        }
    }

    fn send_groups(&self, staging: &Staging) {
        match staging.lone_group() {
            Some(group) => self.give(&[group]),
            None => {
                self.give(&staging.groups().map(|(_, group)| group).collect::<SmallVec<[TxGroup<'_>; MAX_GROUPS]>>())
            }
        }
        self.count_sent(staging.len() as u64, staging.packets(), staging.bytes_staged() as u64);
    }

    #[inline]
    fn give(&self, groups: &[TxGroup<'_>]) {
        if self.capture.is_active() {
            self.capture_groups(groups);
        }
        self.tx.send(groups, |index, error| self.not_sent(&groups[index], &error));
    }

    fn count_sent(&self, groups: u64, packets: u64, bytes: u64) {
        self.counters.add(Counter::TxCalls, 1);
        self.counters.add(Counter::TxGroups, groups);
        self.counters.add(Counter::TxPackets, packets);
        self.counters.add(Counter::TxBytes, bytes);
    }

    /// A group that the system did not take. Where segmentation is refused its packets go
    /// out one by one; any other failure is a loss on the way.
    #[cold]
    fn not_sent(&self, group: &TxGroup<'_>, error: &SendError) {
        if let SendError::SegmentationRefused = error {
            self.counters.add(Counter::TxSegmentationRefused, 1);
            self.send_single(&SinglePacket::split(group).collect::<Vec<_>>());
            return;
        }
        self.counters.unsent(error, group.segments() as u64);
        log::debug!("packets to {} were not sent: {error}", group.flow.destination);
    }

    /// Sends packets that fault injection had kept and whose time has come.
    pub(crate) fn release_held(&self) -> bool {
        if self.faults.earliest() == transport::Time::NEVER {
            return false;
        }
        let out = self.faults.take_due(clock::now());
        self.send_single(&out);
        !out.is_empty()
    }

    /// Sends packets one by one.
    pub(crate) fn send_single(&self, packets: &[SinglePacket]) {
        for some in packets.chunks(MAX_GROUPS) {
            let groups: SmallVec<[TxGroup<'_>; MAX_GROUPS]> = some.iter().map(SinglePacket::to_send).collect();
            if self.capture.is_active() {
                self.capture_groups(&groups);
            }
            self.tx.send(&groups, |index, error| self.counters.unsent(&error, groups[index].segments() as u64));
            let bytes = some.iter().map(|packet| packet.bytes.len() as u64).sum();
            self.count_sent(groups.len() as u64, groups.len() as u64, bytes);
        }
    }

    #[cold]
    fn capture_groups(&self, groups: &[TxGroup<'_>]) {
        self.capture.sent(groups, &self.counters);
    }
}
