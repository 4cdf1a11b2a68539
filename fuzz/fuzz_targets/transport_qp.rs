//! A hostile peer: any packets in any order arrive at a queue pair that has work of its own.
//! Nothing panics, and memory that was not exposed never changes.
#![no_main]

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use ::memory::{Region, Registry};
use arbitrary::{Arbitrary, Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use transport::*;
use wire::{Bth, Cookie, Gid, HeaderSet, Mark, Opcode, PKey, Packet, QKey, Qpn, RKey};

/// One move of the peer, or of the owner.
#[derive(Arbitrary, Debug)]
enum Move<'a> {
    Packet(PacketFields<'a>),
    Recv(u8),
    Send(u8),
    Elapse(u16),
}

/// The choices for one packet.
#[derive(Arbitrary, Debug)]
struct PacketFields<'a> {
    opcode: u8,
    psn_delta: i8,
    flags: u8,
    mark: u16,
    valid_key: bool,
    offset: u16,
    len: u16,
    rest: &'a [u8],
}

struct Owner {
    registry: Registry,
    completions: usize,
    pd: PdId,
    /// The only shared receive queue of the XRC domain.
    srq: VecDeque<RecvWr>,
}

const SRQ: u32 = 5;

impl Host for Owner {
    type Memory = Registry;
    type Path = shm::path::NoShmPath<Registry>;
    fn path(&self) -> Option<&Self::Path> {
        None
    }
    fn memory(&self) -> &Registry {
        &self.registry
    }
    fn complete(&mut self, _: CqSide, _: Completion) {
        self.completions += 1;
    }
    fn event(&mut self, _: QpEvent) {}
    fn xrc_srq(&mut self, srq: u32) -> Option<PdId> {
        (srq == SRQ).then_some(self.pd)
    }
    fn take_xrc_recv(&mut self, _: u32) -> Option<RecvWr> {
        self.srq.pop_front()
    }
    fn complete_xrc(&mut self, _: u32, _: Completion) {
        self.completions += 1;
    }
}

const EXPOSED: usize = 4096;

/// The rights of peers.
const ACCESS: Access =
    Access::REMOTE_WRITE.union(Access::REMOTE_READ).union(Access::REMOTE_ATOMIC).union(Access::FLUSH_GLOBAL);

fuzz_target!(|input: &[u8]| {
    let mut input = Unstructured::new(input);
    let _ = run(&mut input);
});

fn run(input: &mut Unstructured<'_>) -> Result<()> {
    let types = [QpType::Rc, QpType::Uc, QpType::Ud, QpType::XrcSend, QpType::XrcRecv];
    let mut target = Target::new(*input.choose(&types)?);
    for _ in 0..64 {
        match input.arbitrary::<Move<'_>>()? {
            Move::Packet(fields) => target.take_packet(&fields),
            Move::Recv(offset) => target.post_recv(offset),
            Move::Send(kind) => target.post_send(kind),
            Move::Elapse(micros) => target.elapse(micros),
        }
        target.send_packets();
        assert!(target.owner.completions <= target.posted, "a completion for nothing");
    }
    target.check_private_memory();
    Ok(())
}

/// A queue pair and its owner.
struct Target {
    qp: Qp,
    owner: Owner,
    /// Memory under a key that peers may use, its key, and memory that they may not.
    exposed: Arc<Region>,
    open: Keys,
    private: Arc<Region>,
    /// The cookie that the queue pair has told its peer.
    cookie: Cookie,
    now: Time,
    posted: usize,
    out: Vec<u8>,
}

/// The keys of the exposed region.
#[derive(Clone, Copy)]
struct Keys {
    lkey: LKey,
    rkey: RKey,
}

impl Target {
    fn new(qp_type: QpType) -> Target {
        let registry = Registry::new(7);
        let pd = registry.alloc_pd();
        let region = || Arc::new(Region::allocate(EXPOSED as u64).expect("memory"));
        let (exposed, private) = (region(), region());
        let access = ACCESS | Access::LOCAL_WRITE;
        let open = registry.register_region(pd, exposed.clone(), None, access).expect("a region");
        registry.register_region(pd, private.clone(), None, Access::empty()).expect("a region");
        let mut owner = Owner { registry, completions: 0, pd, srq: VecDeque::new() };
        let qp = connected(qp_type, pd, &mut owner);
        let open = Keys { lkey: open.lkey, rkey: open.rkey };
        let (cookie, now, out) = (Cookie::default(), Time(0), vec![0; MAX_PACKET_BYTES]);
        Target { qp, owner, exposed, open, private, cookie, now, posted: 0, out }
    }

