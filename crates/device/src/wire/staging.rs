//! Packets that are about to leave, in the form that segmentation offload wants.
//!
//! Packets are built in place, one after another. Consecutive ones of one flow and one length (the
//! last may be shorter) form a *group*, which the kernel takes as one. Segment `i` of a group gets
//! the IPv4 identification `i`, which the ICRC covers. So the ICRC can be computed as soon as the
//! packet's place in its group is known.

use transport::MAX_PACKET_BYTES;
use udp::{MAX_GSO_BYTES, MAX_SEGMENTS, TxGroup};
use wire::icrc::Sealer;
use wire::{Flow, ICRC_LEN};

use crate::objects::single::SinglePacket;
use crate::wire::packets::DEST_SLOT;
use crate::wire::route::PacketRoute;

/// With this many bytes staged no new group begins: they are sent first, while they are in the processor's cache. Two
/// full groups of any path MTU have more.
const ENOUGH_BYTES: usize = MAX_GSO_BYTES + MAX_GSO_BYTES / 2;
/// The bytes above, one more group, and room for one packet.
const STAGING_BYTES: usize = ENOUGH_BYTES + MAX_GSO_BYTES + ROOM_BYTES;
/// The number of groups that one call sends at most.
pub(crate) const MAX_GROUPS: usize = 32;
/// Room for the longest packet and its ICRC.
const ROOM_BYTES: usize = MAX_PACKET_BYTES + ICRC_LEN;

/// Packets of one flow that leave together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketGroup {
    pub(crate) flow: Flow,
    pub(crate) traffic_class: u8,
    pub(crate) hop_limit: u8,
    pub(crate) interface: u32,
    /// The high byte of the destination QPN: packets of one datagram have the same.
    slot: u8,
    /// No packet can follow: the group is full, or its last packet was shorter.
    closed: bool,
    segments: u16,
    pub(crate) segment_bytes: u16,
    start: usize,
    end: usize,
}

/// See the module. `O` is the right of a queue pair to send.
pub(crate) struct Staging<O> {
    bytes: Vec<u8>,
    used: usize,
    groups: Vec<PacketGroup>,
    packets: u64,
    /// The rights to send for the queue pairs of these packets: no other thread sends for them meanwhile.
    owners: Vec<O>,
}

impl<O> Default for Staging<O> {
    fn default() -> Staging<O> {
        Staging { bytes: Vec::new(), used: 0, groups: Vec::new(), packets: 0, owners: Vec::new() }
    }
}

impl<O> Staging<O> {
    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.owners.is_empty()
    }

    pub(crate) fn packets(&self) -> u64 {
        self.packets
    }

    pub(crate) fn bytes_staged(&self) -> usize {
        self.used
    }

    /// Takes over the right of the queue pair whose packets come next.
    pub(crate) fn begin(&mut self, owner: O) {
        self.owners.push(owner);
    }

    /// The room for one packet; `None` if the staged packets must be sent first.
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
        let at_an_end = || self.groups.last().is_some_and(PacketGroup::is_full);
        self.groups.len() >= MAX_GROUPS || self.used >= ENOUGH_BYTES && at_an_end()
    }

    /// Takes the packet of `len_bytes` that was just written to the [`room`](Staging::room):
    /// finds its group and seals it. `together` is false where segments cannot share a group.
    #[inline]
    pub(crate) fn commit(&mut self, route: &PacketRoute, len_bytes: usize, together: bool) {
        let start = self.used;
        let end = start + len_bytes + ICRC_LEN;
        let slot = self.bytes[start + DEST_SLOT];
        let index = match self.groups.last_mut() {
            Some(group) if together && group.admits(route, slot, end - start) => group.extend(end),
            _ => {
                self.groups.push(PacketGroup::new(route, slot, start, end));
                0
            }
        };
        self.seal(&route.sealer, index, len_bytes);
        self.used = end;
        self.packets += 1;
    }

    /// Commits the packet of `len_bytes` at byte `start` once more.
    pub(crate) fn commit_again(&mut self, start: usize, route: &PacketRoute, len_bytes: usize, together: bool) {
        self.make_room(len_bytes);
        self.bytes.copy_within(start..start + len_bytes, self.used);
        self.commit(route, len_bytes, together);
    }

    /// A copy of the packet of `len_bytes` in the [`room`](Staging::room), to travel alone. It is not staged.
    pub(crate) fn take_out(&mut self, route: &PacketRoute, len_bytes: usize) -> SinglePacket {
        let (start, end) = (self.used, self.used + len_bytes + ICRC_LEN);
        self.seal(&route.sealer, 0, len_bytes);
        SinglePacket::copy_of(&PacketGroup::new(route, self.bytes[start + DEST_SLOT], start, end).as_sent(&self.bytes))
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
        debug_assert!(end <= self.bytes.len(), "there is room by now");
        self.bytes[start..end].copy_from_slice(&packet.bytes);
        self.groups.push(PacketGroup::alone(&packet.to_send(), start));
        self.used = end;
        self.packets += 1;
    }

    /// Makes room beyond the usual bounds: injected faults may add packets to a full staging.
    fn make_room(&mut self, len_bytes: usize) {
        let least = self.used + len_bytes + ROOM_BYTES;
        if self.bytes.len() < least {
            self.bytes.resize(least, 0);
        }
    }

    /// The number of groups.
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
    pub(crate) fn groups(&self) -> impl Iterator<Item = TxGroup<'_>> {
        self.groups.iter().map(|group| group.as_sent(&self.bytes))
    }

    /// Forgets the packets, which have left, and returns the rights to send.
    pub(crate) fn clear(&mut self) -> std::vec::Drain<'_, O> {
        self.used = 0;
        self.packets = 0;
        self.groups.clear();
        self.owners.drain(..)
    }
}

impl PacketGroup {
    fn new(route: &PacketRoute, slot: u8, start: usize, end: usize) -> PacketGroup {
        PacketGroup {
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
    fn alone(packet: &TxGroup<'_>, start: usize) -> PacketGroup {
        let TxGroup { flow, traffic_class, hop_limit, interface, segment_bytes, bytes } = *packet;
        let end = start + bytes.len();
        let slot = bytes.get(DEST_SLOT).copied().unwrap_or_default();
        PacketGroup {
            flow,
            traffic_class,
            hop_limit,
            interface,
            slot,
            closed: true,
            segments: 1,
            segment_bytes,
            start,
            end,
        }
    }

    /// Whether no packet of the group's length may follow.
    fn is_full(&self) -> bool {
        self.closed || self.end - self.start + usize::from(self.segment_bytes) > MAX_GSO_BYTES
    }

    /// Whether a packet of `len_bytes` may follow.
    #[inline]
    fn admits(&self, route: &PacketRoute, slot: u8, len_bytes: usize) -> bool {
        !self.closed
            && len_bytes <= usize::from(self.segment_bytes)
            && self.end - self.start + len_bytes <= MAX_GSO_BYTES
            && self.slot == slot
            && self.flow == *route.flow()
            && self.traffic_class == route.traffic_class()
            && self.hop_limit == route.hop_limit()
            && self.interface == route.interface
    }

    /// Adds the packet that ends at `end`; returns its index.
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
