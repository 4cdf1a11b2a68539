//! A hostile peer: any packets in any order at a queue pair that has work of its own.
//! Nothing panics, and memory that was not exposed never changes.
#![no_main]

use std::collections::VecDeque;
use std::time::Duration;

use ::memory::{Region, Registry};
use arbitrary::{Arbitrary, Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use transport::*;
use wire::{Bth, Cookie, Gid, HeaderSet, Mark, Opcode, PKey, Packet, QKey, Qpn};

/// One move of the peer, or of the owner.
#[derive(Arbitrary, Debug)]
enum Move<'a> {
    Packet { opcode: u8, psn_delta: i8, flags: u8, mark: u16, valid_key: bool, offset: u16, len: u16, rest: &'a [u8] },
    Recv(u8),
    Send(u8),
    Elapse(u16),
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

/// What peers may do.
const ACCESS: Access =
    Access::REMOTE_WRITE.union(Access::REMOTE_READ).union(Access::REMOTE_ATOMIC).union(Access::FLUSH_GLOBAL);

fuzz_target!(|input: &[u8]| {
    let mut input = Unstructured::new(input);
    let _ = run(&mut input);
});

fn run(input: &mut Unstructured<'_>) -> Result<()> {
    let registry = Registry::new(7);
    let pd = registry.alloc_pd();
    let region = |bytes| std::sync::Arc::new(Region::allocate(bytes).expect("memory"));
    let (exposed, private) = (region(EXPOSED as u64), region(EXPOSED as u64));
    let access = ACCESS | Access::LOCAL_WRITE;
    let open = registry.register_region(pd, exposed.clone(), None, access).expect("a region");
    let closed = registry.register_region(pd, private.clone(), None, Access::empty()).expect("a region");
    let types = [QpType::Rc, QpType::Uc, QpType::Ud, QpType::XrcSend, QpType::XrcRecv];
    let qp_type = *input.choose(&types)?;
    let mut owner = Owner { registry, completions: 0, pd, srq: VecDeque::new() };
    let mut qp = connected(qp_type, pd, &mut owner);
    let base = exposed.ptr() as u64;
    let sge = |offset: u8, lkey, base: u64| Sge { addr: base + u64::from(offset), len_bytes: 2000, lkey };
    // The cookie that the queue pair has told its peer.
    let mut told = Cookie::default();
    let (mut now, mut posted, mut out) = (Time(0), 0, vec![0; MAX_PACKET_BYTES]);
    for _ in 0..64 {
        match input.arbitrary::<Move<'_>>()? {
            Move::Packet { opcode, psn_delta, flags, mark, valid_key, offset, len, rest } => {
                let mark = match mark % 4 {
                    0 => Mark::OFFER,
                    1 => Mark::from_bits(mark),
                    _ => told.mark(),
                };
                let psn = qp.query().rq_psn.add(psn_delta as i32 as u32);
                let bth = Bth {
                    opcode: Opcode(opcode),
                    psn,
                    pkey: PKey::DEFAULT,
                    pad: flags & 3,
                    ack_req: flags & 4 != 0,
                    mark: if flags & 0x40 != 0 { mark } else { Mark::NONE },
                    ..Bth::default()
                };
                let mut bytes = bth.encode().to_vec();
                let headers = Opcode(opcode).info().map(|info| info.headers).unwrap_or_default();
                if valid_key && headers.contains(HeaderSet::XRCETH) {
                    bytes.extend(SRQ.to_be_bytes());
                }
                if valid_key && headers.contains(HeaderSet::FETH) {
                    bytes.extend([0, 0, 0, flags >> 3]);
                }
                if valid_key && headers != HeaderSet::PIGGYBACK | HeaderSet::COOKIE {
                    bytes.extend((base + u64::from(offset)).to_be_bytes());
                    bytes.extend(open.rkey.0.to_be_bytes());
                    bytes.extend(u32::from(len).to_be_bytes());
                }
                if valid_key && headers.contains(HeaderSet::PIGGYBACK) {
                    let acknowledged = qp.query().sq_psn.add(offset as i16 as u32);
                    bytes.extend([flags >> 3, 0, 0, 0]);
                    bytes.extend(acknowledged.get().to_be_bytes());
                    bytes.extend(told.encode());
                }
                bytes.extend(rest.iter().take(4096));
                if let Ok(packet) = Packet::parse(&bytes) {
                    let arrival =
                        RecvMeta { source: peer(), destination: own(), traffic_class: 0, hop_limit: 1, ecn_ce: false };
                    let _ = qp.handle_packet(&packet, &arrival, now, &mut owner);
                }
            }
            Move::Recv(offset) => {
                let sgl = Sgl::from_slice(&[sge(offset, open.lkey, base)]);
                let wr = RecvWr { wr_id: 1, sgl };
                if qp_type == QpType::XrcRecv {
                    owner.srq.push_back(wr);
                    posted += 1;
                } else {
                    posted += usize::from(qp.post_recv(wr, &mut owner).is_ok());
                }
            }
            Move::Send(kind) => {
                let remote = RemoteAddr { addr: 5, rkey: wire::RKey(9) };
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
                let sgl = Sgl::from_slice(&[Sge { len_bytes, ..sge(kind, open.lkey, base) }]);
                let xrc_srq = (qp_type == QpType::XrcSend).then_some(SRQ);
                let payload = Payload::Sgl(sgl);
                let wr = SendWr { wr_id: 2, op, flags: SendFlags::SIGNALED, payload, datagram: None, xrc_srq };
                posted += usize::from(qp.post_send(wr, &mut owner).is_ok());
            }
            Move::Elapse(micros) => {
                now = now + Duration::from_micros(u64::from(micros) * 10);
                qp.handle_timeout(now, &mut owner);
            }
        }
        for _ in 0..256 {
            let Some(transmit) = qp.poll_transmit(now, &mut out, &mut owner) else { break };
            let sent = Packet::parse(&out[..transmit.len_bytes]).expect("a well-formed packet");
            told = sent.cookie().unwrap_or(told);
        }
        assert!(owner.completions <= posted, "a completion for nothing");
    }
    let mut bytes = vec![0; EXPOSED];
    private.span().read(&mut bytes);
    assert!(bytes.iter().all(|byte| *byte == 0), "memory that was not exposed has changed");
    let _ = closed;
    Ok(())
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
