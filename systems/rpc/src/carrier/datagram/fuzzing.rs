//! Packets of a peer that knows the token and follows no rule, against both ends of a session.

use std::time::{Duration, Instant};

use crate::carrier::datagram::packet::RpcPacketHeader;
use crate::carrier::datagram::testing::TestLink;
use crate::carrier::datagram::{DatagramClient, DatagramServer, DatagramSetup, PacketCut, PacketEnd};
use crate::frame::{FrameHeader, RpcKind};

const CREDITS: u32 = 6;

/// Takes `bytes` for packets, each behind its length. Both ends get each of them. The rules: headers that decode encode to
/// the same, messages are as long as they say, and no credit is lost or doubled.
pub(crate) fn hostile_packets(mut bytes: &[u8]) {
    let now = Instant::now();
    let ours = PacketEnd { session: 1, token: 2 };
    let setup = DatagramSetup { credits: CREDITS, ..DatagramSetup::new(3, PacketCut::new(64, 4096), ours, ours) };
    let mut ends = HostileRun {
        client: DatagramClient::new(setup),
        server: DatagramServer::new(setup),
        link: TestLink { room: usize::MAX, ..TestLink::default() },
        body: Vec::new(),
        now,
    };
    for slot in 0..3 {
        ends.call(slot, 1);
    }
    while let Some((len_bytes, rest)) = bytes.split_first() {
        let (packet, rest) = rest.split_at(rest.len().min(usize::from(*len_bytes)));
        bytes = rest;
        ends.deliver(packet);
    }
}

struct HostileRun {
    client: DatagramClient,
    server: DatagramServer,
    link: TestLink,
    body: Vec<u8>,
    now: Instant,
}

impl HostileRun {
    fn call(&mut self, slot: u16, number: u32) {
        let body = vec![0; usize::from(slot) * 100];
        let header = FrameHeader { body_bytes: body.len() as u32, ..FrameHeader::bare(RpcKind::Request, slot, number) };
        self.client.send(&mut self.link, &header, &body, self.now).expect("the slot is free");
    }

    fn deliver(&mut self, packet: &[u8]) {
        if let Some((header, payload)) = RpcPacketHeader::split(packet) {
            assert_eq!([&header.encode()[..], payload].concat(), packet);
        }
        // The rest of the packet is hostile, but its end is right.
        let packet = [&1u32.to_le_bytes()[..], &2u32.to_le_bytes(), packet].concat();
        self.now += Duration::from_millis(2);
        self.client.on_datagram(&packet, self.now);
        self.server.on_datagram(&packet, self.now);
        self.client.tick(self.now);
        self.client.pump(&mut self.link, self.now);
        self.server.pump(&mut self.link);
        assert!(self.client.credits_free() <= CREDITS);
        while let Some(header) = self.client.receive(&mut self.body) {
            assert_eq!(header.body_bytes as usize, self.body.len());
            self.call(header.slot, header.number.wrapping_add(1));
        }
        while let Some(header) = self.server.receive(&mut self.body) {
            assert_eq!(header.body_bytes as usize, self.body.len());
            let reply = FrameHeader { kind: RpcKind::Reply, ..header };
            self.server.send(&mut self.link, &reply, &self.body, self.now);
        }
        self.link.datagrams.clear();
    }
}
