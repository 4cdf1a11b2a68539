//! Each operation over each service and path that has it, at every size that matters.

use wire::{FlushLevel, FlushPlacement, RKey};

use crate::attr::QpType;
use crate::completion::{CompletionOp, Status};
use crate::host::QpEvent;
use crate::memory::{Access, AtomicOp, BindMw};
use crate::testing::{
    Buffer, Node, Pair, Setup, ShmMode, ShmPair, fetch_add, pattern, payload, recv_wr, send_wr, successes, word,
};
use crate::wr::{Payload, RemoteAddr, SendFlags, SendOp};

/// One row of the table: a service and the path to the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Row {
    qp_type: QpType,
    /// `None`: packets.
    shm: Option<ShmMode>,
}

const ROWS: [Row; 6] = [
    Row { qp_type: QpType::Rc, shm: None },
    Row { qp_type: QpType::Uc, shm: None },
    Row { qp_type: QpType::Rc, shm: Some(ShmMode::Direct) },
    Row { qp_type: QpType::Rc, shm: Some(ShmMode::ByRequest) },
    Row { qp_type: QpType::Rc, shm: Some(ShmMode::Lending) },
    Row { qp_type: QpType::Uc, shm: Some(ShmMode::Direct) },
];

const SIZES: [usize; 9] = [0, 1, 3, 255, 256, 257, 512, 1000, 40_000];

impl Row {
    fn is_reliable(self) -> bool {
        self.qp_type == QpType::Rc
    }

    fn setup(self) -> Setup {
        Setup::new(self.qp_type)
    }

    fn pair(self) -> AnyPair {
        self.pair_of(&self.setup())
    }

    fn pair_of(self, setup: &Setup) -> AnyPair {
        match self.shm {
            None => AnyPair::Wire(Pair::connected(setup)),
            Some(mode) => AnyPair::Shm(ShmPair::connected(setup).in_mode(mode)),
        }
    }

    fn ready_to_receive(self) -> AnyPair {
        match self.shm {
            None => AnyPair::Wire(Pair::ready_to_receive(&self.setup())),
            Some(mode) => AnyPair::Shm(ShmPair::ready_to_receive(&self.setup()).in_mode(mode)),
        }
    }
}

fn reliable_rows() -> impl Iterator<Item = Row> {
    ROWS.into_iter().filter(|row| row.is_reliable())
}

/// Two queue pairs with either path between them.
enum AnyPair {
    Wire(Pair),
    Shm(ShmPair),
}

impl AnyPair {
    fn a(&mut self) -> &mut Node {
        match self {
            AnyPair::Wire(pair) => &mut pair.a,
            AnyPair::Shm(pair) => &mut pair.a,
        }
    }

    fn b(&mut self) -> &mut Node {
        match self {
            AnyPair::Wire(pair) => &mut pair.b,
            AnyPair::Shm(pair) => &mut pair.b,
        }
    }

    fn pump(&mut self) {
        match self {
            AnyPair::Wire(pair) => pair.pump(),
            AnyPair::Shm(pair) => pair.pump(),
        }
    }

    /// Posts a receive for all of `buffer` at B.
    fn post_recv(&mut self, wr_id: u64, buffer: &Buffer) {
        self.b().recv(recv_wr(wr_id, buffer.sgl()));
    }
}

#[test]
fn send_of_every_size() {
    for row in ROWS {
        for len in SIZES {
            let mut pair = row.pair();
            let data = pattern(len, 1);
            let (from, to) = (pair.a().host.memory.filled(&data), pair.b().host.memory.region(len + 8));
            pair.post_recv(9, &to);
            pair.a().send(send_wr(1, SendOp::Send, payload(&from)));
            pair.pump();
            assert_eq!(pair.a().host.take_sent(), successes([1]), "{row:?} {len} bytes");
            let [received] = pair.b().host.received[..] else { panic!("one completion") };
            assert_eq!((received.wr_id, received.status, received.byte_len), (9, Status::Success, len as u32));
            assert_eq!((received.op, received.imm, received.grh), (CompletionOp::Recv, None, false));
            assert_eq!(pair.b().host.memory.bytes(&to)[..len], data);
            assert_eq!(pair.b().qp.counters().rx_bytes, len as u64);
            assert_eq!(pair.a().qp.next_timeout(), None, "no timer is left");
        }
    }
}

