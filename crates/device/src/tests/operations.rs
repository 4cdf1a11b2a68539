//! Every operation of RC and UC, with the data verified at both ends.

use transport::{CompletionOp, FlushLevel, FlushPlacement, QpType, SendOp, Status};

use super::rig::*;

const LENGTHS: [usize; 7] = [0, 1, 64, 1023, 1024, 5000, 100_000];

/// The needs of an operation at the receiver, and its effects there.
fn send_each(qp_type: QpType, ipv6: bool, op: fn(&Node) -> SendOp, recv: Option<CompletionOp>) {
    on_loopback(|group| {
        let (a, b) = pair(group, Setup { ipv6, ..Setup::new(qp_type) });
        for (index, len) in LENGTHS.into_iter().enumerate() {
            let data = pattern(index, len);
            a.write(0, &data);
            b.write(0, &vec![0xee; len + 8]);
            if recv.is_some() {
                b.post_recv(index as u64, 0, len.max(1));
            }
            a.send(100 + index as u64, op(&b), 0, len);
            check_sent(&a, 100 + index as u64);
            if let Some(expected) = recv {
                let completion = b.received();
                assert_eq!((completion.status, completion.op), (Status::Success, expected));
                assert_eq!((completion.wr_id, completion.byte_len as usize), (index as u64, len));
                assert_eq!(completion.qpn, b.qp.qpn());
            }
            wait_until("the data", || b.read(0, len) == data);
            assert_eq!(b.read(len, 8), [0xee; 8], "nothing behind it is touched");
        }
        assert_eq!(b.device.counters().dropped(), 0, "{:?}", b.device.counters());
    });
}

fn check_sent(node: &Node, wr_id: u64) {
    let completion = node.sent();
    assert_eq!((completion.wr_id, completion.qpn), (wr_id, node.qp.qpn()));
}

#[test]
pub(super) fn rc_send() {
    send_each(QpType::Rc, false, |_| SendOp::Send, Some(CompletionOp::Recv));
}

#[test]
pub(super) fn rc_send_over_ipv6() {
    send_each(QpType::Rc, true, |_| SendOp::Send, Some(CompletionOp::Recv));
}

#[test]
pub(super) fn rc_write() {
    send_each(QpType::Rc, false, |b| SendOp::Write(b.remote(0)), None);
}

#[test]
pub(super) fn rc_write_with_immediate() {
    send_each(QpType::Rc, false, |b| SendOp::WriteImm(b.remote(0), 77), Some(CompletionOp::RecvWriteImm));
}

#[test]
pub(super) fn uc_send() {
    send_each(QpType::Uc, false, |_| SendOp::SendImm(9), Some(CompletionOp::Recv));
}

#[test]
pub(super) fn uc_write() {
    send_each(QpType::Uc, true, |b| SendOp::Write(b.remote(0)), None);
}

#[test]
pub(super) fn uc_write_with_immediate() {
    send_each(QpType::Uc, false, |b| SendOp::WriteImm(b.remote(0), 5), Some(CompletionOp::RecvWriteImm));
}

#[test]
pub(super) fn rc_read() {
    on_loopback(|group| {
        let (a, b) = pair(group, Setup::new(QpType::Rc));
        for (index, len) in LENGTHS.into_iter().enumerate() {
            let data = pattern(index, len);
            b.write(16, &data);
            a.send(index as u64, SendOp::Read(b.remote(16)), 0, len);
            let completion = a.sent();
            assert_eq!((completion.op, completion.byte_len as usize), (CompletionOp::Read, len));
            assert_eq!(a.read(0, len), data);
        }
    });
}

#[test]
pub(super) fn an_immediate_arrives() {
    on_loopback(|group| {
        for qp_type in [QpType::Rc, QpType::Uc] {
            let (a, b) = pair(group, Setup::new(qp_type));
            b.post_recv(1, 0, 100);
            a.send(2, SendOp::SendImm(0xfeed_beef), 0, 10);
            a.sent();
            assert_eq!(b.received().imm, Some(0xfeed_beef));
        }
    });
}

#[test]
fn a_list_of_requests_is_one_doorbell() {
    on_loopback(|group| {
        let (a, b) = pair(group, Setup::new(QpType::Rc));
        for index in 0..64 {
            b.post_recv(index, index as usize * 64, 64);
        }
        a.write(0, &pattern(3, 4096));
        let calls = a.device.counters().get("tx_calls");
        let list = (0..64).map(|index| a.send_wr(index, SendOp::Send, index as usize * 64, 64));
        a.qp.post_send(list).unwrap();
        assert_eq!(a.device.counters().get("tx_calls") - calls, 1, "one call for all");
        for index in 0..64 {
            assert_eq!(b.received().wr_id, index);
            assert_eq!(a.sent().wr_id, index);
        }
        assert_eq!(b.read(0, 4096), pattern(3, 4096));
    });
}

