//! Every operation does what it says, at every size that matters.

use super::*;
use crate::completion::CompletionOp;
use crate::host::QpEvent;
use crate::wr::SendFlags;

const SIZES: [usize; 9] = [0, 1, 3, 255, 256, 257, 512, 1000, 40_000];

#[test]
fn send_of_every_size() {
    for len in SIZES {
        let mut pair = pair();
        let data = pattern(len, 1);
        let (from, to) = (pair.a.host.memory.filled(&data), pair.b.host.memory.region(len + 8));
        post_recv(&mut pair, 9, &to);
        pair.a.send(send_wr(1, SendOp::Send, payload(&from)));
        pair.pump();
        assert_eq!(pair.a.host.take_sent(), successes([1]), "{len} bytes");
        let received = pair.b.host.received[0];
        assert_eq!((received.wr_id, received.status, received.byte_len), (9, Status::Success, len as u32));
        assert_eq!(received.op, CompletionOp::Recv);
        assert_eq!(pair.b.host.memory.bytes(&to)[..len], data);
        assert_eq!(pair.a.qp.next_timeout(), None, "no timer is left");
    }
}

#[test]
fn write_and_read_of_every_size() {
    for len in SIZES {
        let mut pair = pair();
        let data = pattern(len, 2);
        let (from, back) = (pair.a.host.memory.filled(&data), pair.a.host.memory.region(len));
        let target = pair.b.host.memory.region(len);
        pair.a.send(send_wr(1, SendOp::Write(target.remote(0)), payload(&from)));
        pair.a.send(send_wr(2, SendOp::Read(target.remote(0)), payload(&back)));
        pair.pump();
        assert_eq!(pair.a.host.take_sent(), successes([1, 2]), "{len} bytes");
        assert_eq!(pair.b.host.memory.bytes(&target), data);
        assert_eq!(pair.a.host.memory.bytes(&back), data);
        assert!(pair.b.host.received.is_empty(), "one-sided operations complete nothing at the target");
    }
}

#[test]
fn immediate_data_and_solicited_reach_the_receiver() {
    let mut pair = pair();
    let (from, to) = (pair.a.host.memory.filled(&pattern(700, 3)), pair.b.host.memory.region(700));
    post_recv(&mut pair, 1, &to);
    post_recv(&mut pair, 2, &to);
    let mut send = send_wr(1, SendOp::SendImm(0x1122_3344), payload(&from));
    send.flags |= SendFlags::SOLICITED;
    pair.a.send(send);
    pair.a.send(send_wr(2, SendOp::WriteImm(to.remote(0), 7), payload(&from)));
    pair.pump();
    let [first, second] = pair.b.host.received[..] else { panic!("two completions") };
    assert_eq!((first.imm, first.solicited, first.op), (Some(0x1122_3344), true, CompletionOp::Recv));
    assert_eq!((second.imm, second.solicited, second.op), (Some(7), false, CompletionOp::RecvWriteImm));
    assert_eq!(second.byte_len, 700);
}

#[test]
fn atomics_return_the_old_value() {
    let mut pair = pair();
    let (old, counter) = (pair.a.host.memory.region(8), pair.b.host.memory.filled(&40u64.to_ne_bytes()));
    pair.a.send(fetch_add(1, &old, &counter, 2));
    pair.pump();
    assert_eq!(word(&pair.a.host.memory.bytes(&old)), 40);
    assert_eq!(word(&pair.b.host.memory.bytes(&counter)), 42);
    for (compare, swap, after) in [(41, 1, 42), (42, 1, 1)] {
        let op = AtomicOp::CompareSwap { compare, swap };
        pair.a.send(send_wr(2, SendOp::Atomic(counter.remote(0), op), payload(&old)));
        pair.pump();
        assert_eq!(word(&pair.a.host.memory.bytes(&old)), 42);
        assert_eq!(word(&pair.b.host.memory.bytes(&counter)), after);
    }
    assert_eq!(pair.a.host.take_sent(), successes([1, 2, 2]));
}

#[test]
fn unsignaled_successes_leave_no_trace() {
    let mut pair = pair();
    let target = pair.b.host.memory.region(64);
    let from = pair.a.host.memory.filled(&pattern(64, 4));
    for id in 0..5 {
        let mut wr = send_wr(id, SendOp::Write(target.remote(0)), payload(&from));
        wr.flags = if id == 4 { SendFlags::SIGNALED } else { SendFlags::empty() };
        pair.a.send(wr);
    }
    pair.pump();
    assert_eq!(pair.a.host.take_sent(), successes([4]));
}

#[test]
fn lists_are_gathered_and_scattered() {
    let mut pair = pair();
    let data = pattern(600, 5);
    let from = pair.a.host.memory.filled(&data);
    let to = pair.b.host.memory.region(600);
    let parts = |b: &Buffer| [b.sge(0, 100), b.sge(100, 0), b.sge(100, 333), b.sge(433, 167)].into_iter().collect();
    pair.b.recv(recv_wr(1, parts(&to)));
    pair.a.send(send_wr(1, SendOp::Send, Payload::Sgl(parts(&from))));
    pair.pump();
    assert_eq!(pair.b.host.memory.bytes(&to), data);
}

#[test]
fn the_passive_side_hears_of_the_first_message() {
    let setup = setup();
    let mut pair = Pair::ready_to_receive(&setup);
    pair.a.enter_rts(&setup);
    let to = pair.b.host.memory.region(8);
    post_recv(&mut pair, 1, &to);
    pair.a.send(send_wr(1, SendOp::Send, Payload::empty()));
    pair.pump();
    assert_eq!(pair.b.host.events, [QpEvent::CommunicationEstablished]);
    assert_eq!(pair.a.host.take_sent(), successes([1]));
}

#[test]
fn many_messages_share_few_acknowledges() {
    let mut pair = pair();
    let target = pair.b.host.memory.region(64);
    let from = pair.a.host.memory.filled(&pattern(64, 6));
    for id in 0..60 {
        pair.a.send(send_wr(id, SendOp::Write(target.remote(0)), payload(&from)));
    }
    pair.pump();
    assert_eq!(pair.a.host.take_sent(), successes(0..60));
    let acks = pair.sent.iter().filter(|(side, _)| *side == Side::B).count();
    assert_eq!(acks, 1, "everything that arrives together is acknowledged together");
}
