//! Packets that are about to leave, in the form that segmentation offload wants.
//!
//! Packets are built in place, one after another. Consecutive ones of one flow and one
//! length (the last may be shorter) form a *group*, which the kernel takes as one. Segment
//! `i` of a group gets the IPv4 identification `i`, so the ICRC, which covers it, can be
//! computed as soon as the packet's place in its group is known.

use std::sync::Arc;

use transport::MAX_PACKET_BYTES;
use udp::{MAX_GSO_BYTES, MAX_SEGMENTS, TxGroup};
use wire::icrc::Sealer;
use wire::{Flow, ICRC_LEN};

use crate::objects::single::SinglePacket;
use crate::path::pump::DEST_SLOT;
use crate::qp::entry::QpEntry;
use crate::wire::route::Route;

/// With so many bytes staged no new group is begun: they are sent first, while they are in
/// the processor's cache. Two full groups of any path MTU have more.
const ENOUGH_BYTES: usize = MAX_GSO_BYTES + MAX_GSO_BYTES / 2;
/// Enough, one more group, and room beyond.
const STAGING_BYTES: usize = ENOUGH_BYTES + MAX_GSO_BYTES + ROOM_BYTES;
/// Groups that go out with one call at most.
pub(crate) const MAX_GROUPS: usize = 32;
/// Room for the longest packet and its ICRC.
const ROOM_BYTES: usize = MAX_PACKET_BYTES + ICRC_LEN;

/// Packets of one flow that leave together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    pub(crate) flow: Flow,
    pub(crate) traffic_class: u8,
    pub(crate) hop_limit: u8,
    pub(crate) interface: u32,
    /// High byte of the destination QPN: what may travel as one datagram at the receiver.
    slot: u8,
    /// Nothing can follow: full, or its last packet was shorter.
    closed: bool,
    segments: u16,
    pub(crate) segment_bytes: u16,
    start: usize,
    end: usize,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Staging {
    bytes: Vec<u8>,
    used: usize,
    groups: Vec<Group>,
    packets: u64,
    /// Those whose packets these are; nobody else sends for them meanwhile.
    owners: Vec<TxToken>,
}

/// The right to send for a queue pair, which keeps its packets in order.
pub(crate) struct TxToken(Option<Arc<QpEntry>>);

impl TxToken {
    /// `entry` has just been [taken](QpEntry::take_tx).
    pub(crate) fn new(entry: Arc<QpEntry>) -> TxToken {
        TxToken(Some(entry))
    }

    /// Gives the right back. If somebody else wanted to send meanwhile, here is for whom.
    pub(crate) fn give_back(mut self) -> Option<Arc<QpEntry>> {
        self.0.take().filter(|entry| entry.release_tx())
    }
}

/// After a panic nobody shall wait for the packets that were not sent.
impl Drop for TxToken {
    fn drop(&mut self) {
        if let Some(entry) = self.0.take() {
            entry.release_tx();
        }
    }
}

