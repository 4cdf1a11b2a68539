//! The memory and the carrier of a session, by its way.

use longarm::{RemoteKey, ResourceError};

use crate::carrier::{
    Carrier, DatagramCarrier, DatagramSetup, FetchClient, FetchServer, FetchSession, HerdClient, HerdServer,
    HerdSession, ImmediateCarrier, PacketCut, PacketEnd, READ_ABOVE_BYTES, RING_START_BYTES, RingCarrier,
};
use crate::handshake::SessionSizes;
use crate::verbs::{PortAreas, UNUSED_BYTES, VerbsArea};
use crate::way::Way;

/// The facts that a carrier is made from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CarrierPlan {
    pub(crate) way: Way,
    pub(crate) sizes: SessionSizes,
    /// The number of the session at the server.
    pub(crate) session: u32,
    /// The client sleeps while it waits.
    pub(crate) client_sleeps: bool,
    /// The secrets that datagrams to each side carry.
    pub(crate) client_token: u32,
    pub(crate) server_token: u32,
}

impl CarrierPlan {
    fn ring_bytes(&self) -> u64 {
        RING_START_BYTES + u64::from(self.sizes.ring_bytes)
    }

    fn server_area_bytes(&self) -> u64 {
        match self.way {
            Way::Ring => self.ring_bytes(),
            Way::Immediate | Way::Herd | Way::Fetch => self.sizes.slots_bytes(),
            Way::Datagram => 0,
        }
    }

    fn client_area_bytes(&self) -> u64 {
        match self.way {
            Way::Ring => self.ring_bytes(),
            Way::Immediate | Way::Fetch => self.sizes.slots_bytes(),
            Way::Herd | Way::Datagram => 0,
        }
    }

    /// The area of the server that the client writes.
    pub(crate) fn server_area(&self, areas: &PortAreas, one_region: bool) -> Result<VerbsArea, ResourceError> {
        areas.written(self.server_area_bytes(), one_region)
    }

    /// The area of the client that the server writes.
    pub(crate) fn client_area(&self, areas: &PortAreas, one_region: bool) -> Result<VerbsArea, ResourceError> {
        areas.written(self.client_area_bytes(), one_region)
    }

    /// True if a server's key leads to as much as the client writes.
    pub(crate) fn fits_server(&self, key: &RemoteKey) -> bool {
        key.len_bytes() >= self.server_area_bytes().max(UNUSED_BYTES)
    }

    /// True if a client's key leads to as much as the server writes.
    pub(crate) fn fits_client(&self, key: &RemoteKey) -> bool {
        key.len_bytes() >= self.client_area_bytes().max(UNUSED_BYTES)
    }

    /// The area of the server that the client reads, if the way has one.
    pub(crate) fn read_area(&self, areas: &PortAreas, one_region: bool) -> Result<Option<VerbsArea>, ResourceError> {
        let is_fetch = self.way == Way::Fetch;
        is_fetch.then(|| areas.read(self.sizes.slots_bytes(), one_region)).transpose()
    }

    /// The client's carrier.
    pub(crate) fn client(&self) -> Carrier {
        match self.way {
            Way::Ring => self.ring(),
            Way::Immediate => self.immediate(true),
            Way::Herd => Carrier::HerdClient(HerdClient::new(self.herd())),
            Way::Fetch => Carrier::FetchClient(FetchClient::new(self.fetch())),
            Way::Datagram => {
                let (ours, theirs) = self.packet_ends();
                Carrier::Datagram(Box::new(DatagramCarrier::client(self.datagram(ours, theirs))))
            }
        }
    }

    /// The server's carrier.
    pub(crate) fn server(&self) -> Carrier {
        match self.way {
            Way::Ring => self.ring(),
            Way::Immediate => self.immediate(self.client_sleeps),
            Way::Herd => Carrier::HerdServer(HerdServer::new(self.herd())),
            Way::Fetch => Carrier::FetchServer(FetchServer::new(self.fetch())),
            Way::Datagram => {
                let (theirs, ours) = self.packet_ends();
                Carrier::Datagram(Box::new(DatagramCarrier::server(self.datagram(ours, theirs))))
            }
        }
    }

    fn ring(&self) -> Carrier {
        Carrier::Ring(RingCarrier::new(u64::from(self.sizes.ring_bytes)))
    }

    fn immediate(&self, tells: bool) -> Carrier {
        let (slots, slot_bytes) = (self.sizes.slots, u64::from(self.sizes.slot_bytes));
        Carrier::Immediate(ImmediateCarrier::new(slots, slot_bytes, self.session as u16, tells))
    }

    fn herd(&self) -> HerdSession {
        HerdSession {
            slots: self.sizes.slots,
            slot_bytes: u64::from(self.sizes.slot_bytes),
            datagram_bytes: self.sizes.datagram_bytes as usize,
            token: u64::from(self.client_token),
        }
    }

    fn fetch(&self) -> FetchSession {
        let slot_bytes = u64::from(self.sizes.slot_bytes);
        FetchSession { slots: self.sizes.slots, request_slot_bytes: slot_bytes, reply_slot_bytes: slot_bytes }
    }

    /// The client's end and the server's.
    fn packet_ends(&self) -> (PacketEnd, PacketEnd) {
        let end = |token| PacketEnd { session: self.session, token };
        (end(self.client_token), end(self.server_token))
    }

    fn datagram(&self, ours: PacketEnd, theirs: PacketEnd) -> DatagramSetup {
        let SessionSizes { slots, max_message_bytes, datagram_bytes, .. } = self.sizes;
        let cut = PacketCut::new(datagram_bytes as usize, max_message_bytes as usize);
        DatagramSetup { longest_body_bytes: READ_ABOVE_BYTES, ..DatagramSetup::new(slots, cut, ours, theirs) }
    }
}