#[test]
fn write_and_read_of_every_size() {
    for row in ROWS {
        for len in SIZES {
            let mut pair = row.pair();
            let data = pattern(len, 2);
            let (from, back) = (pair.a().host.memory.filled(&data), pair.a().host.memory.region(len));
            let (to, unused) = (pair.b().host.memory.region(len + 16), pair.b().host.memory.region(8));
            pair.post_recv(9, &unused);
            pair.a().send(send_wr(1, SendOp::Write(to.remote(8)), payload(&from)));
            if row.is_reliable() {
                pair.a().send(send_wr(2, SendOp::Read(to.remote(8)), payload(&back)));
            }
            pair.pump();
            let done = if row.is_reliable() { 1..3 } else { 1..2 };
            assert_eq!(pair.a().host.take_sent(), successes(done), "{row:?} {len} bytes");
            assert!(pair.b().host.received.is_empty(), "one-sided operations complete nothing at the target");
            let bytes = pair.b().host.memory.bytes(&to);
            assert_eq!(bytes[8..8 + len], data);
            assert!(bytes[..8].iter().chain(&bytes[8 + len..]).all(|byte| *byte == 0), "nothing around it");
            assert!(!row.is_reliable() || pair.a().host.memory.bytes(&back) == data);
        }
    }
}

#[test]
fn immediate_data_and_solicited_reach_the_receiver() {
    for row in ROWS {
        for len in [0, 256, 700] {
            let mut pair = row.pair();
            let (from, to) = (pair.a().host.memory.filled(&pattern(len, 3)), pair.b().host.memory.region(len));
            pair.post_recv(1, &to);
            pair.post_recv(2, &to);
            let mut send = send_wr(1, SendOp::SendImm(0x1122_3344), payload(&from));
            send.flags |= SendFlags::SOLICITED;
            pair.a().send(send);
            pair.a().send(send_wr(2, SendOp::WriteImm(to.remote(0), 7), payload(&from)));
            pair.pump();
            let [first, second] = pair.b().host.received[..] else { panic!("two completions: {row:?}") };
            assert_eq!((first.imm, first.solicited, first.op), (Some(0x1122_3344), true, CompletionOp::Recv));
            assert_eq!((second.imm, second.solicited, second.op), (Some(7), false, CompletionOp::RecvWriteImm));
            assert_eq!((first.byte_len, second.byte_len), (len as u32, len as u32));
            assert_eq!(pair.a().host.take_sent(), successes([1, 2]));
        }
    }
}

#[test]
fn send_with_invalidate_tells_the_key() {
    for row in reliable_rows() {
        let mut pair = row.pair();
        let (key, to) = (bound_window(&mut pair), pair.b().host.memory.region(8));
        pair.post_recv(1, &to);
        pair.a().send(send_wr(3, SendOp::SendInvalidate(key), Payload::empty()));
        pair.pump();
        let [received] = pair.b().host.received[..] else { panic!("one completion: {row:?}") };
        assert_eq!((received.invalidated, received.imm, received.byte_len), (Some(key), None, 0));
        assert_eq!(pair.a().host.take_sent(), successes([3]));
    }
}

/// Binds a window of B, and returns its key.
fn bound_window(pair: &mut AnyPair) -> RKey {
    let (region, window) = (pair.b().host.memory.region(64), pair.b().host.memory.window());
    let new_rkey = RKey(window.0 | 5);
    let bind = bind_of(&region, window, new_rkey);
    pair.b().send(send_wr(5, SendOp::Bind(bind), Payload::empty()));
    pair.pump();
    assert_eq!(pair.b().host.take_sent(), successes([5]));
    new_rkey
}

