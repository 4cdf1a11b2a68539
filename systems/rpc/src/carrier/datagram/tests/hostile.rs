//! Packets of enemies: counted, and nothing else.

use std::time::Instant;

use proptest::prelude::*;

use crate::carrier::datagram::fuzzing::hostile_packets;
use crate::carrier::datagram::packet::{RpcPacketHeader, RpcPacketKind};
use crate::carrier::datagram::testing::TestLink;
use crate::carrier::datagram::tests::network::PacketFaults;
use crate::carrier::datagram::tests::world::{Sizes, World, setups};
use crate::carrier::datagram::{DatagramClient, DatagramServer, DatagramSetup};
use crate::frame::{FrameHeader, RpcKind};

const CREDITS: u32 = 8;

fn ends() -> (DatagramSetup, DatagramSetup) {
    setups(4, CREDITS, 128)
}

/// A packet to an end, of someone who knows its token.
fn packet(to: &DatagramSetup, kind: RpcPacketKind, slot: u8, number: u32, index: u16, payload: &[u8]) -> Vec<u8> {
    let header = RpcPacketHeader { to: to.ours, number, slot, kind, index };
    [&header.encode(), payload].concat()
}

fn frame(kind: RpcKind, slot: u16, number: u32, body_bytes: usize) -> FrameHeader {
    FrameHeader { body_bytes: body_bytes as u32, ..FrameHeader::bare(kind, slot, number) }
}

#[test]
fn packets_without_the_token_or_for_another_session_are_foreign() {
    let mut server = DatagramServer::new(ends().1);
    let good = packet(&ends().1, RpcPacketKind::Request, 0, 1, 0, &frame(RpcKind::Request, 0, 1, 0).encode());
    for at in 0..8 {
        let mut bad = good.clone();
        bad[at] ^= 1;
        server.on_datagram(&bad, Instant::now());
    }
    assert_eq!(server.counters().foreign, 8);
    assert!(server.receive(&mut Vec::new()).is_none());
    server.on_datagram(&good, Instant::now());
    assert!(server.receive(&mut Vec::new()).is_some());
}

#[test]
fn the_server_drops_malformed_packets_and_goes_on() {
    let (setup, now) = (ends().1, Instant::now());
    let mut server = DatagramServer::new(setup);
    let first = frame(RpcKind::Request, 0, 1, 200).encode();
    let whole = [&first[..], &[1; 88]].concat();
    let bad = [
        vec![],
        packet(&setup, RpcPacketKind::Request, 4, 1, 0, &whole), // No such slot.
        packet(&setup, RpcPacketKind::Request, 0, 1, 0, &whole[..50]), // Too short.
        packet(&setup, RpcPacketKind::Request, 1, 1, 0, &whole), // Another slot's frame.
        packet(&setup, RpcPacketKind::Request, 0, 1, 0, &frame(RpcKind::Reply, 0, 1, 0).encode()),
        packet(&setup, RpcPacketKind::Request, 0, 1, 0, &frame(RpcKind::Request, 0, 1, 1 << 30).encode()),
        packet(&setup, RpcPacketKind::Reply, 0, 0, 0, &[]),
        packet(&setup, RpcPacketKind::Pull, 0, 0, 1, &[1]),
    ];
    for packet in &bad {
        server.on_datagram(packet, now);
    }
    assert_eq!(server.counters().malformed, bad.len() as u64);
    server.on_datagram(&packet(&setup, RpcPacketKind::Request, 0, 1, 0, &whole), now);
    // Behind the end, too long, a second request in the same slot.
    server.on_datagram(&packet(&setup, RpcPacketKind::Request, 0, 1, 3, &[0; 1]), now);
    server.on_datagram(&packet(&setup, RpcPacketKind::Request, 0, 1, 1, &[0; 113]), now);
    server.on_datagram(&packet(&setup, RpcPacketKind::Request, 0, 2, 0, &whole), now);
    assert_eq!(server.counters().malformed, bad.len() as u64 + 3);
    server.on_datagram(&packet(&setup, RpcPacketKind::Request, 0, 1, 1, &[2; 112]), now);
    let mut body = Vec::new();
    assert_eq!(server.receive(&mut body).map(|header| header.body_bytes), Some(200));
    assert_eq!(body, [vec![1; 88], vec![2; 112]].concat());
}

#[test]
fn answers_to_packets_that_were_never_sent_bring_no_credits() {
    let (setup, now) = (ends().0, Instant::now());
    let mut client = DatagramClient::new(setup);
    let mut link = TestLink { room: usize::MAX, ..Default::default() };
    client.send(&mut link, &frame(RpcKind::Request, 0, 1, 2000), &[0; 2000], now).expect("a free slot");
    assert_eq!((client.credits_free(), link.datagrams.len()), (0, 8));
    for index in [8, 9, 17, 18, u16::MAX] {
        client.on_datagram(&packet(&setup, RpcPacketKind::Credit, 0, 1, index, &[]), now);
        client.on_datagram(&packet(&setup, RpcPacketKind::Reply, 0, 1, index, &[]), now);
        client.on_datagram(&packet(&setup, RpcPacketKind::Running, 0, 1, index, &[]), now);
    }
    assert_eq!((client.counters().malformed, client.credits_free()), (15, 0));
    client.on_datagram(&packet(&setup, RpcPacketKind::Credit, 0, 1, 2, &[]), now);
    client.on_datagram(&packet(&setup, RpcPacketKind::Credit, 0, 1, 2, &[]), now);
    assert_eq!((client.counters().stale, client.credits_free()), (1, 3), "three parts have arrived, told once");
}

