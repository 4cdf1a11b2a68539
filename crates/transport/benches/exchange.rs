//! The cost of one message from post to completion, both ends and no network: the transport's own share of a message
//! rate. Memory is one flat buffer, so key lookups do not count; the copies do.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use longarm_transport::{
    Access, Accessor, AddressVector, AtomicOp, AttrMask, BindMw, Completion, CqSide, Host, LKey, MAX_PACKET_BYTES,
    Memory, MemoryError, Mtu, Payload, PdId, Qp, QpAttr, QpCaps, QpEvent, QpInit, QpState, QpType, RecvMeta, RecvWr,
    RemoteAddr, SendFlags, SendOp, SendWr, Sge, Sgl, Time, Transmit, Tuning, UdDestination,
};
use wire::{Gid, Packet, QKey, Qpn, RKey};

const BUFFER_BYTES: usize = 16 << 10;

/// One region, every key opens it.
struct Flat(RefCell<Vec<u8>>);

impl Flat {
    fn range(addr: u64, len: usize) -> Result<core::ops::Range<usize>, MemoryError> {
        let start = addr as usize;
        match start.checked_add(len) {
            Some(end) if end <= BUFFER_BYTES => Ok(start..end),
            _ => Err(MemoryError::OutOfBounds),
        }
    }

    /// Lists have one entry here.
    fn first(sgl: &[Sge], offset: u64) -> Result<u64, MemoryError> {
        sgl.first().map(|sge| sge.addr + offset).ok_or(MemoryError::OutOfBounds)
    }
}

impl Memory for Flat {
    fn gather(&self, _: PdId, sgl: &[Sge], offset: u64, out: &mut [u8]) -> Result<(), MemoryError> {
        let range = Flat::range(Flat::first(sgl, offset)?, out.len())?;
        out.copy_from_slice(&self.0.borrow()[range]);
        Ok(())
    }

    fn scatter(&self, _: PdId, sgl: &[Sge], offset: u64, data: &[u8]) -> Result<(), MemoryError> {
        let range = Flat::range(Flat::first(sgl, offset)?, data.len())?;
        self.0.borrow_mut()[range].copy_from_slice(data);
        Ok(())
    }

    fn check_local(&self, _: PdId, _: &[Sge], _: bool) -> Result<(), MemoryError> {
        Ok(())
    }

    fn check_remote(&self, _: Accessor, _: RKey, addr: u64, len: u64, _: Access) -> Result<(), MemoryError> {
        Flat::range(addr, len as usize).map(|_| ())
    }

    fn remote_write(&self, _: Accessor, _: RKey, addr: u64, data: &[u8]) -> Result<(), MemoryError> {
        let range = Flat::range(addr, data.len())?;
        self.0.borrow_mut()[range].copy_from_slice(data);
        Ok(())
    }

    fn remote_read(&self, _: Accessor, _: RKey, addr: u64, out: &mut [u8]) -> Result<(), MemoryError> {
        let range = Flat::range(addr, out.len())?;
        out.copy_from_slice(&self.0.borrow()[range]);
        Ok(())
    }

    fn remote_read_object(&self, _: Accessor, _: RKey, _: u64, _: u64, _: &mut [u8]) -> Result<usize, MemoryError> {
        Err(MemoryError::NoPermission)
    }

    fn remote_atomic(&self, _: Accessor, _: RKey, _: u64, _: AtomicOp) -> Result<u64, MemoryError> {
        Err(MemoryError::NoPermission)
    }

    fn remote_atomic_write(&self, _: Accessor, _: RKey, _: u64, _: [u8; 8]) -> Result<(), MemoryError> {
        Err(MemoryError::NoPermission)
    }

    fn remote_flush(&self, _: Accessor, _: RKey, _: Option<(u64, u64)>, _: Access) -> Result<(), MemoryError> {
        Err(MemoryError::NoPermission)
    }

    fn remote_invalidate(&self, _: Accessor, _: RKey) -> Result<(), MemoryError> {
        Err(MemoryError::NoPermission)
    }

    fn invalidate(&self, _: Accessor, _: RKey) -> Result<(), MemoryError> {
        Err(MemoryError::BadKey)
    }

    fn bind(&self, _: Accessor, _: &BindMw) -> Result<(), MemoryError> {
        Err(MemoryError::BadKey)
    }
}

struct Surroundings {
    memory: Flat,
    completions: VecDeque<Completion>,
}

impl Host for Surroundings {
    type Memory = Flat;
    type Path = longarm_transport::shm::path::NoShmPath<Flat>;

    fn memory(&self) -> &Flat {
        &self.memory
    }

    fn path(&self) -> Option<&Self::Path> {
        None
    }

    fn complete(&mut self, _: CqSide, completion: Completion) {
        self.completions.push_back(completion);
    }

    fn event(&mut self, _: QpEvent) {}
}

struct Node {
    qp: Qp,
    host: Surroundings,
    gid: Gid,
}