#[test]
fn echoes_carry_acks() {
    const BATCHES: u64 = 500;
    const ECHOES: u64 = 8;
    on_loopback(|group| {
        // No poll takes the completions of b's sends.
        let setup = Setup { cq_capacity: 2 * (BATCHES * ECHOES) as u32, ..Setup::new(QpType::Rc) };
        let (a, b) = pair(group, setup);
        // One receive more than is used at once, so that no credit update is due.
        b.post_recv(0, 0, 64);
        a.post_recv(0, 0, 64);
        let counted = |name| b.device.counters().get(name);
        // On a busy machine the background thread may be faster now and then, but not always.
        let undisturbed = (0..BATCHES).any(|batch| {
            let before = (counted("acks_deferred"), counted("tx_calls"), counted("tx_packets"));
            for echo in batch * ECHOES..(batch + 1) * ECHOES {
                b.post_recv(echo + 1, 0, 64);
                a.post_recv(echo + 1, 0, 64);
                a.send(echo, SendOp::Send, 0, 64);
                b.received();
                b.send(echo, SendOp::Send, 0, 64);
                assert_eq!((a.received().wr_id, a.sent().wr_id), (echo, echo));
            }
            let (deferred, calls) = (counted("acks_deferred") - before.0, counted("tx_calls") - before.1);
            // The response carries the ACK: one packet is both.
            let packets = counted("tx_packets") - before.2;
            deferred > ECHOES / 2 && calls < ECHOES * 3 / 2 && packets < ECHOES * 3 / 2
        });
        assert!(undisturbed, "most answers should be one packet: {:?}", b.device.counters());
    });
}

#[test]
fn two_queue_pairs_of_one_engine_talk() {
    on_loopback(|group| {
        let device = crate::testing::open(group, 1, "lo");
        let setup = Setup::new(QpType::Rc);
        let (a, b) = (Node::new(device.clone(), setup), Node::new(device, setup));
        link(&a, &b);
        b.post_recv(1, 0, 1000);
        a.write(0, &pattern(1, 1000));
        a.send(2, SendOp::Send, 0, 1000);
        assert_eq!(b.received().byte_len, 1000);
        assert_eq!(a.sent().wr_id, 2);
        assert_eq!(b.read(0, 1000), pattern(1, 1000));
    });
}

#[test]
pub(super) fn one_sided_requests_are_served_while_the_owner_is_away() {
    on_loopback(|group| {
        let (a, b) = pair(group, Setup::new(QpType::Rc));
        let data = pattern(9, 200_000);
        a.write(0, &data);
        a.send(1, SendOp::Write(b.remote(0)), 0, data.len());
        a.sent();
        assert_eq!(b.read(0, data.len()), data);
        a.write(0, &vec![0; data.len()]);
        a.send(2, SendOp::Read(b.remote(0)), 0, data.len());
        a.sent();
        assert_eq!(a.read(0, data.len()), data);
    });
}

#[test]
pub(super) fn requests_complete_while_nobody_polls() {
    on_loopback(|group| {
        let (a, b) = pair(group, Setup::new(QpType::Rc));
        a.write(0, &pattern(2, 300_000));
        a.send(1, SendOp::Write(b.remote(0)), 0, 300_000);
        wait_until("the completion", || !a.send_cq.is_empty());
        assert_eq!(b.read(0, 300_000), pattern(2, 300_000));
    });
}

#[test]
pub(super) fn an_atomic_write_and_a_flush() {
    on_loopback(|group| {
        let (a, b) = pair(group, Setup::new(QpType::Rc));
        let value = 0x0123_4567_89ab_cdef_u64;
        a.write(0, &value.to_ne_bytes());
        a.write(64, &pattern(1, 4096));
        a.send(1, SendOp::Write(b.remote(64)), 64, 4096);
        a.send(2, SendOp::AtomicWrite(b.remote(8)), 0, 8);
        let op = SendOp::Flush {
            remote: b.remote(0),
            len_bytes: 1 << 16,
            placement: FlushPlacement::GLOBAL,
            level: FlushLevel::RANGE,
        };
        a.send(3, op, 0, 0);
        assert_eq!((a.sent().op, a.sent().op), (CompletionOp::Write, CompletionOp::AtomicWrite));
        assert_eq!(a.sent().op, CompletionOp::Flush);
        assert_eq!(b.read(8, 8), value.to_ne_bytes());
        assert_eq!(b.read(64, 4096), pattern(1, 4096));
    });
}
