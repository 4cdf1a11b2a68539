//! Packets that come twice, late or in other parts than before. Each of these scripts stands for a connection that
//! the simulation saw die.

use core::time::Duration;

use wire::{Packet, Psn};

use super::*;
use crate::attr::QpState;
use crate::network::Transmit;
use crate::testing::{PacketFate, Side};

/// The next packet of `a`, which is also kept to be delivered again.
fn next_of_a(pair: &mut Pair) -> (Vec<u8>, Transmit) {
    let now = pair.now;
    pair.a.poll(now).expect("a packet")
}

fn deliver_from_a(pair: &mut Pair, (bytes, transmit): &(Vec<u8>, Transmit)) {
    pair.deliver(Side::A, bytes, transmit);
}

fn read(wr_id: u64, from: &Buffer, to: &Buffer) -> SendWr {
    send_wr(wr_id, SendOp::Read(from.remote(0)), payload(to))
}

/// The window grows during a READ, so its parts do too. After any loss, no part is asked for that begins before and
/// ends after a part that was asked for earlier.
#[test]
fn a_read_is_asked_for_again_within_its_old_parts() {
    for (start, len) in (0..60).flat_map(|s| [1, 2, 4, 7].map(|l| (s, l))) {
        let mut setup = setup();
        (setup.tuning.window_initial_bytes, setup.tuning.window_max_bytes) = (1000, 8192);
        setup.max_rd_atomic = 1;
        let mut pair = Pair::connected(&setup);
        let data = pattern(256 * 40, 3);
        let (from, to) = (pair.b.host.memory.filled(&data), pair.a.host.memory.region(data.len()));
        pair.a.send(read(1, &from, &to));
        let mut number = 0;
        pair.run_with(|_, _| {
            number += 1;
            if (start..start + len).contains(&(number - 1)) { PacketFate::Drop } else { PacketFate::Pass }
        });
        assert_eq!(pair.a.host.take_sent(), successes([1]), "{len} packets from {start} lost");
        assert_eq!(pair.a.host.memory.bytes(&to), data);
    }
}

/// A model of the Linux software driver's memory of an executed READ. When asked for a part again, it forgets the
/// bytes before that part, and from then on does not answer requests for them.
struct Remembered {
    from: Psn,
    end: Psn,
}

/// Whether a peer that remembers READs so answers this one.
fn answers(remembered: &mut Vec<Remembered>, packet: &Packet<'_>) -> bool {
    let Some(reth) = packet.reth() else { return true };
    let (from, end) = (packet.psn(), packet.psn().add(reth.len_bytes.div_ceil(256)));
    let is_new = remembered.iter().all(|read| !from.before(read.end));
    let within = |read: &&mut Remembered| !from.before(read.from) && from.before(read.end);
    match remembered.iter_mut().find(within) {
        Some(read) if read.end.before(end) => false,
        Some(read) => {
            read.from = from;
            true
        }
        None if is_new => {
            remembered.push(Remembered { from, end });
            true
        }
        None => false,
    }
}

/// After losses the window is smaller than the rest of a READ, and the first responses to the repeated
/// request are lost as well: nothing is asked for that lies before what was asked for last.
#[test]
fn a_read_is_asked_for_again_from_front_to_back() {
    let mut refused = Vec::new();
    for (start, again) in (0..40).flat_map(|start| (1..12).map(move |again| (start, again))) {
        let mut setup = setup();
        (setup.tuning.window_initial_bytes, setup.tuning.window_max_bytes) = (8192, 8192);
        let mut pair = Pair::connected(&setup);
        let data = pattern(256 * 40, 3);
        let (from, to) = (pair.b.host.memory.filled(&data), pair.a.host.memory.region(data.len()));
        pair.a.send(read(1, &from, &to));
        let (mut number, mut remembered) = (0, Vec::new());
        pair.run_with(|side, packet| {
            if side == Side::A {
                return if answers(&mut remembered, packet) { PacketFate::Pass } else { PacketFate::Drop };
            }
            number += 1;
            let lost = number - 1 == start || number - 1 == start + again || number - 1 == start + 2 * again;
            if lost { PacketFate::Drop } else { PacketFate::Pass }
        });
        if pair.a.host.take_sent() != successes([1]) {
            refused.push((start, again));
        } else {
            assert_eq!(pair.a.host.memory.bytes(&to), data);
        }
    }
    assert_eq!(refused, [], "the connection died when these answers were lost");
}