impl Node {
    fn new(qp_type: QpType, number: u8) -> Node {
        let caps = QpCaps { max_send_wr: 16, max_recv_wr: 16, max_send_sge: 1, max_recv_sge: 1, max_inline_bytes: 0 };
        let init = QpInit {
            qpn: Qpn::new(number.into()),
            qp_type,
            pd: PdId(1),
            caps,
            signal_all: true,
            shared_recv: None,
            tuning: Tuning::default(),
            secret: number.into(),
        };
        Node {
            qp: Qp::new(&init),
            host: Surroundings { memory: Flat(RefCell::new(vec![7; BUFFER_BYTES])), completions: VecDeque::new() },
            gid: Gid::from(core::net::IpAddr::from([10, 0, 0, number])),
        }
    }

    fn connect(&mut self, peer_gid: Gid, peer: Qpn) {
        use AttrMask as M;
        let attr = QpAttr {
            access: Access::REMOTE_WRITE,
            qkey: QKey(1),
            address: AddressVector::new(self.gid, peer_gid),
            path_mtu: Mtu::B4096,
            dest_qpn: peer,
            timeout: 14,
            ..QpAttr::default()
        };
        let connected = M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN;
        let (init, rtr, rts) = match self.qp.qp_type() {
            QpType::Rc => (
                M::ACCESS_FLAGS,
                connected | M::MAX_DEST_RD_ATOMIC | M::MIN_RNR_TIMER,
                M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY | M::MAX_QP_RD_ATOMIC,
            ),
            QpType::Uc => (M::ACCESS_FLAGS, connected, M::empty()),
            _ => (M::QKEY, M::empty(), M::empty()),
        };
        for (state, mask) in
            [(QpState::Init, init | M::PKEY_INDEX | M::PORT), (QpState::Rtr, rtr), (QpState::Rts, rts | M::SQ_PSN)]
        {
            let attr = QpAttr { state, ..attr };
            self.qp.modify(&attr, mask | M::STATE, &mut self.host).expect("a step of the table");
        }
    }

    /// Everything that wants to leave arrives at `peer`.
    fn drain_to(&mut self, peer: &mut Node, out: &mut [u8]) {
        while let Some(Transmit { len_bytes, .. }) = self.qp.poll_transmit(Time(1), out, &mut self.host) {
            let packet = Packet::parse(&out[..len_bytes]).expect("well-formed");
            let (source, destination) = (self.gid, peer.gid);
            let arrival = RecvMeta { source, destination, traffic_class: 0, hop_limit: 64, ecn_ce: false };
            peer.qp.handle_packet(&packet, &arrival, Time(1), &mut peer.host).expect("taken");
        }
    }
}

struct Exchange {
    a: Node,
    b: Node,
    out: Vec<u8>,
}

impl Exchange {
    fn new(qp_type: QpType) -> Exchange {
        let (mut a, mut b) = (Node::new(qp_type, 1), Node::new(qp_type, 2));
        a.connect(b.gid, b.qp.qpn());
        b.connect(a.gid, a.qp.qpn());
        Exchange { a, b, out: vec![0; MAX_PACKET_BYTES] }
    }

    /// One message, there and (RC) acknowledged.
    fn run(&mut self, op: SendOp, len_bytes: u32) {
        let sge = Sge { addr: 0, len_bytes, lkey: LKey(1) };
        if op == SendOp::Send {
            let sgl = Sgl::from_slice(&[Sge { len_bytes: len_bytes + 40, ..sge }]);
            self.b.qp.post_recv(RecvWr { wr_id: 1, sgl }, &mut self.b.host).expect("room");
        }
        let datagram = (self.a.qp.qp_type() == QpType::Ud).then(|| {
            let address = AddressVector::new(self.a.gid, self.b.gid);
            Box::new(UdDestination { address, remote_qpn: self.b.qp.qpn(), remote_qkey: QKey(1) })
        });
        let payload = Payload::Sgl(Sgl::from_slice(&[sge]));
        let wr = SendWr { wr_id: 1, op, flags: SendFlags::empty(), payload, datagram, xrc_srq: None };
        self.a.qp.post_send(wr, &mut self.a.host).expect("room");
        self.a.drain_to(&mut self.b, &mut self.out);
        self.b.drain_to(&mut self.a, &mut self.out);
        black_box(self.a.host.completions.pop_front().expect("a completion"));
        self.b.host.completions.clear();
    }
}

fn exchanges(c: &mut Criterion) {
    let at = RemoteAddr { addr: 0, rkey: RKey(1) };
    for (qp_type, op, name) in [
        (QpType::Rc, SendOp::Write(at), "rc_write"),
        (QpType::Rc, SendOp::Send, "rc_send"),
        (QpType::Uc, SendOp::Write(at), "uc_write"),
        (QpType::Uc, SendOp::Send, "uc_send"),
        (QpType::Ud, SendOp::Send, "ud_send"),
    ] {
        let mut group = c.benchmark_group(name);
        for len_bytes in [0, 64, 4096] {
            let mut exchange = Exchange::new(qp_type);
            group.throughput(Throughput::Elements(1));
            group.bench_function(BenchmarkId::from_parameter(len_bytes), |b| b.iter(|| exchange.run(op, len_bytes)));
        }
        group.finish();
    }
}

criterion_group!(benches, exchanges);
criterion_main!(benches);
