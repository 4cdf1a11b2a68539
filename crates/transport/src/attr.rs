//! Attributes of a queue pair, as the verbs `create_qp`, `modify_qp` and `query_qp` carry them.

use core::time::Duration;

use wire::{PKey, Psn, QKey, Qpn};

use crate::congestion::dcqcn::Dcqcn;
use crate::memory::{Access, PdId};
use crate::wr::AddressVector;

/// The transport service of a queue pair, numbered as `enum ibv_qp_type`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum QpType {
    /// Reliable connection.
    Rc = 2,
    /// Unreliable connection.
    Uc = 3,
    /// Unreliable datagram.
    Ud = 4,
    /// Extended reliable connection, initiator: sends to shared receive queues by number and
    /// receives nothing (IB specification, Annex A14).
    XrcSend = 9,
    /// Extended reliable connection, target: receives into the shared receive queue that each
    /// request names, and sends nothing.
    XrcRecv = 10,
}

impl QpType {
    /// Whether requests are acknowledged and repeated until they are: RC and XRC.
    pub const fn is_reliable(self) -> bool {
        matches!(self, QpType::Rc | QpType::XrcSend | QpType::XrcRecv)
    }

    /// Whether it is one end of an extended reliable connection.
    pub const fn is_xrc(self) -> bool {
        matches!(self, QpType::XrcSend | QpType::XrcRecv)
    }
}

/// The state of a queue pair, numbered as `enum ibv_qp_state`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[repr(u32)]
pub enum QpState {
    /// Just made; nothing may be posted.
    Reset = 0,
    /// Receives may be posted; nothing moves.
    Init = 1,
    /// Ready to receive.
    Rtr = 2,
    /// Ready to send.
    Rts = 3,
    /// Send queue draining, then drained.
    Sqd = 4,
    /// Send queue in error (UC, UD): receives continue.
    Sqe = 5,
    /// Everything is flushed.
    Error = 6,
}

/// Path MTU in bytes of payload per packet, numbered as `enum ibv_mtu`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[repr(u32)]
pub enum Mtu {
    /// 256 bytes.
    B256 = 1,
    /// 512 bytes.
    B512 = 2,
    /// 1024 bytes.
    B1024 = 3,
    /// 2048 bytes.
    B2048 = 4,
    /// 4096 bytes.
    B4096 = 5,
}

impl Mtu {
    /// All of them, smallest first.
    pub const ALL: [Mtu; 5] = [Mtu::B256, Mtu::B512, Mtu::B1024, Mtu::B2048, Mtu::B4096];

    /// The size in bytes.
    pub const fn bytes(self) -> u32 {
        128 << self as u32
    }

    /// The largest that fits packets of `ip_mtu` bytes with every header that RoCEv2 may add.
    pub fn fitting(ip_mtu: u32) -> Option<Mtu> {
        // IPv6 40 + UDP 8 + BTH 12 + the largest extension with payload (XRCETH + RETH + `ImmDt` 24) + ICRC 4.
        Mtu::ALL.into_iter().rev().find(|mtu| mtu.bytes() + 40 + 8 + 12 + 24 + 4 <= ip_mtu)
    }
}

/// Sizes of a queue pair's queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpCaps {
    /// Send WQEs outstanding.
    pub max_send_wr: u32,
    /// Receive WQEs outstanding; nothing with a shared receive queue.
    pub max_recv_wr: u32,
    /// List entries of a send WQE.
    pub max_send_sge: u32,
    /// List entries of a receive WQE.
    pub max_recv_sge: u32,
    /// Bytes of inline data of a send WQE.
    pub max_inline_bytes: u32,
}

/// The parameters of a new queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpInit {
    /// Its number.
    pub qpn: Qpn,
    /// Its service.
    pub qp_type: QpType,
    /// Its protection domain.
    pub pd: PdId,
    /// Its sizes.
    pub caps: QpCaps,
    /// Every send completion is reported, as if all were signaled.
    pub signal_all: bool,
    /// Receive WQEs come from a shared queue, and their buffers lie in that queue's protection domain.
    pub shared_recv: Option<PdId>,
    /// Its behaviour where the specification leaves a choice.
    pub tuning: Tuning,
    /// Random, and secret: the cookies that prove packets of a peer are drawn from it.
    pub secret: u64,
}

/// Choices that the specification leaves to the implementer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tuning {
    /// Bytes in flight of one queue pair at first.
    pub window_initial_bytes: u32,
    /// At most.
    pub window_max_bytes: u32,
    /// ACKs carry the number of posted receive WQEs (9.7.7.2), else "no flow control".
    pub advertise_credits: bool,
    /// Selective retransmission with peers that support it: after a loss only the missing packets are sent again.
    /// Other peers get go-back-N.
    pub selective: bool,
    /// Requests carry ACKs (piggyback), with peers that support it: one packet instead of two. Needs `selective`.
    pub piggyback: bool,
    /// Requests of Longarm's own (docs/extensions.md) are carried out, and peers are told. Needs `selective`.
    pub extensions: bool,
    /// Lower bound of the ACK timeout: a delay by the scheduler is not a loss.
    pub min_ack_timeout: Duration,
    /// RC: congestion control by marks of switches (DCQCN).
    pub dcqcn: Dcqcn,
    /// UD: payload of a datagram at most, which is the port's MTU. A UD queue pair
    /// has no `path_mtu` of its own (IB specification 11.2.5.2: RC and UC only).
    pub max_datagram: Mtu,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning {
            window_initial_bytes: 128 << 10,
            window_max_bytes: 256 << 10,
            advertise_credits: true,
            selective: true,
            piggyback: true,
            extensions: true,
            min_ack_timeout: Duration::from_millis(2),
            dcqcn: Dcqcn::default(),
            max_datagram: Mtu::B4096,
        }
    }
}