/// Eight bytes in the middle of a region.
fn bind_of(region: &Buffer, window: RKey, new_rkey: RKey) -> BindMw {
    let access = Access::REMOTE_WRITE;
    BindMw { window, new_rkey, region: region.lkey, addr: region.addr + 8, len_bytes: 8, access }
}

#[test]
fn atomics_return_the_old_value() {
    for row in reliable_rows() {
        let mut pair = row.pair();
        let (old, counter) = (pair.a().host.memory.region(8), pair.b().host.memory.filled(&40u64.to_ne_bytes()));
        pair.a().send(fetch_add(1, &old, &counter, 2));
        pair.pump();
        assert_eq!(word(&pair.a().host.memory.bytes(&old)), 40, "{row:?}");
        assert_eq!(word(&pair.b().host.memory.bytes(&counter)), 42);
        for (compare, swap, after) in [(41, 1, 42), (42, 1, 1)] {
            let op = AtomicOp::CompareSwap { compare, swap };
            pair.a().send(send_wr(2, SendOp::Atomic(counter.remote(0), op), payload(&old)));
            pair.pump();
            assert_eq!(word(&pair.a().host.memory.bytes(&old)), 42);
            assert_eq!(word(&pair.b().host.memory.bytes(&counter)), after);
        }
        assert_eq!(pair.a().host.take_sent(), successes([1, 2, 2]));
    }
}

#[test]
fn an_atomic_write_is_visible_and_a_flush_needs_its_right() {
    for row in reliable_rows() {
        let mut pair = row.pair();
        let (value, target) = (pair.a().host.memory.filled(&9u64.to_ne_bytes()), pair.b().host.memory.region(8));
        pair.a().send(send_wr(3, SendOp::AtomicWrite(target.remote(0)), payload(&value)));
        pair.a().send(send_wr(4, flush(&target, 8, FlushLevel::RANGE), Payload::empty()));
        pair.pump();
        assert_eq!(word(&pair.b().host.memory.bytes(&target)), 9, "{row:?}");
        assert_eq!(pair.a().host.take_sent(), [(3, Status::Success), (4, Status::RemoteAccess)]);
    }
}

#[test]
fn a_flush_with_its_right_succeeds() {
    for row in reliable_rows() {
        let mut setup = row.setup();
        setup.access |= Access::FLUSH_GLOBAL;
        let mut pair = row.pair_of(&setup);
        let target = pair.b().host.memory.region(64);
        for (id, level) in [(1, FlushLevel::RANGE), (2, FlushLevel::MR)] {
            pair.a().send(send_wr(id, flush(&target, 64, level), Payload::empty()));
        }
        pair.pump();
        assert_eq!(pair.a().host.take_sent(), successes([1, 2]), "{row:?}");
    }
}

fn flush(target: &Buffer, len_bytes: u32, level: FlushLevel) -> SendOp {
    SendOp::Flush { remote: target.remote(0), len_bytes, placement: FlushPlacement::GLOBAL, level }
}

#[test]
fn windows_open_and_close_in_order() {
    for row in ROWS {
        let mut pair = row.pair();
        let (region, window) = (pair.b().host.memory.region(64), pair.b().host.memory.window());
        let new_rkey = RKey(window.0 | 5);
        pair.b().send(send_wr(5, SendOp::Bind(bind_of(&region, window, new_rkey)), Payload::empty()));
        pair.pump();
        assert_eq!(pair.b().host.sent[0].op, CompletionOp::BindMw);
        assert_eq!(pair.b().host.take_sent(), successes([5]));

        let from = pair.a().host.memory.filled(&[7; 8]);
        let at = RemoteAddr { addr: region.addr + 8, rkey: new_rkey };
        pair.a().send(send_wr(1, SendOp::Write(at), payload(&from)));
        pair.pump();
        assert_eq!(pair.b().host.memory.bytes(&region)[7..17], [0, 7, 7, 7, 7, 7, 7, 7, 7, 0]);

        pair.b().send(send_wr(6, SendOp::LocalInvalidate(new_rkey), Payload::empty()));
        pair.pump();
        assert_eq!(pair.b().host.sent[0].op, CompletionOp::LocalInvalidate);
        assert_eq!(pair.b().host.take_sent(), successes([6]));
        pair.b().host.memory.put(&region, 8, &[0; 8]);
        pair.a().send(send_wr(2, SendOp::Write(at), payload(&from)));
        pair.pump();
        assert_eq!(pair.b().host.memory.bytes(&region), [0; 64], "the window is closed");
        let (last, events) = match row.is_reliable() {
            true => ((2, Status::RemoteAccess), vec![QpEvent::AccessError]),
            false => ((2, Status::Success), vec![]),
        };
        assert_eq!(pair.a().host.take_sent(), [(1, Status::Success), last], "{row:?}");
        assert_eq!(pair.b().host.events, events);
    }
}

