//! The attributes that a queue pair needs for its next state, `rdma_init_qp_attr(3)`.

use transport::{Access, AttrMask, QpAttr, QpState};
use wire::PKey;

use super::id_state::{CmIdState, IdPhase, PeerQp};
use crate::error::Error;
use crate::event::UDP_QKEY;

/// The attributes that take a queue pair to `state`.
pub(crate) fn attributes(id: &CmIdState, state: QpState) -> Result<(QpAttr, AttrMask), Error> {
    if id.binding.is_none() {
        return Err(Error::State("it is bound to no device"));
    }
    let mut attr = QpAttr { state, ..QpAttr::default() };
    let mask = match (state, id.is_datagram()) {
        (QpState::Init, true) => datagram_init(&mut attr),
        (QpState::Rtr, true) => AttrMask::STATE,
        (QpState::Rts, true) => datagram_rts(&mut attr, id),
        (QpState::Init, false) => init(&mut attr),
        (QpState::Rtr, false) => rtr(&mut attr, id)?,
        (QpState::Rts, false) => rts(&mut attr, id)?,
        _ => return Err(Error::Invalid("only for the states INIT, RTR and RTS")),
    };
    Ok((attr, mask))
}

fn datagram_init(attr: &mut QpAttr) -> AttrMask {
    (attr.port, attr.pkey, attr.qkey) = (1, PKey::DEFAULT, UDP_QKEY);
    AttrMask::STATE | AttrMask::PKEY_INDEX | AttrMask::PORT | AttrMask::QKEY
}

fn datagram_rts(attr: &mut QpAttr, id: &CmIdState) -> AttrMask {
    attr.sq_psn = id.psn;
    AttrMask::STATE | AttrMask::SQ_PSN
}

fn init(attr: &mut QpAttr) -> AttrMask {
    attr.port = 1;
    attr.access = Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC;
    AttrMask::STATE | AttrMask::PKEY_INDEX | AttrMask::PORT | AttrMask::ACCESS_FLAGS
}

fn rtr(attr: &mut QpAttr, id: &CmIdState) -> Result<AttrMask, Error> {
    let peer = peer_qp(id)?;
    attr.address = id.path().ok_or(Error::State("it has no route"))?;
    attr.path_mtu = peer.mtu;
    attr.dest_qpn = peer.qpn;
    attr.rq_psn = id.psn;
    let mut mask = AttrMask::STATE | AttrMask::AV | AttrMask::PATH_MTU | AttrMask::DEST_QPN | AttrMask::RQ_PSN;
    if id.qp_type.is_reliable() {
        attr.max_dest_rd_atomic = peer.responder_resources;
        mask |= AttrMask::MAX_DEST_RD_ATOMIC | AttrMask::MIN_RNR_TIMER;
    }
    Ok(mask)
}

fn rts(attr: &mut QpAttr, id: &CmIdState) -> Result<AttrMask, Error> {
    let peer = peer_qp(id)?;
    attr.sq_psn = peer.psn;
    let mut mask = AttrMask::STATE | AttrMask::SQ_PSN;
    if id.qp_type.is_reliable() {
        attr.timeout = id.ack_timeout.unwrap_or(peer.ack_timeout);
        attr.retry_count = peer.retry_count;
        attr.rnr_retry = peer.rnr_retry;
        attr.max_rd_atomic = peer.initiator_depth;
        mask |= AttrMask::TIMEOUT | AttrMask::RETRY_CNT | AttrMask::RNR_RETRY | AttrMask::MAX_QP_RD_ATOMIC;
    }
    Ok(mask)
}

fn peer_qp(id: &CmIdState) -> Result<&PeerQp, Error> {
    match (&id.peer_qp, id.phase) {
        (None, _) | (_, IdPhase::Ended) => Err(Error::State("there is no peer")),
        (Some(peer), _) => Ok(peer),
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use transport::{Mtu, QpType};
    use wire::{Psn, Qpn};

    use super::*;
    use crate::connections::id_state::Binding;
    use crate::space::PortSpace;

    /// Each side announces the first PSN that it expects, as Linux does.
    #[test]
    fn the_announced_psn_is_the_one_to_receive() {
        let mut id = CmIdState::new(PortSpace::Tcp, QpType::Rc);
        let gid = wire::Gid::from(IpAddr::from([10, 0, 0, 1]));
        id.binding = Some(Binding { device: "la_eth0".into(), gid, gid_index: 0, interface: 2, mtu: Mtu::B1024 });
        id.peer = Some(([10, 0, 0, 2], 7471).into());
        id.phase = IdPhase::Responded;
        id.psn = Psn::new(5);
        id.peer_qp = Some(PeerQp {
            qpn: Qpn::new(17),
            psn: Psn::new(8),
            responder_resources: 1,
            initiator_depth: 1,
            retry_count: 7,
            rnr_retry: 7,
            ack_timeout: 19,
            mtu: Mtu::B1024,
        });
        let (receive, _) = attributes(&id, QpState::Rtr).expect("attributes");
        let (send, _) = attributes(&id, QpState::Rts).expect("attributes");
        assert_eq!((receive.rq_psn, send.sq_psn), (Psn::new(5), Psn::new(8)));
    }
}