bitflags::bitflags! {
    /// The attributes that a `modify_qp` sets, with the bits of `enum ibv_qp_attr_mask`.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct AttrMask: u32 {
        /// `state`
        const STATE = 1;
        /// `current_state`
        const CUR_STATE = 1 << 1;
        /// Event when the send queue has drained.
        const EN_SQD_ASYNC_NOTIFY = 1 << 2;
        /// `access`
        const ACCESS_FLAGS = 1 << 3;
        /// `pkey_index`
        const PKEY_INDEX = 1 << 4;
        /// `port`
        const PORT = 1 << 5;
        /// `qkey`
        const QKEY = 1 << 6;
        /// `address`
        const AV = 1 << 7;
        /// `path_mtu`
        const PATH_MTU = 1 << 8;
        /// `timeout`
        const TIMEOUT = 1 << 9;
        /// `retry_count`
        const RETRY_CNT = 1 << 10;
        /// `rnr_retry`
        const RNR_RETRY = 1 << 11;
        /// `rq_psn`
        const RQ_PSN = 1 << 12;
        /// `max_rd_atomic`
        const MAX_QP_RD_ATOMIC = 1 << 13;
        /// `alternate path`: refused, there is no path migration on Ethernet.
        const ALT_PATH = 1 << 14;
        /// `min_rnr_timer`
        const MIN_RNR_TIMER = 1 << 15;
        /// `sq_psn`
        const SQ_PSN = 1 << 16;
        /// `max_dest_rd_atomic`
        const MAX_DEST_RD_ATOMIC = 1 << 17;
        /// Path migration state.
        const PATH_MIG_STATE = 1 << 18;
        /// Queue sizes: refused, they are fixed.
        const CAP = 1 << 19;
        /// `dest_qpn`
        const DEST_QPN = 1 << 20;
        /// Packet pacing.
        const RATE_LIMIT = 1 << 25;
    }
}

/// The attributes themselves. Only those that the mask names count in a modify.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpAttr {
    /// The state to enter (modify), or the present one (query).
    pub state: QpState,
    /// The state that the caller assumes; the call fails if it is another.
    pub current_state: QpState,
    /// Ask for [`QpEvent::SendQueueDrained`](crate::QpEvent::SendQueueDrained).
    pub notify_drained: bool,
    /// The rights of peers through this queue pair.
    pub access: Access,
    /// Index in the partition key table: 0 only.
    pub pkey_index: u16,
    /// Physical port: 1 only.
    pub port: u8,
    /// UD: the key that packets must bring.
    pub qkey: QKey,
    /// RC, UC: the path to the peer.
    pub address: AddressVector,
    /// RC, UC: payload per packet, as the two ends have agreed.
    pub path_mtu: Mtu,
    /// RC, UC: the largest payload that the port carries, which may be less. Taken over with `path_mtu`;
    /// see [`packet_mtu`](QpAttr::packet_mtu).
    pub port_mtu: Mtu,
    /// RC: ACK timeout code, 4.096 µs · 2^code; 0 means no timeout. 5 bits.
    pub timeout: u8,
    /// RC: retransmissions of a request without an answer. 3 bits.
    pub retry_count: u8,
    /// RC: retransmissions after an RNR NAK; 7 means without limit. 3 bits.
    pub rnr_retry: u8,
    /// First PSN that the peer will send.
    pub rq_psn: Psn,
    /// First PSN that we send.
    pub sq_psn: Psn,
    /// RC: READs and atomics that we have outstanding at most.
    pub max_rd_atomic: u8,
    /// RC: READs and atomics that the peer may have outstanding.
    pub max_dest_rd_atomic: u8,
    /// RC: the wait that our RNR NAK asks for, as a code of 5 bits (table 45).
    pub min_rnr_timer: u8,
    /// RC, UC: the peer's number.
    pub dest_qpn: Qpn,
    /// The partition key in use.
    pub pkey: PKey,
    /// Query only: the send queue is still draining.
    pub draining: bool,
}

impl QpAttr {
    /// RC, UC: payload of a full packet. Programs may ask for a path MTU that the port does not carry. rxe and mlx5
    /// accept it, and lose every packet that is too long. Here packets are at most as long as the port carries, so
    /// two ends on the same network agree.
    pub fn packet_mtu(&self) -> Mtu {
        self.path_mtu.min(self.port_mtu)
    }
}

impl Default for QpAttr {
    fn default() -> QpAttr {
        QpAttr {
            state: QpState::Reset,
            current_state: QpState::Reset,
            notify_drained: false,
            access: Access::empty(),
            pkey_index: 0,
            port: 1,
            qkey: QKey(0),
            address: AddressVector::new(wire::Gid::default(), wire::Gid::default()),
            path_mtu: Mtu::B1024,
            port_mtu: Mtu::B4096,
            timeout: 0,
            retry_count: 0,
            rnr_retry: 0,
            rq_psn: Psn::default(),
            sq_psn: Psn::default(),
            max_rd_atomic: 0,
            max_dest_rd_atomic: 0,
            min_rnr_timer: 0,
            dest_qpn: Qpn::default(),
            pkey: PKey::DEFAULT,
            draining: false,
        }
    }
}