    fn sge(&self, offset: u8, len_bytes: u32) -> Sge {
        Sge { addr: self.exposed.ptr() as u64 + u64::from(offset), len_bytes, lkey: self.open.lkey }
    }

    fn take_packet(&mut self, fields: &PacketFields<'_>) {
        let bytes = self.packet(fields);
        if let Ok(packet) = Packet::parse(&bytes) {
            let (source, destination) = (peer(), own());
            let meta = RecvMeta { source, destination, traffic_class: 0, hop_limit: 1, ecn_ce: false };
            let _ = self.qp.handle_packet(&packet, &meta, self.now, &mut self.owner);
        }
    }

    /// A packet of any opcode, whose extension headers may be valid.
    fn packet(&self, fields: &PacketFields<'_>) -> Vec<u8> {
        let &PacketFields { opcode, flags, valid_key, offset, len, rest, .. } = fields;
        let mut bytes = self.bth(fields).encode().to_vec();
        let headers = Opcode(opcode).info().map(|info| info.headers).unwrap_or_default();
        if valid_key && headers.contains(HeaderSet::XRCETH) {
            bytes.extend(SRQ.to_be_bytes());
        }
        if valid_key && headers.contains(HeaderSet::FETH) {
            bytes.extend([0, 0, 0, flags >> 3]);
        }
        if valid_key && headers != HeaderSet::PIGGYBACK | HeaderSet::COOKIE {
            bytes.extend((self.exposed.ptr() as u64 + u64::from(offset)).to_be_bytes());
            bytes.extend(self.open.rkey.0.to_be_bytes());
            bytes.extend(u32::from(len).to_be_bytes());
        }
        if valid_key && headers.contains(HeaderSet::PIGGYBACK) {
            let acknowledged = self.qp.query().sq_psn.add(offset as i16 as u32);
            bytes.extend([flags >> 3, 0, 0, 0]);
            bytes.extend(acknowledged.get().to_be_bytes());
            bytes.extend(self.cookie.encode());
        }
        bytes.extend(rest.iter().take(4096));
        bytes
    }

    fn bth(&self, fields: &PacketFields<'_>) -> Bth {
        let &PacketFields { opcode, psn_delta, flags, mark, .. } = fields;
        let mark = match mark % 4 {
            0 => Mark::OFFER,
            1 => Mark::from_bits(mark),
            _ => self.cookie.mark(),
        };
        Bth {
            opcode: Opcode(opcode),
            psn: self.qp.query().rq_psn.add(psn_delta as i32 as u32),
            pkey: PKey::DEFAULT,
            pad: flags & 3,
            ack_req: flags & 4 != 0,
            mark: if flags & 0x40 != 0 { mark } else { Mark::NONE },
            ..Bth::default()
        }
    }

    fn post_recv(&mut self, offset: u8) {
        let wr = RecvWr { wr_id: 1, sgl: Sgl::from_slice(&[self.sge(offset, 2000)]) };
        if self.qp.qp_type() == QpType::XrcRecv {
            self.owner.srq.push_back(wr);
            self.posted += 1;
        } else {
            self.posted += usize::from(self.qp.post_recv(wr, &mut self.owner).is_ok());
        }
    }

