//! One queue pair with its surroundings.

use core::time::Duration;

use wire::{Gid, Packet, Psn, QKey, Qpn};

use super::host::TestHost;
use crate::attr::{AttrMask, Mtu, QpAttr, QpCaps, QpInit, QpState, QpType, Tuning};
use crate::drop::DropReason;
use crate::limits::MAX_PACKET_BYTES;
use crate::memory::{Access, PdId};
use crate::network::{RecvMeta, Transmit};
use crate::qp::Qp;
use crate::time::Time;
use crate::wr::{AddressVector, Payload, RecvWr, SendFlags, SendOp, SendWr, Sgl, UdDestination};

/// The protection domain of test nodes.
pub(crate) const PD: PdId = PdId(7);

/// The queue key of test nodes.
pub(crate) const QKEY: QKey = QKey(0x1234);

/// Parameters of the queue pairs of a test.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) qp_type: QpType,
    pub(crate) mtu: Mtu,
    /// The MTU of the port.
    pub(crate) port_mtu: Mtu,
    pub(crate) caps: QpCaps,
    pub(crate) tuning: Tuning,
    pub(crate) access: Access,
    pub(crate) shared_recv: bool,
    pub(crate) signal_all: bool,
    /// First PSN in both directions.
    pub(crate) first_psn: Psn,
    pub(crate) timeout: u8,
    pub(crate) retry_count: u8,
    pub(crate) rnr_retry: u8,
    pub(crate) min_rnr_timer: u8,
    pub(crate) max_rd_atomic: u8,
    pub(crate) max_dest_rd_atomic: u8,
}

impl Setup {
    /// Something usual, with the smallest MTU so that messages take packets.
    pub(crate) fn new(qp_type: QpType) -> Setup {
        Setup {
            qp_type,
            mtu: Mtu::B256,
            port_mtu: Mtu::B4096,
            caps: QpCaps { max_send_wr: 64, max_recv_wr: 64, max_send_sge: 4, max_recv_sge: 4, max_inline_bytes: 64 },
            tuning: Tuning { min_ack_timeout: Duration::ZERO, ..Tuning::default() },
            access: Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC,
            shared_recv: false,
            signal_all: false,
            first_psn: Psn::new(0xff_fffd), // wraps at once
            timeout: 14,
            retry_count: 3,
            rnr_retry: 3,
            min_rnr_timer: 12,
            max_rd_atomic: 4,
            max_dest_rd_atomic: 4,
        }
    }
}

/// A queue pair, its host and its address.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) qp: Qp,
    pub(crate) host: TestHost,
    pub(crate) gid: Gid,
}

impl Node {
    /// In state Reset, at 10.0.0.`number`.
    pub(crate) fn new(setup: &Setup, number: u8) -> Node {
        let init = QpInit {
            qpn: Qpn::from_parts(number, 0x1100 + u16::from(number)),
            qp_type: setup.qp_type,
            pd: PD,
            caps: setup.caps,
            signal_all: setup.signal_all,
            shared_recv: setup.shared_recv.then_some(PD),
            tuning: setup.tuning,
            secret: 0x5ec2e7 + u64::from(number),
        };
        Node {
            qp: Qp::new(&init),
            host: TestHost::default(),
            gid: Gid::from(core::net::IpAddr::from([10, 0, 0, number])),
        }
    }

    /// The path to `peer`.
    pub(crate) fn path_to(&self, peer: &Node) -> AddressVector {
        AddressVector::new(self.gid, peer.gid)
    }

    /// Modifies at time zero, which must go well.
    pub(crate) fn modify(&mut self, attr: &QpAttr, mask: AttrMask) {
        self.qp.modify(attr, mask, &mut self.host).expect("modify");
    }

    /// Moves to `state` and nothing else.
    pub(crate) fn go(&mut self, state: QpState) {
        let attr = QpAttr { state, ..QpAttr::default() };
        self.modify(&attr, AttrMask::STATE);
    }

    /// Reset to Init.
    pub(crate) fn enter_init(&mut self, setup: &Setup) {
        let attr = QpAttr { state: QpState::Init, access: setup.access, qkey: QKEY, ..QpAttr::default() };
        let own = match self.qp.qp_type() {
            QpType::Ud => AttrMask::QKEY,
            _ => AttrMask::ACCESS_FLAGS,
        };
        self.modify(&attr, AttrMask::STATE | AttrMask::PKEY_INDEX | AttrMask::PORT | own);
    }

