//! Two devices, and queue pairs between them.

use smallvec::smallvec;
pub(crate) use testkit::{PATIENCE, wait_until};
use transport::{
    Access, AddressVector, AttrMask, Completion, Mtu, Payload, QpAttr, QpCaps, QpState, QpType, RecvWr, RemoteAddr,
    SendFlags, SendOp, SendWr, Sge, Status, UdDestination,
};
use udp::PortGroup;
use wire::{Gid, Psn, QKey, Qpn};

use crate::handles::cq::Cq;
use crate::handles::device::Device;
use crate::handles::mr::Mr;
use crate::handles::pd::Pd;
use crate::handles::qp::{Qp, QpSpec};
use crate::handles::srq::Srq;
use crate::testing;

pub(crate) const QKEY: QKey = QKey(0x1234);
pub(crate) const ALL_ACCESS: Access = Access::LOCAL_WRITE
    .union(Access::REMOTE_READ)
    .union(Access::REMOTE_WRITE)
    .union(Access::REMOTE_ATOMIC)
    .union(Access::REMOTE_CALL)
    .union(Access::FLUSH_GLOBAL);
pub(crate) const CAPS: QpCaps =
    QpCaps { max_send_wr: 256, max_recv_wr: 256, max_send_sge: 4, max_recv_sge: 4, max_inline_bytes: 128 };
/// The bytes before the payload of a received datagram.
pub(crate) const GRH_BYTES: usize = 40;

/// Runs a test in a network namespace of its own, with a port group on its loop-back.
pub(crate) fn on_loopback(test: impl FnOnce(&PortGroup) + Send) {
    let path = testing::engine_path();
    udp::testing::in_new_netns(|| {
        testing::set_engine_path(path);
        test(&PortGroup::bind(8).unwrap());
    });
}

/// Runs a test with this path between its devices.
pub(crate) fn by(path: testing::EnginePath, test: impl FnOnce()) {
    testing::set_engine_path(path);
    test();
    testing::set_engine_path(testing::EnginePath::Packets);
}

/// A device with one queue pair, and memory for it.
pub(crate) struct Node {
    pub(crate) device: Device,
    pub(crate) pd: Pd,
    pub(crate) send_cq: Cq,
    pub(crate) recv_cq: Cq,
    pub(crate) qp: Qp,
    pub(crate) mr: Mr,
    pub(crate) gid: Gid,
}

/// The attributes of a node that tests vary.
#[derive(Clone, Copy)]
pub(crate) struct Setup {
    pub(crate) qp_type: QpType,
    pub(crate) memory_bytes: usize,
    pub(crate) cq_capacity: u32,
    pub(crate) ipv6: bool,
}

impl Setup {
    pub(crate) fn new(qp_type: QpType) -> Setup {
        Setup { qp_type, memory_bytes: 1 << 20, cq_capacity: 1024, ipv6: false }
    }
}

/// A GID of the device, of the wanted address family.
pub(crate) fn gid_of(device: &Device, ipv6: bool) -> Gid {
    let usable = |gid: &Gid| match gid.ip() {
        std::net::IpAddr::V4(_) => !ipv6,
        std::net::IpAddr::V6(v6) => ipv6 && !v6.is_unicast_link_local(),
    };
    device.port().gids.into_iter().find(usable).expect("an address")
}

impl Node {
    pub(crate) fn new(device: Device, setup: Setup) -> Node {
        let send_cq = device.create_cq(setup.cq_capacity, None, 1).unwrap();
        let recv_cq = device.create_cq(setup.cq_capacity, None, 2).unwrap();
        let pd = device.alloc_pd().unwrap();
        Node::with(device, setup, &pd, (send_cq, recv_cq), None)
    }

    pub(crate) fn with(device: Device, setup: Setup, pd: &Pd, (send_cq, recv_cq): (Cq, Cq), srq: Option<&Srq>) -> Node {
        let mr = pd.allocate(setup.memory_bytes, ALL_ACCESS).unwrap();
        let spec = QpSpec {
            qp_type: setup.qp_type,
            pd,
            send_cq: &send_cq,
            recv_cq: &recv_cq,
            srq,
            caps: CAPS,
            signal_all: false,
        };
        let qp = device.create_qp(&spec).unwrap();
        let gid = gid_of(&device, setup.ipv6);
        Node { device, pd: pd.clone(), send_cq, recv_cq, qp, mr, gid }
    }