    fn post_send(&mut self, kind: u8) {
        let remote = RemoteAddr { addr: 5, rkey: RKey(9) };
        let (op, len_bytes) = match kind % 6 {
            0 => (SendOp::Send, 1500),
            1 => (SendOp::Write(remote), 1500),
            2 => (SendOp::Read(remote), 1500),
            3 => (SendOp::Atomic(remote, AtomicOp::FetchAdd { add: 1 }), 8),
            4 => (SendOp::AtomicWrite(remote), 8),
            _ => {
                let (placement, level) = (FlushPlacement::GLOBAL, FlushLevel::RANGE);
                (SendOp::Flush { remote, len_bytes: 100, placement, level }, 0)
            }
        };
        let payload = Payload::Sgl(Sgl::from_slice(&[self.sge(kind, len_bytes)]));
        let xrc_srq = (self.qp.qp_type() == QpType::XrcSend).then_some(SRQ);
        let wr = SendWr { wr_id: 2, op, flags: SendFlags::SIGNALED, payload, datagram: None, xrc_srq };
        self.posted += usize::from(self.qp.post_send(wr, &mut self.owner).is_ok());
    }

    fn elapse(&mut self, micros: u16) {
        self.now = self.now + Duration::from_micros(u64::from(micros) * 10);
        self.qp.handle_timeout(self.now, &mut self.owner);
    }

    fn send_packets(&mut self) {
        for _ in 0..256 {
            let Some(transmit) = self.qp.poll_transmit(self.now, &mut self.out, &mut self.owner) else { break };
            let sent = Packet::parse(&self.out[..transmit.len_bytes]).expect("a well-formed packet");
            self.cookie = sent.cookie().unwrap_or(self.cookie);
        }
    }

    fn check_private_memory(&self) {
        let mut bytes = vec![0; EXPOSED];
        self.private.span().read(&mut bytes);
        assert!(bytes.iter().all(|byte| *byte == 0), "memory that was not exposed has changed");
    }
}

fn own() -> Gid {
    Gid::from(std::net::IpAddr::from([10, 0, 0, 1]))
}

fn peer() -> Gid {
    Gid::from(std::net::IpAddr::from([10, 0, 0, 2]))
}

fn connected(qp_type: QpType, pd: PdId, owner: &mut Owner) -> Qp {
    let caps = QpCaps { max_send_wr: 32, max_recv_wr: 32, max_send_sge: 2, max_recv_sge: 2, max_inline_bytes: 64 };
    let init = QpInit {
        qpn: Qpn::new(0x11),
        qp_type,
        pd,
        caps,
        signal_all: false,
        shared_recv: None,
        tuning: Tuning::default(),
        secret: 5,
    };
    let mut qp = Qp::new(&init);
    let mut attr = QpAttr {
        access: ACCESS,
        qkey: QKey(1),
        address: AddressVector::new(own(), peer()),
        path_mtu: Mtu::B256,
        timeout: 5,
        retry_count: 3,
        rnr_retry: 3,
        max_rd_atomic: 4,
        max_dest_rd_atomic: 4,
        dest_qpn: Qpn::new(0x12),
        ..QpAttr::default()
    };
    let connected = AttrMask::AV | AttrMask::PATH_MTU | AttrMask::DEST_QPN | AttrMask::RQ_PSN;
    let own = if qp_type == QpType::Ud { AttrMask::QKEY } else { AttrMask::ACCESS_FLAGS };
    let (rtr, rts) = match qp_type {
        QpType::Rc => (
            connected | AttrMask::MAX_DEST_RD_ATOMIC | AttrMask::MIN_RNR_TIMER,
            AttrMask::TIMEOUT | AttrMask::RETRY_CNT | AttrMask::RNR_RETRY | AttrMask::MAX_QP_RD_ATOMIC,
        ),
        QpType::XrcSend => {
            (connected, AttrMask::TIMEOUT | AttrMask::RETRY_CNT | AttrMask::RNR_RETRY | AttrMask::MAX_QP_RD_ATOMIC)
        }
        QpType::XrcRecv => (connected | AttrMask::MAX_DEST_RD_ATOMIC | AttrMask::MIN_RNR_TIMER, AttrMask::TIMEOUT),
        QpType::Uc => (connected, AttrMask::empty()),
        QpType::Ud => (AttrMask::empty(), AttrMask::empty()),
    };
    let steps = [
        (QpState::Init, AttrMask::PKEY_INDEX | AttrMask::PORT | own),
        (QpState::Rtr, rtr),
        (QpState::Rts, AttrMask::SQ_PSN | rts),
    ];
    for (state, mask) in steps {
        attr.state = state;
        qp.modify(&attr, AttrMask::STATE | mask, owner).expect("a step of the table");
    }
    qp
}
