use smallvec::SmallVec;
use wire::{ImmDt, Opcode, Packet, Psn, Qpn, RKey, Reth};

use super::*;
use crate::testing::{PD, TestMemory};
use crate::wr::Sgl;

fn bth() -> Bth {
    Bth { opcode: Opcode::RC_WRITE_ONLY_IMM, dest_qpn: Qpn::new(7), psn: Psn::new(9), pad: 3, ..Bth::default() }
}

fn built(build: impl FnOnce(&mut PacketBuilder<'_>)) -> Vec<u8> {
    let mut out = vec![0xa5; MAX_PACKET_BYTES];
    let mut builder = PacketBuilder::new(&mut out, bth());
    build(&mut builder);
    let len_bytes = builder.finish();
    assert!(out[len_bytes..].iter().all(|byte| *byte == 0xa5), "nothing is written past the end");
    out.truncate(len_bytes);
    out
}

#[test]
fn headers_payload_and_pad_stand_in_order() {
    let memory = TestMemory::default();
    let buffer = memory.filled(&(0..=255).collect::<Vec<u8>>());
    let payload = Payload::Sgl(buffer.sgl());
    let reth = Reth { addr: 1, rkey: RKey(2), len_bytes: 3 };
    for len in 0..20 {
        let bytes = built(|builder| {
            builder.push(reth.encode());
            builder.push(ImmDt(4).encode());
            builder.gather(&memory, PD, &payload, 5, len).expect("within the list");
        });
        let packet = Packet::parse(&bytes).expect("well-formed");
        let pad = (4 - len % 4) % 4;
        assert_eq!(packet.bth(), Bth { pad: pad as u8, ..bth() });
        assert_eq!((packet.reth(), packet.imm()), (Some(reth), Some(4)));
        assert_eq!(packet.payload(), &memory.bytes(&buffer)[5..5 + len]);
        assert!(bytes[bytes.len() - pad..].iter().all(|byte| *byte == 0), "the pad is zero");
    }
}

#[test]
fn inline_payload_is_taken_from_its_offset() {
    let payload = Payload::Inline(SmallVec::from_slice(b"inline data"));
    let memory = TestMemory::default();
    let bytes = built(|builder| {
        builder.push([0; Reth::LEN]);
        builder.push([0; ImmDt::LEN]);
        builder.gather(&memory, PD, &payload, 7, 4).expect("within the bytes");
    });
    assert_eq!(&bytes[bytes.len() - 4..], b"data");
}

#[test]
fn payload_past_its_end_is_refused() {
    let memory = TestMemory::default();
    let buffer = memory.region(16);
    let mut out = vec![0; MAX_PACKET_BYTES];
    let mut builder = PacketBuilder::new(&mut out, bth());
    for payload in [Payload::Sgl(buffer.sgl()), Payload::Inline(SmallVec::from_elem(0, 16))] {
        for (offset, len) in [(0, 17), (16, 1), (u64::MAX, 1), (u64::MAX - 3, 8)] {
            let refused = builder.gather(&memory, PD, &payload, offset, len);
            assert_eq!(refused, Err(MemoryError::OutOfBounds), "{offset} {len}");
        }
    }
}

#[test]
fn nothing_needs_no_memory() {
    let memory = TestMemory::default();
    let mut out = vec![0; MAX_PACKET_BYTES];
    let mut builder = PacketBuilder::new(&mut out, bth());
    assert_eq!(builder.gather(&memory, PD, &Payload::Sgl(Sgl::new()), 0, 0), Ok(()));
}
