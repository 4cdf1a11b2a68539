//! The attributes that a queue pair needs for its next state, `rdma_init_qp_attr(3)`.

use transport::{Access, AttrMask, QpAttr, QpState};
use wire::PKey;

use super::Id;
use super::multicast::UDP_QKEY;
use crate::error::Error;
use crate::state::{Entry, Phase, Remote};

impl Id {
    /// What to modify the queue pair with to take it to `state`: Init, Rtr or Rts.
    ///
    /// # Errors
    /// If the id does not know that yet, or the state is another.
    pub fn qp_attr(&self, state: QpState) -> Result<(QpAttr, AttrMask), Error> {
        self.look(|entry| attributes(entry, state)).unwrap_or(Err(Error::State("it was destroyed")))
    }
}

fn attributes(entry: &Entry, state: QpState) -> Result<(QpAttr, AttrMask), Error> {
    if entry.binding.is_none() {
        return Err(Error::State("it is bound to no device"));
    }
    let mut attr = QpAttr { state, ..QpAttr::default() };
    let mask = match (state, entry.is_datagram()) {
        (QpState::Init, true) => datagram_init(&mut attr),
        (QpState::Rtr, true) => AttrMask::STATE,
        (QpState::Rts, true) => datagram_rts(&mut attr, entry),
        (QpState::Init, false) => init(&mut attr),
        (QpState::Rtr, false) => rtr(&mut attr, entry)?,
        (QpState::Rts, false) => rts(&mut attr, entry)?,
        _ => return Err(Error::Invalid("only for the states INIT, RTR and RTS")),
    };
    Ok((attr, mask))
}

fn datagram_init(attr: &mut QpAttr) -> AttrMask {
    (attr.port, attr.pkey, attr.qkey) = (1, PKey::DEFAULT, UDP_QKEY);
    AttrMask::STATE | AttrMask::PKEY_INDEX | AttrMask::PORT | AttrMask::QKEY
}

fn datagram_rts(attr: &mut QpAttr, entry: &Entry) -> AttrMask {
    attr.sq_psn = entry.psn;
    AttrMask::STATE | AttrMask::SQ_PSN
}

fn init(attr: &mut QpAttr) -> AttrMask {
    attr.port = 1;
    attr.access = Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC;
    AttrMask::STATE | AttrMask::PKEY_INDEX | AttrMask::PORT | AttrMask::ACCESS_FLAGS
}

fn rtr(attr: &mut QpAttr, entry: &Entry) -> Result<AttrMask, Error> {
    let remote = remote(entry)?;
    attr.address = entry.path().ok_or(Error::State("it has no route"))?;
    attr.path_mtu = remote.mtu;
    attr.dest_qpn = remote.qpn;
    attr.rq_psn = entry.psn;
    let mut mask = AttrMask::STATE | AttrMask::AV | AttrMask::PATH_MTU | AttrMask::DEST_QPN | AttrMask::RQ_PSN;
    if entry.qp_type.is_reliable() {
        attr.max_dest_rd_atomic = remote.responder_resources;
        mask |= AttrMask::MAX_DEST_RD_ATOMIC | AttrMask::MIN_RNR_TIMER;
    }
    Ok(mask)
}

fn rts(attr: &mut QpAttr, entry: &Entry) -> Result<AttrMask, Error> {
    let remote = remote(entry)?;
    attr.sq_psn = remote.psn;
    let mut mask = AttrMask::STATE | AttrMask::SQ_PSN;
    if entry.qp_type.is_reliable() {
        attr.timeout = entry.ack_timeout.unwrap_or(remote.ack_timeout);
        attr.retry_count = remote.retry_count;
        attr.rnr_retry = remote.rnr_retry;
        attr.max_rd_atomic = remote.initiator_depth;
        mask |= AttrMask::TIMEOUT | AttrMask::RETRY_CNT | AttrMask::RNR_RETRY | AttrMask::MAX_QP_RD_ATOMIC;
    }
    Ok(mask)
}

fn remote(entry: &Entry) -> Result<&Remote, Error> {
    match (&entry.remote, entry.phase) {
        (None, _) | (_, Phase::Ended) => Err(Error::State("there is no peer")),
        (Some(remote), _) => Ok(remote),
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use transport::{Mtu, QpType};
    use wire::{Psn, Qpn};

    use super::*;
    use crate::id::Binding;
    use crate::queue::EventQueue;
    use crate::space::PortSpace;

    /// Each end announces the PSN that it wants to receive first, as Linux does.
    #[test]
    fn what_an_end_announces_is_what_it_receives() {
        let mut entry = Entry::new(EventQueue::new().expect("a queue"), PortSpace::Tcp, QpType::Rc);
        let gid = wire::Gid::from(IpAddr::from([10, 0, 0, 1]));
        entry.binding = Some(Binding { device: "la_eth0".into(), gid, gid_index: 0, interface: 2, mtu: Mtu::B1024 });
        entry.peer = Some(([10, 0, 0, 2], 7471).into());
        entry.phase = Phase::Responded;
        entry.psn = Psn::new(5);
        entry.remote = Some(Remote {
            qpn: Qpn::new(17),
            psn: Psn::new(8),
            responder_resources: 1,
            initiator_depth: 1,
            retry_count: 7,
            rnr_retry: 7,
            ack_timeout: 19,
            mtu: Mtu::B1024,
        });
        let (receive, _) = attributes(&entry, QpState::Rtr).expect("attributes");
        let (send, _) = attributes(&entry, QpState::Rts).expect("attributes");
        assert_eq!((receive.rq_psn, send.sq_psn), (Psn::new(5), Psn::new(8)));
    }
}