#[test]
fn a_flood_of_repeated_parts_is_bounded() {
    let (setup, now) = (ends().1, Instant::now());
    let mut server = DatagramServer::new(setup);
    let first = [&frame(RpcKind::Request, 0, 1, 200).encode()[..], &[1; 88]].concat();
    for _ in 0..1000 {
        server.on_datagram(&packet(&setup, RpcPacketKind::Request, 0, 1, 0, &first), now);
    }
    let mut link = TestLink { room: usize::MAX, ..Default::default() };
    server.pump(&mut link);
    assert_eq!(link.datagrams.len(), 20, "two per credit, and one per slot");
    assert_eq!(server.counters().flood, 980);
}

/// Packets that look nearly right.
fn any_packet() -> impl Strategy<Value = (RpcPacketHeader, Vec<u8>, bool)> {
    let kinds = prop::sample::select(vec![
        RpcPacketKind::Request,
        RpcPacketKind::Credit,
        RpcPacketKind::Pull,
        RpcPacketKind::Reply,
        RpcPacketKind::Running,
        RpcPacketKind::Release,
    ]);
    let header = (kinds, 0..5u8, 0..4u32, 0..20u16);
    (header, 0..2000usize, any::<bool>(), any::<bool>(), 1..6u8).prop_map(
        |((kind, slot, number, index), body_bytes, has_frame, to_server, frame_kind)| {
            let to = if to_server { ends().1.ours } else { ends().0.ours };
            let mut payload = vec![0x55; body_bytes.min(112)];
            if has_frame {
                let mut head = frame(RpcKind::Request, u16::from(slot), number, body_bytes).encode();
                head[6] = frame_kind;
                payload = [&head[..], &vec![0x55; body_bytes.min(88)]].concat();
            }
            (RpcPacketHeader { to, number, slot, kind, index }, payload, to_server)
        },
    )
}

proptest! {
    #[test]
    fn any_bytes_change_nothing(packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..64), 0..20)) {
        let mut world = World::new(ends(), 1, PacketFaults::default());
        world.start(Sizes { request: 300, reply: 300 });
        for packet in &packets {
            world.client.on_datagram(packet, world.now);
            world.server.on_datagram(packet, world.now);
        }
        world.finish();
        let (client, server) = world.counters();
        prop_assert_eq!(client.malformed + client.foreign, packets.len() as u64);
        prop_assert_eq!(server.malformed + server.foreign, packets.len() as u64);
    }

    #[test]
    fn the_fuzz_targets_rules_hold(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        hostile_packets(&bytes);
    }

    /// A peer that knows the token may spoil its own calls, and nothing else.
    #[test]
    fn a_hostile_peer_never_breaks_the_rules_of_credits(
        packets in prop::collection::vec(any_packet(), 0..200),
    ) {
        let (setups, mut now) = (ends(), Instant::now());
        let (mut client, mut server) = (DatagramClient::new(setups.0), DatagramServer::new(setups.1));
        let mut link = TestLink { room: usize::MAX, ..Default::default() };
        let mut body = Vec::new();
        let mut numbers = [1u32; 4];
        for (slot, number) in numbers.iter().enumerate() {
            let header = frame(RpcKind::Request, slot as u16, *number, slot * 300);
            client.send(&mut link, &header, &vec![0; slot * 300], now).expect("a free slot");
        }
        for (header, payload, to_server) in packets {
            now += setups.0.shortest_timeout / 3;
            let bytes = [&header.encode()[..], &payload].concat();
            if to_server {
                server.on_datagram(&bytes, now);
                server.pump(&mut link);
            } else {
                client.on_datagram(&bytes, now);
                client.tick(now);
                client.pump(&mut link, now);
            }
            prop_assert!(client.credits_free() <= CREDITS);
            while let Some(reply) = client.receive(&mut body) {
                prop_assert_eq!(reply.body_bytes as usize, body.len());
                prop_assert_eq!(reply.number, numbers[usize::from(reply.slot)]);
                numbers[usize::from(reply.slot)] += 1;
                let next = frame(RpcKind::Request, reply.slot, reply.number + 1, 500);
                client.send(&mut link, &next, &[0; 500], now).expect("a free slot");
            }
            while let Some(request) = server.receive(&mut body) {
                prop_assert_eq!(request.body_bytes as usize, body.len());
                let reply = frame(RpcKind::Reply, request.slot, request.number, 700);
                server.send(&mut link, &reply, &[0; 700], now);
            }
        }
    }
}
