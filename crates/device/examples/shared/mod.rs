//! A device with one reliable queue pair, for the examples that measure.

use device::{
    Access, AddressVector, AttrMask, Cq, Device, Gid, Mr, Mtu, Pd, Psn, QKey, Qp, QpAttr, QpCaps, QpSpec, QpState,
    QpType, Qpn, Sge,
};
use longarm_device as device;

/// One side.
pub(crate) struct Side {
    pub(crate) device: Device,
    _pd: Pd,
    pub(crate) cq: Cq,
    pub(crate) qp: Qp,
    pub(crate) mr: Mr,
    pub(crate) gid: Gid,
}

impl Side {
    /// A side with this much memory, and queues of this depth.
    pub(crate) fn new(device: Device, memory_bytes: usize, depth: usize) -> Side {
        let pd = device.alloc_pd().expect("a protection domain");
        let access = Access::LOCAL_WRITE | Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
        let mr = pd.allocate(memory_bytes, access).expect("memory");
        let depth = depth as u32;
        let cq = device.create_cq(4 * depth, None, 0).expect("a completion queue");
        let caps =
            QpCaps { max_send_wr: depth, max_recv_wr: depth, max_send_sge: 1, max_recv_sge: 1, max_inline_bytes: 64 };
        let spec =
            QpSpec { qp_type: QpType::Rc, pd: &pd, send_cq: &cq, recv_cq: &cq, srq: None, caps, signal_all: false };
        let qp = device.create_qp(&spec).expect("a queue pair");
        let gid = device.port().gids.into_iter().find(|gid| gid.ip().is_ipv4()).expect("an IPv4 address");
        Side { device, _pd: pd, cq, qp, mr, gid }
    }

    /// Connects it with a queue pair at an address.
    pub(crate) fn connect(&self, dest_qpn: Qpn, gid: Gid) {
        let attr = QpAttr {
            access: Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC,
            address: AddressVector::new(self.gid, gid),
            path_mtu: Mtu::B4096,
            timeout: 14,
            retry_count: 7,
            rnr_retry: 7,
            rq_psn: Psn::new(1),
            sq_psn: Psn::new(1),
            max_rd_atomic: 16,
            max_dest_rd_atomic: 16,
            min_rnr_timer: 1,
            dest_qpn,
            qkey: QKey(0),
            ..QpAttr::default()
        };
        let base = AttrMask::STATE;
        let init = base | AttrMask::PKEY_INDEX | AttrMask::PORT | AttrMask::ACCESS_FLAGS;
        let responder = AttrMask::RQ_PSN | AttrMask::MAX_DEST_RD_ATOMIC | AttrMask::MIN_RNR_TIMER;
        let rtr = base | AttrMask::AV | AttrMask::PATH_MTU | AttrMask::DEST_QPN | responder;
        let retries = AttrMask::TIMEOUT | AttrMask::RETRY_CNT | AttrMask::RNR_RETRY;
        let rts = base | AttrMask::SQ_PSN | AttrMask::MAX_QP_RD_ATOMIC | retries;
        for (state, mask) in [(QpState::Init, init), (QpState::Rtr, rtr), (QpState::Rts, rts)] {
            self.qp.modify(&QpAttr { state, ..attr }, mask).expect("the state table");
        }
    }

    /// A part of its memory.
    pub(crate) fn sge(&self, offset: usize, len_bytes: usize) -> Sge {
        Sge { addr: self.mr.addr() + offset as u64, len_bytes: len_bytes as u32, lkey: self.mr.lkey() }
    }
}
