//! Every operation, each way.

use super::*;
use crate::completion::CompletionOp;
use crate::host::QpEvent;
use crate::memory::{Access, BindMw};
use crate::wr::SendFlags;
use wire::{FlushLevel, FlushPlacement};

#[test]
fn sends_of_every_length_arrive() {
    for way in WAYS {
        for len in [0, 1, 255, 256, 257, 512, 5000] {
            let mut pair = pair(way);
            let data = pattern(len, 1);
            let (from, to) = (pair.a.host.memory.filled(&data), pair.b.host.memory.region(len + 3));
            post_recv(&mut pair, 7, &to);
            pair.a.send(send_wr(1, SendOp::Send, payload(&from)));
            pair.pump();
            assert_eq!(pair.a.host.take_sent(), successes([1]), "{way:?} {len}");
            assert_eq!(pair.b.host.received[0].byte_len as usize, len);
            assert_eq!(pair.b.host.take_received(), successes([7]));
            assert_eq!(pair.b.host.memory.bytes(&to)[..len], data);
        }
    }
}

#[test]
fn writes_and_reads_of_every_length() {
    for way in WAYS {
        for len in [0, 1, 256, 257, 5000] {
            let mut pair = pair(way);
            let data = pattern(len, 2);
            let (from, target) = (pair.a.host.memory.filled(&data), pair.b.host.memory.region(len));
            let back = pair.a.host.memory.region(len);
            pair.a.send(send_wr(1, SendOp::Write(target.remote(0)), payload(&from)));
            pair.a.send(send_wr(2, SendOp::Read(target.remote(0)), payload(&back)));
            pair.pump();
            assert_eq!(pair.a.host.take_sent(), successes([1, 2]), "{way:?} {len}");
            assert_eq!((pair.b.host.memory.bytes(&target), pair.a.host.memory.bytes(&back)), (data.clone(), data));
        }
    }
}

#[test]
fn notices_carry_what_was_asked() {
    for way in WAYS {
        let mut pair = pair(way);
        let (from, to) = (pair.a.host.memory.filled(&pattern(700, 3)), pair.b.host.memory.region(700));
        let key = pair.b.host.memory.window();
        for id in 0..3 {
            post_recv(&mut pair, id, &to);
        }
        let mut first = send_wr(1, SendOp::SendImm(0x1122_3344), payload(&from));
        first.flags |= SendFlags::SOLICITED;
        pair.a.send(first);
        pair.a.send(send_wr(2, SendOp::WriteImm(to.remote(0), 7), payload(&from)));
        pair.a.send(send_wr(3, SendOp::SendInvalidate(key), Payload::empty()));
        pair.pump();
        let [first, second, third] = pair.b.host.received[..] else { panic!("three completions") };
        assert_eq!((first.imm, first.solicited, first.op), (Some(0x1122_3344), true, CompletionOp::Recv));
        assert_eq!((second.imm, second.solicited, second.op), (Some(7), false, CompletionOp::RecvWriteImm));
        assert_eq!((second.byte_len, second.invalidated), (700, None));
        assert_eq!((third.invalidated, third.imm, third.byte_len), (Some(key), None, 0));
        assert_eq!(pair.a.host.take_sent(), successes([1, 2, 3]));
    }
}

#[test]
fn words_of_a_peer() {
    for way in WAYS {
        let mut pair = pair(way);
        let (old, counter) = (pair.a.host.memory.region(8), pair.b.host.memory.filled(&40u64.to_ne_bytes()));
        pair.a.send(fetch_add(1, &old, &counter, 2));
        pair.pump();
        assert_eq!(word(&pair.a.host.memory.bytes(&old)), 40);
        for (compare, swap, after) in [(41, 1, 42), (42, 1, 1)] {
            let op = AtomicOp::CompareSwap { compare, swap };
            pair.a.send(send_wr(2, SendOp::Atomic(counter.remote(0), op), payload(&old)));
            pair.pump();
            assert_eq!(word(&pair.a.host.memory.bytes(&old)), 42);
            assert_eq!(word(&pair.b.host.memory.bytes(&counter)), after);
        }
        let value = pair.a.host.memory.filled(&9u64.to_ne_bytes());
        pair.a.send(send_wr(3, SendOp::AtomicWrite(counter.remote(0)), payload(&value)));
        let (placement, level) = (FlushPlacement::GLOBAL, FlushLevel::RANGE);
        let flush = SendOp::Flush { remote: counter.remote(0), len_bytes: 8, placement, level };
        pair.a.send(send_wr(4, flush, Payload::empty()));
        pair.pump();
        assert_eq!(word(&pair.b.host.memory.bytes(&counter)), 9, "{way:?}");
        let sent = pair.a.host.take_sent();
        assert_eq!(sent[..4], successes([1, 2, 2, 3]));
        // The queue pair does not allow FLUSH.
        assert_eq!(sent[4], (4, Status::RemoteAccess));
    }
}

#[test]
fn a_flush_that_is_allowed() {
    for way in WAYS {
        let mut setup = setup();
        setup.access |= Access::FLUSH_GLOBAL;
        let mut pair = take_way(ShmPair::connected(&setup), way);
        let target = pair.b.host.memory.region(64);
        for (id, level) in [(1, FlushLevel::RANGE), (2, FlushLevel::MR)] {
            let remote = target.remote(0);
            let op = SendOp::Flush { remote, len_bytes: 64, placement: FlushPlacement::GLOBAL, level };
            pair.a.send(send_wr(id, op, Payload::empty()));
        }
        pair.pump();
        assert_eq!(pair.a.host.take_sent(), successes([1, 2]), "{way:?}");
    }
}