    /// A node whose completions all go to one queue.
    pub(crate) fn with_cq(device: Device, setup: Setup, cq: &Cq) -> Node {
        let pd = device.alloc_pd().unwrap();
        Node::with(device, setup, &pd, (cq.clone(), cq.clone()), None)
    }

    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
        self.mr.region().unwrap().span().part(offset, bytes.len()).unwrap().write(bytes);
    }

    pub(crate) fn read(&self, offset: usize, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.mr.region().unwrap().span().part(offset, len).unwrap().read(&mut bytes);
        bytes
    }

    pub(crate) fn sge(&self, offset: usize, len: usize) -> Sge {
        Sge { addr: self.mr.addr() + offset as u64, len_bytes: len as u32, lkey: self.mr.lkey() }
    }

    /// Its memory, as a peer names it.
    pub(crate) fn remote(&self, offset: usize) -> RemoteAddr {
        RemoteAddr { addr: self.mr.addr() + offset as u64, rkey: self.mr.rkey() }
    }

    pub(crate) fn post_recv(&self, wr_id: u64, offset: usize, len: usize) {
        self.qp.post_recv([RecvWr { wr_id, sgl: smallvec![self.sge(offset, len)] }]).unwrap();
    }

    pub(crate) fn send_wr(&self, wr_id: u64, op: SendOp, offset: usize, len: usize) -> SendWr {
        SendWr {
            wr_id,
            op,
            flags: SendFlags::SIGNALED,
            payload: Payload::Sgl(smallvec![self.sge(offset, len)]),
            datagram: None,
            xrc_srq: None,
        }
    }

    pub(crate) fn send(&self, wr_id: u64, op: SendOp, offset: usize, len: usize) {
        self.qp.post_send([self.send_wr(wr_id, op, offset, len)]).unwrap();
    }

    /// A datagram to another node.
    pub(crate) fn datagram_to(&self, to: Gid, remote_qpn: Qpn) -> UdDestination {
        UdDestination { address: AddressVector::new(self.gid, to), remote_qpn, remote_qkey: QKEY }
    }

    pub(crate) fn connect(&self, to: &Node, mtu: Mtu) {
        connect(&self.qp, self.gid, to.qp.qpn(), to.gid, mtu);
    }

    /// UD: brings the queue pair to RTS.
    pub(crate) fn ready(&self) {
        let attr = QpAttr { state: QpState::Init, qkey: QKEY, ..QpAttr::default() };
        let base = AttrMask::STATE | AttrMask::PKEY_INDEX | AttrMask::PORT | AttrMask::QKEY;
        self.qp.modify(&attr, base).unwrap();
        self.qp.modify(&QpAttr { state: QpState::Rtr, ..attr }, AttrMask::STATE).unwrap();
        self.qp.modify(&QpAttr { state: QpState::Rts, ..attr }, AttrMask::STATE | AttrMask::SQ_PSN).unwrap();
    }

    /// The next completion of the receive queue.
    pub(crate) fn received(&self) -> Completion {
        next(&self.recv_cq)
    }

    /// The next completion of the send queue, which must be a success.
    pub(crate) fn sent(&self) -> Completion {
        let completion = next(&self.send_cq);
        assert_eq!(completion.status, Status::Success, "{completion:?}: {:?}", self.qp.failure());
        completion
    }
}

/// Polls until a completion comes.
pub(crate) fn next(cq: &Cq) -> Completion {
    let mut out = Vec::new();
    wait_until("a completion", || cq.poll(&mut out, 1).unwrap() == 1);
    out[0]
}

/// Brings an RC, UC or XRC queue pair to RTS.
pub(crate) fn connect(qp: &Qp, gid: Gid, remote_qpn: Qpn, remote_gid: Gid, mtu: Mtu) {
    connect_with_timeout(qp, AddressVector::new(gid, remote_gid), remote_qpn, mtu, 16);
}

/// Does the same with a timeout code.
pub(crate) fn connect_with_timeout(qp: &Qp, address: AddressVector, remote_qpn: Qpn, mtu: Mtu, timeout: u8) {
    let attr = QpAttr {
        access: ALL_ACCESS,
        address,
        path_mtu: mtu,
        timeout,
        retry_count: 7,
        rnr_retry: 7,
        rq_psn: Psn::new(0xff_fff0),
        sq_psn: Psn::new(0xff_fff0),
        max_rd_atomic: 16,
        max_dest_rd_atomic: 16,
        min_rnr_timer: 1,
        dest_qpn: remote_qpn,
        ..QpAttr::default()
    };
    let init = AttrMask::STATE | AttrMask::PKEY_INDEX | AttrMask::PORT | AttrMask::ACCESS_FLAGS;
    let mut rtr = AttrMask::STATE | AttrMask::AV | AttrMask::PATH_MTU | AttrMask::DEST_QPN | AttrMask::RQ_PSN;
    let mut rts = AttrMask::STATE | AttrMask::SQ_PSN;
    if matches!(qp.qp_type(), QpType::Rc | QpType::XrcRecv) {
        rtr |= AttrMask::MAX_DEST_RD_ATOMIC | AttrMask::MIN_RNR_TIMER;
    }
    if matches!(qp.qp_type(), QpType::Rc | QpType::XrcSend) {
        rts |= AttrMask::RETRY_CNT | AttrMask::RNR_RETRY | AttrMask::MAX_QP_RD_ATOMIC;
    }
    if qp.qp_type().is_reliable() {
        rts |= AttrMask::TIMEOUT;
    }
    for (state, mask) in [(QpState::Init, init), (QpState::Rtr, rtr), (QpState::Rts, rts)] {
        qp.modify(&QpAttr { state, ..attr }, mask).unwrap();
    }
}

/// Two connected nodes on engines of their own.
pub(crate) fn pair(group: &PortGroup, setup: Setup) -> (Node, Node) {
    let node = |slot| Node::new(testing::open(group, slot, "lo"), setup);
    let (a, b) = (node(1), node(2));
    link(&a, &b);
    (a, b)
}

/// Connects two nodes, or makes them ready if they are UD.
pub(crate) fn link(a: &Node, b: &Node) {
    if a.qp.qp_type() == QpType::Ud {
        a.ready();
        b.ready();
    } else {
        a.connect(b, Mtu::B1024);
        b.connect(a, Mtu::B1024);
    }
}

/// Bytes that depend on their position and on the seed of their message.
pub(crate) fn pattern(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251 + seed * 31) as u8).collect()
}