#[test]
fn lists_and_inline_data_are_gathered_and_scattered() {
    for row in ROWS {
        let mut pair = row.pair();
        let data = pattern(600, 5);
        let (from, to) = (pair.a().host.memory.filled(&data), pair.b().host.memory.region(700));
        let parts = |b: &Buffer| [b.sge(0, 100), b.sge(100, 0), b.sge(100, 333), b.sge(433, 167)];
        pair.b().recv(recv_wr(1, parts(&to).into_iter().collect()));
        pair.b().recv(recv_wr(2, [to.sge(690, 4), to.sge(680, 10)].into_iter().collect()));
        pair.a().send(send_wr(1, SendOp::Send, Payload::Sgl(parts(&from).into_iter().collect())));
        pair.a().send(send_wr(2, SendOp::Write(to.remote(600)), Payload::Inline(data[..40].into())));
        pair.a().send(send_wr(3, SendOp::Send, Payload::Inline(b"inline"[..].into())));
        pair.pump();
        assert_eq!(pair.a().host.take_sent(), successes([1, 2, 3]), "{row:?}");
        let bytes = pair.b().host.memory.bytes(&to);
        assert_eq!((&bytes[..600], &bytes[600..640]), (&data[..], &data[..40]));
        assert_eq!((&bytes[690..694], &bytes[680..682]), (&b"inli"[..], &b"ne"[..]));
    }
}

#[test]
fn unsignaled_successes_give_no_completion() {
    for row in ROWS {
        let mut pair = row.pair();
        let (from, target) = (pair.a().host.memory.filled(&pattern(64, 4)), pair.b().host.memory.region(64));
        for id in 0..5 {
            let mut wr = send_wr(id, SendOp::Write(target.remote(0)), payload(&from));
            wr.flags.set(SendFlags::SIGNALED, id == 3);
            pair.a().send(wr);
        }
        pair.pump();
        assert_eq!(pair.a().host.take_sent(), successes([3]), "{row:?}");
    }
}

#[test]
fn the_passive_side_learns_of_the_first_message() {
    for row in ROWS {
        let mut pair = row.ready_to_receive();
        pair.a().enter_rts(&row.setup());
        for wr_id in 0..3 {
            pair.b().recv(recv_wr(wr_id, Default::default()));
            pair.a().send(send_wr(wr_id, SendOp::Send, Payload::empty()));
        }
        pair.pump();
        assert_eq!(pair.b().host.events, [QpEvent::CommunicationEstablished], "{row:?}");
        assert_eq!(pair.b().host.take_received(), successes(0..3));
        assert_eq!(pair.a().host.take_sent(), successes(0..3));
    }
}

#[test]
fn many_messages_share_one_ack() {
    for row in reliable_rows() {
        let mut pair = row.pair();
        let to = pair.b().host.memory.region(64);
        for id in 0..32 {
            pair.post_recv(id, &to);
            pair.a().send(send_wr(id, SendOp::Send, Payload::empty()));
        }
        pair.pump();
        assert_eq!(pair.a().host.take_sent(), successes(0..32), "{row:?}");
        assert_eq!(pair.b().qp.counters().tx_acks, 1, "{row:?}: messages that arrive together share an ACK");
    }
}