#[test]
fn answers_given_again_take_no_place_of_new_ones() {
    let mut setup = setup();
    (setup.max_rd_atomic, setup.max_dest_rd_atomic) = (2, 2);
    let mut pair = Pair::connected(&setup);
    let (counter, old) = (pair.b.host.memory.region(8), pair.a.host.memory.region(8));
    pair.a.send(fetch_add(0, &old, &counter, 1));
    pair.a.send(fetch_add(1, &old, &counter, 1));
    let first = [next_of_a(&mut pair), next_of_a(&mut pair)];
    first.iter().for_each(|packet| deliver_from_a(&mut pair, packet));
    pair.pump();
    pair.a.send(fetch_add(2, &old, &counter, 1));
    pair.a.send(fetch_add(3, &old, &counter, 1));
    let second = [next_of_a(&mut pair), next_of_a(&mut pair)];
    first.iter().chain(&second).for_each(|packet| deliver_from_a(&mut pair, packet));
    pair.run();
    assert_eq!(pair.a.host.take_sent(), successes(0..4));
    assert_eq!(word(&pair.b.host.memory.bytes(&counter)), 4);
}

/// The peer has its data and its owner may take the memory away, but an old request
/// arrives once more: nobody is refused anything.
#[test]
fn a_late_copy_of_a_read_of_memory_that_is_gone_harms_nobody() {
    let mut pair = pair();
    let (from, to) = (pair.b.host.memory.filled(&[7; 1000]), pair.a.host.memory.region(1000));
    pair.a.send(read(0, &from, &to));
    let request = next_of_a(&mut pair);
    deliver_from_a(&mut pair, &request);
    pair.pump();
    deliver_from_a(&mut pair, &request);
    pair.b.host.memory.kill(&from);
    pair.run();
    deliver_from_a(&mut pair, &request);
    pair.run();
    assert_eq!((pair.a.qp.state(), pair.b.qp.state()), (QpState::Rts, QpState::Rts));
    assert_eq!(pair.a.host.take_sent(), successes([0]));
}

#[test]
fn an_acknowledge_never_overtakes_the_read_before_it() {
    let mut pair = pair();
    let memory = (pair.a.host.memory.filled(&[1; 100]), pair.b.host.memory.region(100));
    let back = pair.a.host.memory.region(100);
    pair.a.send(send_wr(0, SendOp::Write(memory.1.remote(0)), payload(&memory.0)));
    pair.a.send(read(1, &memory.1, &back));
    let packets = [next_of_a(&mut pair), next_of_a(&mut pair)];
    packets.iter().chain(&packets).for_each(|packet| deliver_from_a(&mut pair, packet));
    pair.run();
    assert_eq!(pair.a.host.take_sent(), successes([0, 1]));
    assert_eq!(pair.a.qp.counters().implied_naks, 0);
}

/// A receiver whose buffer is too small for what comes at once loses the same packets again
/// and again. That is not a reason to give up before the timeout would be.
#[test]
fn losses_without_progress_count_by_time() {
    let lose = |losses: usize| {
        let mut setup = setup();
        (setup.timeout, setup.retry_count) = (14, 1);
        let mut pair = Pair::connected(&setup);
        let (from, to) = (pair.a.host.memory.filled(&[1; 2000]), pair.b.host.memory.region(2000));
        pair.a.send(send_wr(0, SendOp::Write(to.remote(0)), Payload::empty()));
        pair.run(); // the round trip is known now
        pair.a.send(send_wr(1, SendOp::Write(to.remote(0)), payload(&from)));
        let (mut left, start) = (losses, setup.first_psn.next());
        pair.run_with(|side, packet| match side == Side::A && packet.psn() == start && left > 0 {
            true => {
                left -= 1;
                PacketFate::Drop
            }
            false => PacketFate::Pass,
        });
        (pair.a.host.take_sent()[1].1, pair.now)
    };
    assert_eq!(lose(5).0, Status::Success);
    let (status, at) = lose(1000);
    assert_eq!(status, Status::RetryExceeded);
    assert!(at.0 > Duration::from_millis(130).as_nanos() as u64, "two timeouts of 67 ms: {at:?}");
}

#[test]
fn a_receiver_that_got_ready_is_waited_for_no_longer() {
    let mut pair = pair();
    let from = pair.a.host.memory.filled(&[1; 10]);
    pair.a.send(send_wr(0, SendOp::Send, payload(&from)));
    pair.a.send(send_wr(1, SendOp::Send, payload(&from)));
    let requests = [next_of_a(&mut pair), next_of_a(&mut pair)];
    deliver_from_a(&mut pair, &requests[0]);
    pair.pump();
    assert_eq!(pair.a.qp.counters().rx_rnr_naks, 1);
    for wr_id in 0..2 {
        let buffer = pair.b.host.memory.region(10);
        post_recv(&mut pair, wr_id, &buffer);
    }
    deliver_from_a(&mut pair, &requests[0]);
    pair.pump();
    assert_eq!(pair.a.host.take_sent(), successes([0, 1]), "without waiting for a timer");
}
