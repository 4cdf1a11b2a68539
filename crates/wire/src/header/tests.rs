//! Each header compared with bytes written by hand.

use super::*;
use crate::id::{PKey, Psn, QKey, Qpn, RKey};
use crate::opcode::Opcode;
use crate::syndrome::{NakCode, Syndrome};

#[test]
fn bth() {
    let bth = Bth {
        opcode: Opcode::RC_WRITE_ONLY_IMM,
        solicited: true,
        migrated: false,
        pad: 3,
        version: 0,
        pkey: PKey(0x8001),
        fecn: false,
        becn: true,
        dest_qpn: Qpn::new(0x12_3456),
        ack_req: true,
        mark: Mark::NONE,
        psn: Psn::new(0xab_cdef),
    };
    let bytes = [0x0b, 0xb0, 0x80, 0x01, 0x40, 0x12, 0x34, 0x56, 0x80, 0xab, 0xcd, 0xef];
    assert_eq!(bth.encode(), bytes);
    assert_eq!(Bth::decode(&bytes), bth);
}

/// Each flag alone, so that none can stand for another.
#[test]
fn bth_flags() {
    let cases: [(Bth, usize, u8); 9] = [
        (bth_with(|bth| bth.solicited = true), 1, 0x80),
        (bth_with(|bth| bth.migrated = true), 1, 0x40),
        (bth_with(|bth| bth.version = 0xf), 1, 0x0f),
        (bth_with(|bth| bth.fecn = true), 4, 0x80),
        (bth_with(|bth| bth.becn = true), 4, 0x40),
        (bth_with(|bth| bth.ack_req = true), 8, 0x80),
        (bth_with(|bth| bth.mark = Mark::OFFER), 8, 0x53),
        (bth_with(|bth| bth.mark = Mark::from_bits(0x7f)), 8, 0x7f),
        (bth_with(|bth| bth.mark = Mark::from_bits(0x1f80)), 4, 0x3f),
    ];
    for (bth, at, byte) in cases {
        let mut bytes = [0; Bth::LEN];
        bytes[at] = byte;
        assert_eq!(bth.encode(), bytes);
        assert_eq!(Bth::decode(&bytes), bth);
    }
}

fn bth_with(change: impl FnOnce(&mut Bth)) -> Bth {
    let mut bth = Bth::default();
    change(&mut bth);
    bth
}

#[test]
fn a_congestion_notification_has_room_for_a_cookie() {
    let mut bytes = [0; Cnp::LEN];
    assert_eq!(Cnp::default().encode(), bytes);
    bytes[..4].copy_from_slice(&[1, 2, 3, 4]);
    assert_eq!(Cnp { cookie: Cookie(0x0102_0304) }.encode(), bytes);
    bytes[9] = 77;
    assert_eq!(Cnp::decode(&bytes), Cnp { cookie: Cookie(0x0102_0304) });
}

#[test]
fn bth_fields_too_large_do_not_spill() {
    let bth = bth_with(|bth| {
        bth.pad = 0xff;
        bth.version = 0xf0;
    });
    assert_eq!(bth.encode()[1], 0x30);
}

#[test]
fn reth() {
    let reth = Reth { addr: 0x0102_0304_0506_0708, rkey: RKey(0x090a_0b0c), len_bytes: 0x0d0e_0f10 };
    let bytes = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
    assert_eq!(reth.encode(), bytes);
    assert_eq!(Reth::decode(&bytes), reth);
}

#[test]
fn aeth() {
    let aeth = Aeth { syndrome: Syndrome::nak(NakCode::RemoteAccessError), msn: 0x01_0203 };
    assert_eq!(aeth.encode(), [0x62, 1, 2, 3]);
    assert_eq!(Aeth::decode(&[0x62, 1, 2, 3]), aeth);
    let spilling = Aeth { msn: 0xff01_0203, ..aeth };
    assert_eq!(spilling.encode(), [0x62, 1, 2, 3]);
}

