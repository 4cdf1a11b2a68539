//! The connection that a transcript is about.

use wire::{PKey, Psn, Qpn};

use crate::attr::{Mtu, QpType};
use crate::qp::Qp;

/// The fields that all packets of a connection share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CapturedConnection {
    pub(super) is_reliable: bool,
    pub(super) local: Qpn,
    pub(super) remote: Qpn,
    pub(super) path_mtu: Mtu,
    pub(super) pkey: PKey,
    pub(super) sq_psn: Psn,
    pub(super) rq_psn: Psn,
}

impl CapturedConnection {
    /// The connection of `qp`, as its attributes are now.
    pub fn of(qp: &Qp) -> CapturedConnection {
        let attr = qp.query();
        CapturedConnection {
            is_reliable: qp.qp_type() != QpType::Uc,
            local: qp.qpn(),
            remote: attr.dest_qpn,
            path_mtu: attr.packet_mtu(),
            pkey: attr.pkey,
            sq_psn: attr.sq_psn,
            rq_psn: attr.rq_psn,
        }
    }
}
