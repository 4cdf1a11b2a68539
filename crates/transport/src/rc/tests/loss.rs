//! Packets are lost, repeated or late: every request is executed once, and in order.

use super::*;
use crate::testing::{PacketFate, Side};
use wire::Packet;

/// A mix of everything, with results that tell when something ran twice.
pub(super) struct Workload {
    source: Buffer,
    received: Vec<Buffer>,
    written: Buffer,
    read_back: Buffer,
    counter: Buffer,
    old: Vec<Buffer>,
}

const LEN: usize = 1500;

impl Workload {
    pub(super) fn post(pair: &mut Pair) -> Workload {
        let (a, b) = (&pair.a.host.memory, &pair.b.host.memory);
        let work = Workload {
            source: a.filled(&pattern(LEN, 1)),
            received: (0..3).map(|_| b.region(LEN)).collect(),
            written: b.region(LEN),
            read_back: a.region(LEN),
            counter: b.region(8),
            old: (0..3).map(|_| a.region(8)).collect(),
        };
        for (id, buffer) in work.received.iter().enumerate() {
            pair.b.recv(recv_wr(id as u64, buffer.sgl()));
        }
        pair.a.send(send_wr(0, SendOp::Send, payload(&work.source)));
        pair.a.send(fetch_add(1, &work.old[0], &work.counter, 1));
        pair.a.send(send_wr(2, SendOp::Write(work.written.remote(0)), payload(&work.source)));
        pair.a.send(send_wr(3, SendOp::Send, payload(&work.source)));
        let mut read = send_wr(4, SendOp::Read(work.written.remote(0)), payload(&work.read_back));
        read.flags |= crate::wr::SendFlags::FENCE;
        pair.a.send(read);
        pair.a.send(fetch_add(5, &work.old[1], &work.counter, 10));
        pair.a.send(fetch_add(6, &work.old[2], &work.counter, 100));
        pair.a.send(send_wr(7, SendOp::Send, payload(&work.source)));
        work
    }

    pub(super) fn verify(&self, pair: &mut Pair, what: &str) {
        let data = pattern(LEN, 1);
        assert_eq!(pair.a.host.take_sent(), successes(0..8), "{what}");
        assert_eq!(pair.b.host.take_received(), successes(0..3), "{what}");
        for buffer in self.received.iter().chain([&self.written]) {
            assert_eq!(pair.b.host.memory.bytes(buffer), data, "{what}");
        }
        assert_eq!(pair.a.host.memory.bytes(&self.read_back), data, "{what}");
        assert_eq!(word(&pair.b.host.memory.bytes(&self.counter)), 111, "{what}");
        let old: Vec<u64> = self.old.iter().map(|b| word(&pair.a.host.memory.bytes(b))).collect();
        assert_eq!(old, [0, 1, 11], "{what}");
    }
}

/// Runs the workload with `verdict` for the packets that `pick` names by their number.
fn run(what: &str, mut pick: impl FnMut(usize, Side, &Packet<'_>) -> PacketFate) {
    let mut pair = pair();
    let work = Workload::post(&mut pair);
    let mut number = 0;
    pair.run_with(|side, packet| {
        number += 1;
        pick(number - 1, side, packet)
    });
    work.verify(&mut pair, what);
}

#[test]
fn any_single_packet_may_be_lost_repeated_or_late() {
    for verdict in [PacketFate::Drop, PacketFate::Duplicate, PacketFate::Late] {
        for target in 0..60 {
            run(&format!("{verdict:?} of packet {target}"), |n, _, _| match n == target {
                true => verdict,
                false => PacketFate::Pass,
            });
        }
    }
}

#[test]
fn any_two_packets_may_be_lost() {
    for first in 0..40 {
        for second in first + 1..40 {
            run(&format!("packets {first} and {second} lost"), |n, _, _| match n == first || n == second {
                true => PacketFate::Drop,
                false => PacketFate::Pass,
            });
        }
    }
}

#[test]
fn everything_may_come_twice() {
    run("everything twice", |_, _, _| PacketFate::Duplicate);
}

#[test]
fn any_run_of_packets_may_be_lost() {
    for (start, len) in (0..40).flat_map(|s| [2, 5, 20].map(|l| (s, l))) {
        run(&format!("{len} packets from {start}"), |n, _, _| match (start..start + len).contains(&n) {
            true => PacketFate::Drop,
            false => PacketFate::Pass,
        });
    }
}

#[test]
fn every_response_may_be_lost_at_first() {
    let mut lost = std::collections::HashSet::new();
    run("first copy of each response lost", |_, side, packet| match side == Side::B && lost.insert(packet.psn()) {
        true => PacketFate::Drop,
        false => PacketFate::Pass,
    });
}

#[test]
fn a_lost_acknowledge_is_found_out_without_a_retry() {
    let mut pair = pair();
    let target = pair.b.host.memory.region(8);
    let from = pair.a.host.memory.filled(&[1; 8]);
    pair.a.send(send_wr(1, SendOp::Write(target.remote(0)), payload(&from)));
    let mut acks = 0;
    pair.run_with(|side, _| {
        match side == Side::B && {
            acks += 1;
            acks == 1
        } {
            true => PacketFate::Drop,
            false => PacketFate::Pass,
        }
    });
    assert_eq!(pair.a.host.take_sent(), successes([1]));
    assert_eq!(pair.a.qp.counters().ack_timeouts, 0);
    assert_eq!(pair.a.qp.counters().probes, 1);
    assert_eq!(pair.b.qp.counters().duplicate_requests, 1);
}

#[test]
fn a_read_goes_on_where_it_was_lost() {
    let mut pair = pair();
    let data = pattern(256 * 20, 9);
    let (source, back) = (pair.b.host.memory.filled(&data), pair.a.host.memory.region(data.len()));
    pair.a.send(send_wr(1, SendOp::Read(source.remote(0)), payload(&back)));
    let mut responses = 0;
    pair.run_with(|side, _| {
        match side == Side::B && {
            responses += 1;
            responses == 15
        } {
            true => PacketFate::Drop,
            false => PacketFate::Pass,
        }
    });
    assert_eq!(pair.a.host.take_sent(), successes([1]));
    assert_eq!(pair.a.host.memory.bytes(&back), data);
    assert_eq!(responses, 20 + 6, "only what was missing is sent again");
}