#[test]
fn windows_are_bound_and_serve() {
    for way in WAYS {
        let mut pair = pair(way);
        let (target, window) = (pair.b.host.memory.region(64), pair.b.host.memory.window());
        let new_rkey = wire::RKey(window.0 + 1);
        let access = Access::REMOTE_WRITE;
        let (addr, region) = (target.addr, target.lkey);
        let bind = BindMw { window, new_rkey, region, addr, len_bytes: 8, access };
        pair.b.send(send_wr(5, SendOp::Bind(bind), Payload::empty()));
        pair.pump();
        let from = pair.a.host.memory.filled(&[7; 8]);
        let to = crate::wr::RemoteAddr { addr, rkey: new_rkey };
        pair.a.send(send_wr(1, SendOp::Write(to), payload(&from)));
        pair.pump();
        assert_eq!(pair.b.host.memory.bytes(&target)[..9], [7, 7, 7, 7, 7, 7, 7, 7, 0]);
        pair.b.send(send_wr(6, SendOp::LocalInvalidate(new_rkey), Payload::empty()));
        pair.pump();
        pair.a.send(send_wr(2, SendOp::Write(to), payload(&from)));
        pair.pump();
        assert_eq!(pair.b.host.take_sent(), successes([5, 6]));
        assert_eq!(pair.a.host.take_sent(), [(1, Status::Success), (2, Status::RemoteAccess)]);
        assert_eq!(pair.b.host.events, [QpEvent::AccessError], "{way:?}");
    }
}

#[test]
fn inline_bytes_and_lists() {
    for way in WAYS {
        let mut pair = pair(way);
        let data = pattern(600, 5);
        let (from, to) = (pair.a.host.memory.filled(&data), pair.b.host.memory.region(700));
        let parts = |b: &Buffer| [b.sge(0, 100), b.sge(100, 0), b.sge(100, 333), b.sge(433, 167)];
        pair.b.recv(recv_wr(1, parts(&to).into_iter().collect()));
        pair.a.send(send_wr(1, SendOp::Send, Payload::Sgl(parts(&from).into_iter().collect())));
        let inline = Payload::Inline(data[..40].into());
        pair.a.send(send_wr(2, SendOp::Write(to.remote(600)), inline.clone()));
        post_recv(&mut pair, 2, &to);
        pair.a.send(send_wr(3, SendOp::Send, inline));
        pair.pump();
        assert_eq!(pair.a.host.take_sent(), successes([1, 2, 3]), "{way:?}");
        let bytes = pair.b.host.memory.bytes(&to);
        assert_eq!((&bytes[..40], &bytes[40..600], &bytes[600..640]), (&data[..40], &data[40..], &data[..40]));
    }
}

#[test]
fn unsignaled_successes_leave_no_trace() {
    for way in WAYS {
        let mut pair = pair(way);
        let (from, target) = (pair.a.host.memory.filled(&pattern(64, 4)), pair.b.host.memory.region(64));
        for id in 0..5 {
            let mut wr = send_wr(id, SendOp::Write(target.remote(0)), payload(&from));
            wr.flags = if id == 4 { SendFlags::SIGNALED } else { SendFlags::empty() };
            pair.a.send(wr);
        }
        pair.pump();
        assert_eq!(pair.a.host.take_sent(), successes([4]));
    }
}

#[test]
fn the_passive_side_hears_of_the_first_message() {
    let mut pair = ShmPair::ready_to_receive(&setup());
    pair.a.enter_rts(&setup());
    let to = pair.b.host.memory.region(8);
    post_recv(&mut pair, 1, &to);
    pair.a.send(send_wr(1, SendOp::Send, Payload::empty()));
    pair.pump();
    assert_eq!(pair.b.host.events, [QpEvent::CommunicationEstablished]);
    assert_eq!(pair.a.host.take_sent(), successes([1]));
}

#[test]
fn many_messages_share_few_acknowledges() {
    let mut pair = pair(Way::Direct);
    let to = pair.b.host.memory.region(64);
    for id in 0..60 {
        post_recv(&mut pair, id, &to);
        pair.a.send(send_wr(id, SendOp::Send, Payload::empty()));
    }
    pair.pump();
    assert_eq!(pair.a.host.take_sent(), successes(0..60));
    assert_eq!(pair.b.qp.counters().tx_acks, 1);
}

#[test]
fn a_write_after_a_send_waits_for_its_acknowledge() {
    let mut pair = pair(Way::Direct);
    let (from, to) = (pair.a.host.memory.filled(&[1; 8]), pair.b.host.memory.region(8));
    pair.a.send(send_wr(1, SendOp::Send, Payload::empty()));
    pair.a.send(send_wr(2, SendOp::Write(to.remote(0)), payload(&from)));
    pair.pump();
    assert_eq!(pair.b.host.memory.bytes(&to), [0; 8], "the SEND has no receive WQE yet");
    post_recv(&mut pair, 1, &to);
    pair.run();
    assert_eq!(pair.a.host.take_sent(), successes([1, 2]));
    assert_eq!(pair.b.host.memory.bytes(&to), [1; 8]);
}
