//! The ways to carry messages, each with the memory and the connection that it needs.

use std::time::Duration;

use fastrand::Rng;

use crate::carrier::datagram::{DatagramSetup, PacketCut, PacketEnd, RpcPacketHeader, RpcPacketKind};
use crate::carrier::{
    Carrier, DatagramCarrier, FetchClient, FetchServer, FetchSession, HerdClient, HerdServer, HerdSession,
    ImmediateCarrier, RING_START_BYTES, RingCarrier,
};
use crate::sim::network::AreaSizes;
use crate::sim::pick;

/// A way that the simulator knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimWay {
    /// Rings in each other's memory.
    Ring,
    /// Slots in each other's memory, told by immediate data.
    Immediate,
    /// Requests by WRITEs that may get lost, replies by datagrams.
    Herd,
    /// Requests by WRITEs, replies by READs.
    Fetch,
    /// Datagrams.
    Datagram,
}

impl SimWay {
    /// All ways.
    pub const ALL: [SimWay; 5] = [SimWay::Ring, SimWay::Immediate, SimWay::Herd, SimWay::Fetch, SimWay::Datagram];

    /// Messages may get lost on their way, and are sent again after a time.
    pub(crate) fn is_lossy(self) -> bool {
        matches!(self, SimWay::Herd | SimWay::Datagram)
    }

    /// The way with that name, in lower case.
    pub fn named(name: &str) -> Option<SimWay> {
        SimWay::ALL.into_iter().find(|way| format!("{way:?}").eq_ignore_ascii_case(name))
    }
}

/// The sizes of a session in some way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WayPlan {
    pub(crate) way: SimWay,
    pub(crate) slots: u16,
    ring_bytes: u64,
    slot_bytes: u64,
    reply_slot_bytes: u64,
    mtu_bytes: usize,
    max_datagram_body_bytes: usize,
    shortest_timeout: Duration,
    /// Nobody polls memory: immediate data wakes both ends.
    pub(crate) is_sleepy: bool,
}

/// Both ends of a session in some way.
pub(crate) struct Pairing {
    /// The client's and the server's.
    pub(crate) carriers: [Carrier; 2],
    pub(crate) sizes: [AreaSizes; 2],
    pub(crate) unreliable_writes: bool,
}

impl WayPlan {
    pub(crate) fn draw(way: SimWay, rng: &mut Rng) -> WayPlan {
        let mtu_bytes = pick(rng, &[64, 128, 256, 1024, 4096]);
        let is_sleepy = way == SimWay::Immediate && rng.bool();
        WayPlan {
            way,
            slots: pick(rng, &[1, 2, 3, 8, 32, 64]),
            ring_bytes: 512 * pick(rng, &[1, 2, 3, 8, 64]),
            slot_bytes: pick(rng, &[64, 128, 256, 1024, 4096]),
            reply_slot_bytes: pick(rng, &[64, 128, 256, 264, 512, 4096]),
            mtu_bytes,
            // With more packets, a message needs minutes where a third of them is lost.
            max_datagram_body_bytes: pick(rng, &[100, 1_000, 20_000]).min(20 * mtu_bytes),
            shortest_timeout: Duration::from_micros(pick(rng, &[50, 500, 5_000])),
            is_sleepy,
        }
    }

    /// A new session; `node` is the client's number at its server.
    pub(crate) fn pair(&self, node: u16) -> Pairing {
        let area = |area_bytes| AreaSizes { area_bytes, read_area_bytes: 0 };
        let slots = u64::from(self.slots);
        let (carriers, sizes) = match self.way {
            SimWay::Ring => {
                let carriers = [(); 2].map(|()| Carrier::Ring(RingCarrier::new(self.ring_bytes)));
                (carriers, [area(RING_START_BYTES + self.ring_bytes); 2])
            }
            SimWay::Immediate => {
                let carrier = |tell| ImmediateCarrier::new(self.slots, self.slot_bytes, node, tell);
                ([true, self.is_sleepy].map(carrier).map(Carrier::Immediate), [area(slots * self.slot_bytes); 2])
            }
            SimWay::Herd => {
                let session = self.herd_session(node);
                let server = Carrier::HerdServer(HerdServer::new(session));
                let sizes = [area(0), area(slots * self.slot_bytes)];
                ([Carrier::HerdClient(HerdClient::new(session)), server], sizes)
            }
            SimWay::Fetch => {
                let (request_slot_bytes, reply_slot_bytes) = (self.slot_bytes, self.reply_slot_bytes);
                let session = FetchSession { slots: self.slots, request_slot_bytes, reply_slot_bytes };
                let replies = slots * reply_slot_bytes;
                let at_server = AreaSizes { area_bytes: slots * request_slot_bytes, read_area_bytes: replies };
                let server = Carrier::FetchServer(FetchServer::new(session));
                ([Carrier::FetchClient(FetchClient::new(session)), server], [area(replies), at_server])
            }
            SimWay::Datagram => {
                let [client, server] = [false, true].map(|is_server| self.datagram_setup(node, is_server));
                let carriers = [DatagramCarrier::client(client), DatagramCarrier::server(server)];
                (carriers.map(|carrier| Carrier::Datagram(Box::new(carrier))), [area(0); 2])
            }
        };
        Pairing { carriers, sizes, unreliable_writes: self.way == SimWay::Herd }
    }

    fn herd_session(&self, node: u16) -> HerdSession {
        let (slots, slot_bytes) = (self.slots, self.slot_bytes);
        HerdSession { slots, slot_bytes, datagram_bytes: self.mtu_bytes.max(128), token: 0xabcd_0000 | u64::from(node) }
    }

    fn datagram_setup(&self, node: u16, is_server: bool) -> DatagramSetup {
        let cut = PacketCut::new(self.mtu_bytes, self.max_datagram_body_bytes);
        let (ours, theirs) = (packet_end(node, is_server), packet_end(node, !is_server));
        let shortest_timeout = self.shortest_timeout;
        DatagramSetup { shortest_timeout, ..DatagramSetup::new(self.slots, cut, ours, theirs) }
    }

    /// The beginning of a datagram to an end, by a peer that knows the secrets of the session.
    pub(crate) fn datagram_head(&self, rng: &mut Rng, node: u16, to_server: bool) -> Vec<u8> {
        match self.way {
            SimWay::Herd => self.herd_session(node).token.to_le_bytes().to_vec(),
            SimWay::Datagram => {
                use RpcPacketKind::{Credit, Pull, Release, Reply, Request, Running};
                let header = RpcPacketHeader {
                    to: packet_end(node, to_server),
                    number: pick(rng, &[0, 1, 1, 1, 2, 3, u32::MAX]),
                    slot: pick(rng, &[0, 0, 1, 2, 63, 64, 255]),
                    kind: pick(rng, &[Request, Request, Credit, Pull, Reply, Running, Release]),
                    index: pick(rng, &[0, 0, 0, 1, 2, u16::MAX]),
                };
                header.encode().to_vec()
            }
            SimWay::Ring | SimWay::Immediate | SimWay::Fetch => Vec::new(),
        }
    }
}

fn packet_end(node: u16, is_server: bool) -> PacketEnd {
    PacketEnd { session: u32::from(node), token: 0x5eed_0000 | u32::from(is_server) << 31 | u32::from(node) }
}
