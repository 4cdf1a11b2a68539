//! The cost of one packet on the hot path: decoding and encoding headers, the ICRC, and the
//! search for an unknown identification.
//!
//! The lines named `crc32fast` are the lower bound: the same number of bytes in one piece.
#![allow(missing_docs, reason = "criterion_group! makes an undocumented function")]

use std::hint::black_box;
use std::net::IpAddr;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use longarm_wire::icrc::{self, Check};
use longarm_wire::{Aeth, Bth, Extensions, Flow, Opcode, PKey, Packet, Psn, Qpn, RKey, Reth, Syndrome};

fn bth(opcode: Opcode) -> Bth {
    Bth {
        opcode,
        pkey: PKey::DEFAULT,
        dest_qpn: Qpn::new(0x03_0011),
        psn: Psn::new(0x12_3456),
        ack_req: true,
        ..Bth::default()
    }
}

fn packet(opcode: Opcode, extensions: Extensions, payload_bytes: usize) -> Vec<u8> {
    let payload: Vec<u8> = (0..payload_bytes).map(|i| (i * 7) as u8).collect();
    let mut bytes = Vec::new();
    extensions.encode_packet(&bth(opcode), &payload, &mut bytes);
    bytes
}

fn write_only(payload_bytes: usize) -> Vec<u8> {
    let reth = Reth { addr: 0x7f00_1234_5000, rkey: RKey(0xfeed_beef), len_bytes: payload_bytes as u32 };
    let extensions = Extensions { reth: Some(reth), ..Extensions::default() };
    packet(Opcode::RC_WRITE_ONLY, extensions, payload_bytes)
}

fn acknowledge() -> Vec<u8> {
    let aeth = Aeth { syndrome: Syndrome::ACK_UNLIMITED, msn: 77 };
    let extensions = Extensions { aeth: Some(aeth), ..Extensions::default() };
    packet(Opcode::RC_ACKNOWLEDGE, extensions, 0)
}

fn flow(source: &str, destination: &str) -> Flow {
    let address = |text: &str| text.parse::<IpAddr>().expect("an address");
    Flow { source: address(source), destination: address(destination), source_port: 0xc123 }
}

fn headers(c: &mut Criterion) {
    let mut group = c.benchmark_group("headers");
    let write = write_only(64);
    group.bench_function("decode WRITE only: parse, BTH, RETH, payload", |b| {
        b.iter(|| {
            let packet = Packet::parse(black_box(&write)).expect("a packet");
            (packet.bth(), packet.reth(), packet.payload().len())
        });
    });
    let ack = acknowledge();
    group.bench_function("decode ACK: parse, BTH, AETH", |b| {
        b.iter(|| {
            let packet = Packet::parse(black_box(&ack)).expect("a packet");
            (packet.bth(), packet.aeth().map(|aeth| aeth.syndrome.kind()))
        });
    });
    let (bth, reth) = (bth(Opcode::RC_WRITE_ONLY), Packet::parse(&write).expect("a packet").reth());
    let reth = reth.expect("a WRITE has a RETH");
    let mut out = [0; Bth::LEN + Reth::LEN];
    group.bench_function("encode BTH, RETH", |b| {
        b.iter(|| {
            let (front, back) = out.split_at_mut(Bth::LEN);
            front.copy_from_slice(&black_box(&bth).encode());
            back.copy_from_slice(&black_box(&reth).encode());
            black_box(&mut out);
        });
    });
    group.finish();
}

fn checksums(c: &mut Criterion) {
    let mut group = c.benchmark_group("icrc");
    let v4 = flow("10.0.0.1", "10.0.0.2");
    let v6 = flow("fd00::1", "fd00::2");
    for payload_bytes in [0, 64, 1024, 4096] {
        let ib = packet(Opcode::RC_SEND_MIDDLE, Extensions::default(), payload_bytes);
        group.throughput(Throughput::Bytes(payload_bytes as u64));
        group.bench_function(format!("crc32fast {payload_bytes} B"), |b| {
            b.iter(|| crc32fast::hash(black_box(&ib[Bth::LEN..])));
        });
        for (name, flow) in [("IPv4", &v4), ("IPv6", &v6)] {
            group.bench_function(format!("compute {name} {payload_bytes} B"), |b| {
                b.iter(|| icrc::compute(black_box(flow), 3, black_box(&ib)));
            });
        }
        let mut datagram = ib.clone();
        datagram.extend_from_slice(&icrc::compute(&v4, 3, &ib).to_le_bytes());
        assert_eq!(icrc::check(&v4, &datagram, 3), Check::Good);
        group.bench_function(format!("check, expected {payload_bytes} B"), |b| {
            b.iter(|| icrc::check(black_box(&v4), black_box(&datagram), 3));
        });
        assert_eq!(icrc::check(&v4, &datagram, 0), Check::Identification(3));
        group.bench_function(format!("check, solved {payload_bytes} B"), |b| {
            b.iter(|| icrc::check(black_box(&v4), black_box(&datagram), 0));
        });
    }
    group.finish();
}

criterion_group!(benches, headers, checksums);
criterion_main!(benches);