#[test]
fn piggyback() {
    let along = Piggyback { aeth: Aeth { syndrome: Syndrome::ack(9), msn: 0x01_0203 }, psn: Psn::new(0x0a_0b0c) };
    let bytes = [9, 1, 2, 3, 0, 0x0a, 0x0b, 0x0c];
    assert_eq!(along.encode(), bytes);
    let mut reserved = bytes;
    reserved[4] = 0xff;
    assert_eq!(Piggyback::decode(&reserved), along);
}

#[test]
fn object_and_reply() {
    let object = ObjectEth { lock_mask: 0x0102_0304_0506_0708 };
    assert_eq!(object.encode(), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(ObjectEth::decode(&object.encode()), object);
    let reply = ReplyEth { len_bytes: 0x0102_0304 };
    assert_eq!(reply.encode(), [1, 2, 3, 4, 0, 0, 0, 0]);
    assert_eq!(ReplyEth::decode(&[1, 2, 3, 4, 0xff, 0xff, 0xff, 0xff]), reply);
}

#[test]
fn atomic_eth() {
    let atomic = AtomicEth {
        addr: 0x0102_0304_0506_0708,
        rkey: RKey(0x1112_1314),
        swap_or_add: 0x2122_2324_2526_2728,
        compare: 0x3132_3334_3536_3738,
    };
    let bytes = [
        1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0x31, 0x32,
        0x33, 0x34, 0x35, 0x36, 0x37, 0x38,
    ];
    assert_eq!(atomic.encode(), bytes);
    assert_eq!(AtomicEth::decode(&bytes), atomic);
}

#[test]
fn atomic_ack_eth() {
    let answer = AtomicAckEth { original: 0x0102_0304_0506_0708 };
    assert_eq!(answer.encode(), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(AtomicAckEth::decode(&[1, 2, 3, 4, 5, 6, 7, 8]), answer);
}

#[test]
fn deth() {
    let deth = Deth { qkey: QKey(0x8001_0000), src_qpn: Qpn::new(0x12_3456) };
    let bytes = [0x80, 1, 0, 0, 0, 0x12, 0x34, 0x56];
    assert_eq!(deth.encode(), bytes);
    let mut reserved = bytes;
    reserved[4] = 0xff;
    assert_eq!(Deth::decode(&reserved), deth);
}

#[test]
fn headers_of_one_word() {
    assert_eq!(ImmDt(0x0102_0304).encode(), [1, 2, 3, 4]);
    assert_eq!(ImmDt::decode(&[1, 2, 3, 4]), ImmDt(0x0102_0304));
    assert_eq!(Ieth(RKey(0x0102_0304)).encode(), [1, 2, 3, 4]);
    assert_eq!(Ieth::decode(&[1, 2, 3, 4]), Ieth(RKey(0x0102_0304)));
    assert_eq!(XrcEth { srq: 0xff02_0304 }.encode(), [0, 2, 3, 4]);
    assert_eq!(XrcEth::decode(&[9, 2, 3, 4]), XrcEth { srq: 0x02_0304 });
}

#[test]
fn feth() {
    let feth = Feth { placement: FlushPlacement::GLOBAL, level: FlushLevel::RANGE };
    assert_eq!(feth.encode(), [0, 0, 0, 0x01]);
    let feth = Feth { placement: FlushPlacement::all(), level: FlushLevel::MR };
    assert_eq!(feth.encode(), [0, 0, 0, 0x13]);
    assert_eq!(Feth::decode(&[0xff, 0xff, 0xff, 0xd3]), feth, "reserved bits are ignored");
    let unknown = Feth { placement: FlushPlacement::from_bits_retain(0xf), level: FlushLevel(3) };
    assert_eq!(Feth::decode(&[0, 0, 0, 0x3f]), unknown);
    assert_eq!(unknown.encode(), [0, 0, 0, 0x3f]);
}

#[test]
fn cnp_is_reserved_bytes() {
    assert_eq!(Cnp::default().encode(), [0; 16]);
    assert_eq!(Cnp::decode(&[0; 16]), Cnp::default());
}
