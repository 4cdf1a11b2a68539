//! Queue pairs that have no peer yet.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::marker::PhantomData;
use std::net::IpAddr;

use transport::{AttrMask, QpAttr, QpState, QpType};
use wire::{Gid, Psn, Qpn};

use super::connector::{ConnectParams, QpConnector};
use super::core::QueuePairCore;
use super::{Connected, ConnectionInfo, QueuePair, Rc};
use crate::buffer::Buffer;
use crate::error::ConnectError;
use crate::flight::Loan;
use crate::open_device::Device;
use crate::receive::Receive;

/// A queue pair without a peer. Receives can be posted, and should be, so that the peer finds
/// them when it begins to send; everything else comes with the connection.
///
/// ```no_run
/// # use longarm::{ConnectionInfo, Device};
/// # fn tell_peer(_: &[u8]) {}
/// # fn hear_from_peer() -> Vec<u8> { Vec::new() }
/// # let domain = Device::open()?.protection_domain()?;
/// # let cq = domain.device().completion_queue()?;
/// let qp = domain.rc(&cq).build()?;
/// let message = qp.recv(domain.allocate(4096)?).start();
/// tell_peer(&qp.connection_info().to_bytes());
/// let qp = qp.connect(&ConnectionInfo::from_bytes(&hear_from_peer())?)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Unconnected<S = Rc> {
    core: QueuePairCore,
    gid: Gid,
    /// The program chose the address.
    gid_is_chosen: bool,
    first_psn: Psn,
    params: ConnectParams,
    service: PhantomData<S>,
}

impl<S: Connected> Unconnected<S> {
    pub(super) fn new(core: QueuePairCore, params: ConnectParams, gid: Gid, gid_is_chosen: bool) -> Unconnected<S> {
        Unconnected { core, params, gid, gid_is_chosen, first_psn: random_psn(), service: PhantomData }
    }

    /// The information that the peer needs to connect to this queue pair.
    pub fn connection_info(&self) -> ConnectionInfo {
        ConnectionInfo {
            service: S::TYPE,
            qpn: self.core.qpn(),
            gid: self.gid,
            first_psn: self.first_psn,
            mtu: self.params.mtu,
            read_depth: self.params.read_depth,
        }
    }

    /// Its number.
    pub fn qpn(&self) -> Qpn {
        self.core.qpn()
    }

    /// Uses our address `ip` from now on, if the device has it; returns whether it has.
    pub fn use_address(&mut self, ip: IpAddr) -> bool {
        let gid = Gid::from(ip);
        let known = self.core.device().port().gids.contains(&gid);
        if known {
            self.gid = gid;
            self.gid_is_chosen = true;
        }
        known
    }

    /// Posts a buffer for one of the peer's first messages.
    pub fn recv(&self, buffer: Buffer) -> Receive<'_> {
        Receive::new(&self.core, Loan::Buffer(buffer))
    }

    /// Connects to the peer whose address this is. The peer does the same with ours; until it
    /// has, requests are repeated (RC) or lost (UC).
    ///
    /// # Errors
    /// If the two do not fit together, or the device refuses. The queue pair is gone then, and
    /// buffers that were posted come back as flushed.
    pub fn connect(self, peer: &ConnectionInfo) -> Result<QueuePair<S>, ConnectError> {
        let (ours, theirs) = (S::TYPE, peer.service);
        if ours != theirs {
            return Err(ConnectError::OtherService { ours, theirs });
        }
        if self.device().capabilities().by_address_only {
            return Err(ConnectError::ByAddressOnly);
        }
        let source = self.core.source_for(peer.gid, self.gid);
        let source = source.ok_or(ConnectError::NoRoute { peer: peer.gid.ip() })?;
        self.connector().connect(self.receive_attributes(peer, source), self.send_attributes(peer))?;
        Ok(QueuePair::new(self.core, *peer))
    }

    /// The device that it is on.
    pub fn device(&self) -> &Device {
        self.core.device()
    }

    /// The address that the program has chosen for it, if it has.
    pub(crate) fn chosen_address(&self) -> Option<IpAddr> {
        self.gid_is_chosen.then(|| self.gid.ip())
    }

    /// A second handle, which takes it through its states.
    pub(crate) fn connector(&self) -> QpConnector {
        QpConnector::new(self.core.handle().clone(), self.params, self.core.has_srq())
    }

    /// The same queue pair, after its [connector](Unconnected::connector) connected it.
    pub(crate) fn into_connected(self, peer: ConnectionInfo) -> QueuePair<S> {
        QueuePair::new(self.core, peer)
    }

    /// Our attributes for the step to RTR; [`QpConnector::connect`] sets retries and depths.
    fn receive_attributes(&self, peer: &ConnectionInfo, source: Gid) -> (QpAttr, AttrMask) {
        let attr = QpAttr {
            state: QpState::Rtr,
            address: transport::AddressVector::new(source, peer.gid),
            path_mtu: self.params.mtu.min(peer.mtu),
            dest_qpn: peer.qpn,
            rq_psn: peer.first_psn,
            max_dest_rd_atomic: self.params.read_depth,
            ..QpAttr::default()
        };
        let common = AttrMask::STATE | AttrMask::AV | AttrMask::PATH_MTU | AttrMask::DEST_QPN | AttrMask::RQ_PSN;
        let reliable = AttrMask::MAX_DEST_RD_ATOMIC | AttrMask::MIN_RNR_TIMER;
        (attr, only_if_reliable::<S>(common, reliable))
    }

    /// Our attributes for the step to RTS.
    fn send_attributes(&self, peer: &ConnectionInfo) -> (QpAttr, AttrMask) {
        let (state, sq_psn, max_rd_atomic) = (QpState::Rts, self.first_psn, peer.read_depth);
        let attr = QpAttr { state, sq_psn, max_rd_atomic, ..QpAttr::default() };
        let common = AttrMask::STATE | AttrMask::SQ_PSN;
        let reliable = AttrMask::TIMEOUT | AttrMask::RETRY_CNT | AttrMask::RNR_RETRY | AttrMask::MAX_QP_RD_ATOMIC;
        (attr, only_if_reliable::<S>(common, reliable))
    }
}

fn only_if_reliable<S: Connected>(common: AttrMask, reliable: AttrMask) -> AttrMask {
    match S::TYPE {
        QpType::Rc => common | reliable,
        _ => common,
    }
}

/// A first PSN that peers cannot guess. The standard library seeds each `RandomState` from the
/// system's random numbers.
fn random_psn() -> Psn {
    let number = RandomState::new().build_hasher().finish();
    Psn::new((number & 0xff_ffff) as u32)
}

impl<S: Connected> fmt::Debug for Unconnected<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Unconnected({:?})", self.connection_info())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_psns_differ() {
        let psns: std::collections::HashSet<u32> = (0..64).map(|_| random_psn().get()).collect();
        assert!(psns.len() > 60);
    }
}
