//! A path MTU that the port does not carry: packets are as long as the port allows.

use super::*;
use crate::attr::Mtu;
use crate::testing::PacketFate;

const SIZES: [usize; 7] = [0, 1, 1023, 1024, 1025, 4096, 40_000];

fn narrow(qp_type: QpType) -> Setup {
    Setup { mtu: Mtu::B4096, port_mtu: Mtu::B1024, ..Setup::new(qp_type) }
}

/// Passes all packets, none of which may be longer than the port allows.
fn pump(pair: &mut Pair) {
    pair.pump_with(|_, packet| {
        assert!(packet.payload().len() <= 1024, "{} bytes", packet.payload().len());
        PacketFate::Pass
    });
}

#[test]
fn packets_are_as_long_as_the_port_carries() {
    for (qp_type, len) in [QpType::Rc, QpType::Uc].into_iter().flat_map(|kind| SIZES.map(|len| (kind, len))) {
        let mut pair = Pair::connected(&narrow(qp_type));
        assert_eq!(pair.a.qp.query().path_mtu, Mtu::B4096, "as it was asked for");
        let data = pattern(len, 1);
        let (from, to) = (pair.a.host.memory.filled(&data), pair.b.host.memory.region(len));
        let target = pair.b.host.memory.region(len);
        post_recv(&mut pair, 9, &to);
        pair.a.send(send_wr(1, SendOp::Send, payload(&from)));
        pair.a.send(send_wr(2, SendOp::Write(target.remote(0)), payload(&from)));
        pump(&mut pair);
        assert_eq!(pair.a.host.take_sent(), successes([1, 2]), "{qp_type:?}, {len} bytes");
        assert_eq!((pair.b.host.received.len(), pair.b.host.received[0].byte_len), (1, len as u32));
        assert_eq!(pair.b.host.memory.bytes(&to), data);
        assert_eq!(pair.b.host.memory.bytes(&target), data);
    }
}

#[test]
fn reads_are_answered_in_packets_that_the_port_carries() {
    for len in SIZES {
        let mut pair = Pair::connected(&narrow(QpType::Rc));
        let data = pattern(len, 2);
        let (back, target) = (pair.a.host.memory.region(len), pair.b.host.memory.filled(&data));
        pair.a.send(send_wr(1, SendOp::Read(target.remote(0)), payload(&back)));
        pump(&mut pair);
        assert_eq!(pair.a.host.take_sent(), successes([1]), "{len} bytes");
        assert_eq!(pair.a.host.memory.bytes(&back), data);
    }
}

#[test]
fn a_peer_whose_port_carries_more_may_send_what_was_agreed_in_one_packet() {
    for qp_type in [QpType::Rc, QpType::Uc] {
        let wide = Setup { port_mtu: Mtu::B4096, ..narrow(qp_type) };
        let mut pair = Pair::of_two(&wide, &narrow(qp_type));
        let data = pattern(1400, 3);
        let (from, to) = (pair.a.host.memory.filled(&data), pair.b.host.memory.region(1400));
        post_recv(&mut pair, 9, &to);
        pair.a.send(send_wr(1, SendOp::Send, payload(&from)));
        pair.pump();
        assert_eq!(pair.a.host.take_sent(), successes([1]), "{qp_type:?}");
        assert_eq!(pair.b.host.memory.bytes(&to), data);
    }
}