impl Staging {
    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.owners.is_empty()
    }

    pub(crate) fn packets(&self) -> u64 {
        self.packets
    }

    pub(crate) fn bytes_staged(&self) -> usize {
        self.used
    }

    /// Notes whose packets come next.
    pub(crate) fn begin(&mut self, token: TxToken) {
        self.owners.push(token);
    }

    /// Room for one packet; `None` when what is there must be sent first.
    #[inline]
    pub(crate) fn room(&mut self) -> Option<&mut [u8]> {
        if self.is_enough() {
            return None;
        }
        if self.bytes.is_empty() {
            self.bytes = vec![0; STAGING_BYTES];
        }
        self.bytes.get_mut(self.used..self.used + ROOM_BYTES)
    }

    fn is_enough(&self) -> bool {
        let at_an_end = || self.groups.last().is_some_and(Group::is_full);
        self.groups.len() >= MAX_GROUPS || self.used >= ENOUGH_BYTES && at_an_end()
    }

    /// Takes the packet of `len_bytes` that was just written to the [`room`](Staging::room):
    /// finds its group and seals it. `together` is false where segments cannot share a group.
    #[inline]
    pub(crate) fn commit(&mut self, route: &Route, len_bytes: usize, together: bool) {
        let start = self.used;
        let end = start + len_bytes + ICRC_LEN;
        let slot = self.bytes[start + DEST_SLOT];
        let index = match self.groups.last_mut() {
            Some(group) if together && group.admits(route, slot, end - start) => group.extend(end),
            _ => {
                self.groups.push(Group::new(route, slot, start, end));
                0
            }
        };
        self.seal(&route.sealer, index, len_bytes);
        self.used = end;
        self.packets += 1;
    }

    /// Commits the packet of `len_bytes` that was written at byte `start` once more.
    pub(crate) fn commit_again(&mut self, start: usize, route: &Route, len_bytes: usize, together: bool) {
        self.make_room(len_bytes);
        self.bytes.copy_within(start..start + len_bytes, self.used);
        self.commit(route, len_bytes, together);
    }

    /// The packet of `len_bytes` in the [`room`](Staging::room), which is not staged, as it is on its own.
    pub(crate) fn take_out(&mut self, route: &Route, len_bytes: usize) -> SinglePacket {
        let (start, end) = (self.used, self.used + len_bytes + ICRC_LEN);
        self.seal(&route.sealer, 0, len_bytes);
        SinglePacket::copy_of(&Group::new(route, self.bytes[start + DEST_SLOT], start, end).as_sent(&self.bytes))
    }

    /// Writes the ICRC of the packet in the room.
    #[inline]
    fn seal(&mut self, sealer: &Sealer, identification: u16, len_bytes: usize) {
        let (packet, rest) = self.bytes[self.used..self.used + len_bytes + ICRC_LEN].split_at_mut(len_bytes);
        rest.copy_from_slice(&sealer.compute(identification, packet).to_le_bytes());
    }

    /// Adds a packet that travels alone.
    pub(crate) fn push(&mut self, packet: &SinglePacket) {
        self.make_room(packet.bytes.len());
        let (start, end) = (self.used, self.used + packet.bytes.len());
        self.bytes[start..end].copy_from_slice(&packet.bytes);
        self.groups.push(Group::alone(&packet.to_send(), start));
        self.used = end;
        self.packets += 1;
    }

    /// Injected faults may add packets where a full staging has no room for them.
    fn make_room(&mut self, len_bytes: usize) {
        let least = self.used + len_bytes + ROOM_BYTES;
        if self.bytes.len() < least {
            self.bytes.resize(least, 0);
        }
    }

    /// How many groups there are.
    pub(crate) fn len(&self) -> usize {
        self.groups.len()
    }

    /// The group as the socket takes it, if there is just one.
    #[inline]
    pub(crate) fn lone_group(&self) -> Option<TxGroup<'_>> {
        match &*self.groups {
            [group] => Some(group.as_sent(&self.bytes)),
            _ => None,
        }
    }

    /// The groups as the socket takes them.
    pub(crate) fn groups(&self) -> impl Iterator<Item = (&Group, TxGroup<'_>)> {
        self.groups.iter().map(|group| (group, group.as_sent(&self.bytes)))
    }

    /// Forgets the packets, which have left, and gives those whose they were.
    pub(crate) fn clear(&mut self) -> std::vec::Drain<'_, TxToken> {
        self.used = 0;
        self.packets = 0;
        self.groups.clear();
        self.owners.drain(..)
    }
}

impl Group {
    fn new(route: &Route, slot: u8, start: usize, end: usize) -> Group {
        Group {
            flow: *route.flow(),
            traffic_class: route.traffic_class(),
            hop_limit: route.hop_limit(),
            interface: route.interface,
            slot,
            closed: false,
            segments: 1,
            segment_bytes: (end - start) as u16,
            start,
            end,
        }
    }

    /// A group of one packet that none may follow.
    fn alone(packet: &TxGroup<'_>, start: usize) -> Group {
        let TxGroup { flow, traffic_class, hop_limit, interface, segment_bytes, bytes } = *packet;
        let end = start + bytes.len();
        let slot = bytes.get(DEST_SLOT).copied().unwrap_or_default();
        Group { flow, traffic_class, hop_limit, interface, slot, closed: true, segments: 1, segment_bytes, start, end }
    }

    /// Whether no packet of the group's own length may follow.
    fn is_full(&self) -> bool {
        self.closed || self.end - self.start + usize::from(self.segment_bytes) > MAX_GSO_BYTES
    }

    /// Whether a packet of `len_bytes` may follow.
    #[inline]
    fn admits(&self, route: &Route, slot: u8, len_bytes: usize) -> bool {
        !self.closed
            && len_bytes <= usize::from(self.segment_bytes)
            && self.end - self.start + len_bytes <= MAX_GSO_BYTES
            && self.slot == slot
            && self.flow == *route.flow()
            && self.traffic_class == route.traffic_class()
            && self.hop_limit == route.hop_limit()
            && self.interface == route.interface
    }

    /// Takes in the packet that ends at `end`; returns its index.
    #[inline]
    fn extend(&mut self, end: usize) -> u16 {
        let index = self.segments;
        let len_bytes = end - self.end;
        self.segments += 1;
        self.end = end;
        self.closed = len_bytes < usize::from(self.segment_bytes) || usize::from(self.segments) == MAX_SEGMENTS;
        index
    }

    fn as_sent<'a>(&self, bytes: &'a [u8]) -> TxGroup<'a> {
        TxGroup {
            flow: self.flow,
            traffic_class: self.traffic_class,
            hop_limit: self.hop_limit,
            interface: self.interface,
            segment_bytes: self.segment_bytes,
            bytes: &bytes[self.start..self.end],
        }
    }
}