    /// Init to RTR, towards `peer` at `path`.
    pub(crate) fn enter_rtr(&mut self, setup: &Setup, path: AddressVector, peer: Qpn) {
        let attr = QpAttr {
            state: QpState::Rtr,
            address: path,
            path_mtu: setup.mtu,
            port_mtu: setup.port_mtu,
            dest_qpn: peer,
            rq_psn: setup.first_psn,
            max_dest_rd_atomic: setup.max_dest_rd_atomic,
            min_rnr_timer: setup.min_rnr_timer,
            ..QpAttr::default()
        };
        let connected = AttrMask::AV | AttrMask::PATH_MTU | AttrMask::DEST_QPN | AttrMask::RQ_PSN;
        let own = match self.qp.qp_type() {
            QpType::Rc | QpType::XrcRecv => connected | AttrMask::MAX_DEST_RD_ATOMIC | AttrMask::MIN_RNR_TIMER,
            QpType::Uc | QpType::XrcSend => connected,
            QpType::Ud => AttrMask::empty(),
        };
        self.modify(&attr, AttrMask::STATE | own);
    }

    /// RTR to RTS.
    pub(crate) fn enter_rts(&mut self, setup: &Setup) {
        let attr = QpAttr {
            state: QpState::Rts,
            sq_psn: setup.first_psn,
            timeout: setup.timeout,
            retry_count: setup.retry_count,
            rnr_retry: setup.rnr_retry,
            max_rd_atomic: setup.max_rd_atomic,
            ..QpAttr::default()
        };
        let own = match self.qp.qp_type() {
            QpType::Rc | QpType::XrcSend => {
                AttrMask::TIMEOUT | AttrMask::RETRY_CNT | AttrMask::RNR_RETRY | AttrMask::MAX_QP_RD_ATOMIC
            }
            QpType::XrcRecv => AttrMask::TIMEOUT,
            _ => AttrMask::empty(),
        };
        self.modify(&attr, AttrMask::STATE | AttrMask::SQ_PSN | own);
    }

    /// Posts a send work request, which must be taken.
    pub(crate) fn send(&mut self, wr: SendWr) {
        self.qp.post_send(wr, &mut self.host).expect("post_send");
    }

    /// Posts a receive work request, which must be taken.
    pub(crate) fn recv(&mut self, wr: RecvWr) {
        self.qp.post_recv(wr, &mut self.host).expect("post_recv");
    }

    /// The next packet that leaves.
    pub(crate) fn poll(&mut self, now: Time) -> Option<(Vec<u8>, Transmit)> {
        let mut out = vec![0xa5; MAX_PACKET_BYTES];
        let was_idle = self.qp.is_idle();
        let transmit = self.qp.poll_transmit(now, &mut out, &mut self.host)?;
        assert!(!was_idle, "it said that there was nothing to send");
        out.truncate(transmit.len_bytes);
        Some((out, transmit))
    }

    /// Takes in a packet that `transmit` describes.
    pub(crate) fn take_in(&mut self, bytes: &[u8], transmit: &Transmit, now: Time) -> Result<(), DropReason> {
        let packet = Packet::parse(bytes).expect("a well-formed packet");
        let arrival = RecvMeta {
            source: transmit.address.source,
            destination: transmit.address.destination,
            traffic_class: transmit.address.traffic_class,
            hop_limit: transmit.address.hop_limit,
            ecn_ce: transmit.address.traffic_class & 3 == 3,
        };
        self.qp.handle_packet(&packet, &arrival, now, &mut self.host)
    }
}

/// A signaled send work request.
pub(crate) fn send_wr(wr_id: u64, op: SendOp, payload: Payload) -> SendWr {
    SendWr { wr_id, op, flags: SendFlags::SIGNALED, payload, datagram: None, xrc_srq: None }
}

/// A receive work request.
pub(crate) fn recv_wr(wr_id: u64, sgl: Sgl) -> RecvWr {
    RecvWr { wr_id, sgl }
}

/// The destination of a UD send.
pub(crate) fn datagram(address: AddressVector, remote_qpn: Qpn) -> Box<UdDestination> {
    Box::new(UdDestination { address, remote_qpn, remote_qkey: QKEY })
}
