//! Properties of all inputs: no bytes cause a panic, and values survive encoding and decoding.

use core::net::IpAddr;

use longarm_wire::frame;
use longarm_wire::icrc::{self, Check};
use longarm_wire::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Cnp, Cookie, Deth, Extensions, Feth, Flow, Gid, Grh, HeaderSet, Ieth, ImmDt,
    Mark, ObjectEth, Opcode, PKey, Packet, Piggyback, Psn, Qpn, ReplyEth, Reth, Sack, Syndrome, XrcEth, credit_code,
    credit_count,
};
use proptest::array::uniform;
use proptest::collection::vec;
use proptest::prelude::*;

fn bytes(max_len: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..max_len)
}

/// Bytes that begin like a packet, so that they pass the first check.
fn almost_packets() -> impl Strategy<Value = Vec<u8>> {
    let opcodes: Vec<u8> = Opcode::all().map(|opcode| opcode.0).collect();
    let pads = prop_oneof![Just(0), any::<u8>().prop_map(|flags| flags & 0xf0)];
    (prop::sample::select(opcodes), pads, bytes(200)).prop_map(|(opcode, flags, rest)| {
        let mut bytes = vec![opcode, flags];
        bytes.extend_from_slice(&rest);
        bytes
    })
}

fn any_bth() -> impl Strategy<Value = Bth> {
    let flags = any::<(bool, bool, bool, bool, bool, bool)>();
    let numbers = (any::<u16>(), any::<u32>(), any::<u32>());
    let opcodes: Vec<Opcode> = Opcode::all().collect();
    (prop::sample::select(opcodes), flags, numbers).prop_map(|(opcode, flags, numbers)| Bth {
        opcode,
        solicited: flags.0,
        migrated: flags.1,
        pad: 0,
        version: 0,
        pkey: PKey(numbers.0),
        fecn: flags.2,
        becn: flags.3,
        dest_qpn: Qpn::new(numbers.1),
        ack_req: flags.4,
        mark: Mark::from_bits(numbers.0.rotate_left(u32::from(flags.5))),
        psn: Psn::new(numbers.2),
    })
}

/// The headers of an opcode, decoded from arbitrary bytes.
fn extensions_from(headers: HeaderSet, bytes: &[u8; 80]) -> Extensions {
    fn read<const LEN: usize, T>(present: bool, bytes: &[u8; 80], decode: impl Fn(&[u8; LEN]) -> T) -> Option<T> {
        present.then(|| decode(bytes.last_chunk().expect("80 bytes are enough")))
    }
    let has = |header| headers.contains(header);
    Extensions {
        deth: read(has(HeaderSet::DETH), bytes, Deth::decode),
        xrceth: read(has(HeaderSet::XRCETH), bytes, XrcEth::decode),
        feth: read(has(HeaderSet::FETH), bytes, Feth::decode),
        reth: read(has(HeaderSet::RETH), bytes, Reth::decode),
        atomic_eth: read(has(HeaderSet::ATOMIC_ETH), bytes, AtomicEth::decode),
        aeth: read(has(HeaderSet::AETH), bytes, Aeth::decode),
        atomic_ack: read(has(HeaderSet::ATOMIC_ACK), bytes, AtomicAckEth::decode),
        imm: read(has(HeaderSet::IMM), bytes, ImmDt::decode),
        ieth: read(has(HeaderSet::IETH), bytes, Ieth::decode),
        cnp: read(has(HeaderSet::CNP), bytes, Cnp::decode),
        sack: read(has(HeaderSet::SACK), bytes, Sack::decode),
        piggyback: read(has(HeaderSet::PIGGYBACK), bytes, Piggyback::decode),
        cookie: read(has(HeaderSet::COOKIE), bytes, Cookie::decode),
        object: read(has(HeaderSet::OBJECT), bytes, ObjectEth::decode),
        reply: read(has(HeaderSet::REPLY), bytes, ReplyEth::decode),
    }
}

fn any_flow() -> impl Strategy<Value = Flow> {
    let v4 =
        any::<([u8; 4], [u8; 4])>().prop_map(|(source, destination)| (IpAddr::from(source), IpAddr::from(destination)));
    let v6 = any::<([u8; 16], [u8; 16])>()
        .prop_map(|(source, destination)| (IpAddr::from(source), IpAddr::from(destination)));
    (prop_oneof![v4, v6], any::<u16>()).prop_map(|((source, destination), source_port)| Flow {
        source,
        destination,
        source_port,
    })
}

fn use_everything(packet: &Packet<'_>) {
    let headers = packet.extensions();
    assert!(headers.fit(packet.info()));
    assert!(packet.payload().len() <= packet.bytes().len() - Bth::LEN);
    if let Some(aeth) = packet.aeth() {
        let _ = aeth.syndrome.kind();
    }
}

proptest! {
    #[test]
    fn no_bytes_make_the_decoders_panic(bytes in prop_oneof![bytes(200), almost_packets()]) {
        if let Ok(packet) = Packet::parse(&bytes) {
            use_everything(&packet);
        }
        let _ = frame::decode(&bytes);
    }

    #[test]
    fn no_bytes_make_the_icrc_panic(flow in any_flow(), id: u16, bytes in bytes(200)) {
        let _ = icrc::compute(&flow, id, &bytes);
        let _ = icrc::check(&flow, &bytes, id);
    }

    #[test]
    fn packets_survive_the_wire(
        bth in any_bth(),
        header_bytes in uniform::<_, 80>(any::<u8>()),
        payload in bytes(300),
    ) {
        let info = bth.opcode.info().expect("a known opcode");
        let extensions = extensions_from(info.headers, &header_bytes);
        let payload = if info.payload { &payload[..] } else { &[] };
        let mut bytes = Vec::new();
        extensions.encode_packet(&bth, payload, &mut bytes);

        let packet = Packet::parse(&bytes).expect("our own packet");
        let pad = packet.bth().pad;
        prop_assert_eq!(packet.bth(), Bth { pad, ..bth });
        prop_assert_eq!(packet.extensions(), extensions);
        prop_assert_eq!(packet.payload(), payload);
        prop_assert_eq!(bytes.len() % 4, 0);
        prop_assert!(pad < 4);
    }

    #[test]
    fn packets_that_parse_encode_to_the_same_bytes_but_for_reserved_ones(
        mut bytes in almost_packets(),
    ) {
        bytes.truncate(bytes.len() & !3);
        if let Ok(packet) = Packet::parse(&bytes) {
            let mut encoded = Vec::new();
            packet.extensions().encode_packet(&packet.bth(), packet.payload(), &mut encoded);
            let again = Packet::parse(&encoded).expect("our own packet");
            prop_assert_eq!(again.extensions(), packet.extensions());
            prop_assert_eq!(again.payload(), packet.payload());
            prop_assert_eq!(again.bth(), packet.bth());
            prop_assert_eq!(encoded.len(), bytes.len());
        }
    }

    #[test]
    fn bth_decodes_and_encodes_every_bit(bytes in uniform::<_, 12>(any::<u8>())) {
        prop_assert_eq!(Bth::decode(&bytes).encode(), bytes);
    }

    #[test]
    fn headers_decode_and_encode_every_bit_that_is_not_reserved(bytes in uniform::<_, 28>(any::<u8>())) {
        fn first<const LEN: usize>(bytes: &[u8; 28]) -> &[u8; LEN] {
            bytes.first_chunk().expect("28 bytes are enough")
        }
        prop_assert_eq!(&Reth::decode(first(&bytes)).encode(), first(&bytes));
        prop_assert_eq!(&Aeth::decode(first(&bytes)).encode(), first(&bytes));
        prop_assert_eq!(&AtomicEth::decode(&bytes).encode(), &bytes);
        prop_assert_eq!(&AtomicAckEth::decode(first(&bytes)).encode(), first(&bytes));
        prop_assert_eq!(&ImmDt::decode(first(&bytes)).encode(), first(&bytes));
        prop_assert_eq!(&Ieth::decode(first(&bytes)).encode(), first(&bytes));
        let mut expected: [u8; 8] = *first(&bytes);
        expected[4] = 0;
        prop_assert_eq!(Deth::decode(first(&bytes)).encode(), expected);
        let mut expected: [u8; 4] = *first(&bytes);
        expected[0] = 0;
        prop_assert_eq!(XrcEth::decode(first(&bytes)).encode(), expected);
        let expected = [0, 0, 0, bytes[3] & 0x3f];
        prop_assert_eq!(Feth::decode(first(&bytes)).encode(), expected);
    }

    #[test]
    fn frames_survive_the_wire(
        flow in any_flow(), id: u16, tos: u8, ttl: u8, payload in bytes(300),
    ) {
        let mut bytes = Vec::new();
        frame::encode(&flow, id, tos, ttl, &payload, &mut bytes).expect("it fits");
        let frame = frame::decode(&bytes).expect("our own frame");
        prop_assert_eq!(frame.flow.source.to_canonical(), flow.source.to_canonical());
        prop_assert_eq!(frame.flow.destination.to_canonical(), flow.destination.to_canonical());
        prop_assert_eq!(frame.flow.source_port, flow.source_port);
        prop_assert_eq!((frame.tos, frame.ttl), (tos, ttl));
        prop_assert_eq!(frame.identification, if flow.is_ipv4() { id } else { 0 });
        prop_assert_eq!(frame.payload, payload);
    }

    #[test]
    fn the_icrc_tells_the_identification(flow in any_flow(), id: u16, guess: u16, ib in vec(any::<u8>(), 12..300)) {
        let mut bytes = ib.clone();
        bytes.extend_from_slice(&icrc::compute(&flow, id, &ib).to_le_bytes());
        let expected = if id == guess || !flow.is_ipv4() {
            Check::Good
        } else {
            Check::Identification(id)
        };
        prop_assert_eq!(icrc::check(&flow, &bytes, guess), expected);
    }

    #[test]
    fn grhs_survive_the_buffer(flow in any_flow(), class: u8, hops: u8, len in 0usize..5000) {
        let (source, destination) = (Gid::from(flow.source), Gid::from(flow.destination));
        let grh = Grh::new(source, destination, class, hops, len);
        prop_assert_eq!(Grh::decode(&grh.encode()), Some(grh));
    }

    #[test]
    fn no_bytes_make_a_grh_panic(bytes in uniform::<_, 40>(any::<u8>())) {
        let _ = Grh::decode(&bytes);
    }

    #[test]
    fn credits_never_promise_too_much(count: u32) {
        let promised = credit_count(credit_code(count));
        prop_assert!(promised.is_some_and(|promised| promised <= count));
        let _ = Syndrome::ack(credit_code(count)).kind();
    }
}
