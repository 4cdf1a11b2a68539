//! Queue pairs that have no peer yet.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::marker::PhantomData;
use std::net::IpAddr;
use std::time::Duration;

use transport::{AttrMask, Mtu, QpAttr, QpState, QpType};
use wire::{Gid, Psn, Qpn};

use super::builder::{QpBuilder, Retry};
use super::core::QpCore;
use super::{Connected, ConnectionInfo, Pilot, QueuePair};
use crate::buffer::Buffer;
use crate::context::Context;
use crate::error::{ConnectError, ResourceError};
use crate::flight::Loan;
use crate::receive::Receive;

/// A queue pair without a peer. Receives can be posted, and should be, so that the peer finds
/// them when it begins to send; everything else comes with the connection.
///
/// ```no_run
/// # use longarm::{ConnectionInfo, Context};
/// # fn tell_peer(_: &[u8]) {}
/// # fn hear_from_peer() -> Vec<u8> { Vec::new() }
/// # let domain = Context::open()?.protection_domain()?;
/// # let cq = domain.context().completion_queue()?;
/// let qp = domain.rc(&cq).build()?;
/// let message = qp.recv(domain.allocate(4096)?).start();
/// tell_peer(&qp.address().to_bytes());
/// let qp = qp.connect(&ConnectionInfo::from_bytes(&hear_from_peer())?)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Unconnected<S> {
    core: QpCore,
    gid: Gid,
    /// The program chose the address.
    gid_is_chosen: bool,
    first_psn: Psn,
    mtu: Mtu,
    read_depth: u8,
    retry: Retry,
    service: PhantomData<S>,
}

impl<S: Connected> Unconnected<S> {
    pub(super) fn new(core: QpCore, builder: &QpBuilder<S>, gid: Gid) -> Unconnected<S> {
        let active = core.context().port().active_mtu;
        Unconnected {
            gid,
            gid_is_chosen: builder.gid.is_some(),
            first_psn: random_psn(),
            mtu: builder.mtu.map_or(active, |mtu| mtu.min(active)),
            read_depth: builder.read_depth,
            retry: builder.retry,
            service: PhantomData,
            core,
        }
    }

    /// What the peer needs to connect to this queue pair.
    pub fn address(&self) -> ConnectionInfo {
        ConnectionInfo {
            service: S::TYPE,
            qpn: self.core.qpn(),
            gid: self.gid,
            first_psn: self.first_psn,
            mtu: self.mtu,
            read_depth: self.read_depth,
        }
    }

    /// Its number.
    pub fn qpn(&self) -> Qpn {
        self.core.qpn()
    }

    /// Uses our address `ip` from now on, if the device has it; returns whether it has.
    pub fn use_address(&mut self, ip: IpAddr) -> bool {
        let gid = Gid::from(ip);
        let known = self.core.context().port().gids.contains(&gid);
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
        let source = self.core.source_for(peer.gid, self.gid);
        let source = source.ok_or(ConnectError::NoRoute { peer: peer.gid.ip() })?;
        self.ready_to_receive(peer, source)?;
        self.ready_to_send(peer)?;
        Ok(QueuePair::new(self.core, *peer))
    }

    /// The device that it is on.
    pub fn context(&self) -> &Context {
        self.core.context()
    }

    /// The address that the program has chosen for it, if it has.
    pub(crate) fn chosen_address(&self) -> Option<IpAddr> {
        self.gid_is_chosen.then(|| self.gid.ip())
    }

    /// What takes it through its states from outside.
    pub(crate) fn pilot(&self) -> Pilot {
        let qp = self.core.device().clone();
        Pilot::new(qp, self.retry, self.read_depth, self.mtu, self.core.has_srq())
    }

    /// The same queue pair, after its [`pilot`](Unconnected::pilot) connected it.
    pub(crate) fn into_connected(self, peer: ConnectionInfo) -> QueuePair<S> {
        QueuePair::new(self.core, peer)
    }

    fn ready_to_receive(&self, peer: &ConnectionInfo, source: Gid) -> Result<(), device::Error> {
        let attr = QpAttr {
            state: QpState::Rtr,
            address: transport::AddressVector::new(source, peer.gid),
            path_mtu: self.mtu.min(peer.mtu),
            dest_qpn: peer.qpn,
            rq_psn: peer.first_psn,
            max_dest_rd_atomic: self.read_depth,
            min_rnr_timer: rnr_code(self.retry.min_rnr_delay),
            ..QpAttr::default()
        };
        let common = AttrMask::STATE | AttrMask::AV | AttrMask::PATH_MTU | AttrMask::DEST_QPN | AttrMask::RQ_PSN;
        let reliable = AttrMask::MAX_DEST_RD_ATOMIC | AttrMask::MIN_RNR_TIMER;
        self.core.modify(&attr, only_if_reliable::<S>(common, reliable))
    }

    fn ready_to_send(&self, peer: &ConnectionInfo) -> Result<(), device::Error> {
        let attr = QpAttr {
            state: QpState::Rts,
            sq_psn: self.first_psn,
            timeout: timeout_code(self.retry.ack_timeout),
            retry_count: self.retry.count,
            rnr_retry: self.retry.receiver_not_ready.unwrap_or(7),
            max_rd_atomic: self.read_depth.min(peer.read_depth),
            ..QpAttr::default()
        };
        let common = AttrMask::STATE | AttrMask::SQ_PSN;
        let reliable = AttrMask::TIMEOUT | AttrMask::RETRY_CNT | AttrMask::RNR_RETRY | AttrMask::MAX_QP_RD_ATOMIC;
        self.core.modify(&attr, only_if_reliable::<S>(common, reliable))
    }
}

fn only_if_reliable<S: Connected>(common: AttrMask, reliable: AttrMask) -> AttrMask {
    match S::TYPE {
        QpType::Rc => common | reliable,
        _ => common,
    }
}

impl Retry {
    /// Checks what has no encoding.
    pub(super) fn check(&self) -> Result<(), ResourceError> {
        let invalid = |what, is: u8, rule| Err(ResourceError::Invalid { what, is: is.into(), rule });
        match self {
            Retry { count: 8.., .. } => invalid("the retry count", self.count, "at most 7"),
            Retry { receiver_not_ready: Some(n @ 7..), .. } => {
                invalid("the receiver-not-ready retry count", *n, "at most 6, or None for ever")
            }
            _ => Ok(()),
        }
    }
}

/// The code of the shortest acknowledge timeout that is no shorter; zero for ever.
pub(super) fn timeout_code(timeout: Duration) -> u8 {
    let codes = (1..32).find(|code| wire::ack_timeout(*code).is_some_and(|t| t >= timeout));
    match timeout.is_zero() {
        true => 0,
        false => codes.unwrap_or(31),
    }
}

/// The code of the shortest RNR delay that is no shorter. Code 0 is the longest.
pub(super) fn rnr_code(delay: Duration) -> u8 {
    (1..32).find(|code| wire::rnr_timer(*code) >= delay).unwrap_or(0)
}

/// Peers must not guess where we begin. The standard library seeds each of these from the
/// system's random numbers.
fn random_psn() -> Psn {
    let number = RandomState::new().build_hasher().finish();
    Psn::new((number & 0xff_ffff) as u32)
}

impl<S: Connected> fmt::Debug for Unconnected<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Unconnected({:?})", self.address())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_round_up_to_the_next_code() {
        let table = [(0, 0), (1, 1), (8, 1), (9, 2), (67_108, 14), (67_109, 15)];
        for (micros, code) in table {
            assert_eq!(timeout_code(Duration::from_micros(micros)), code, "{micros}");
        }
        assert_eq!(timeout_code(Duration::MAX), 31);
    }

    #[test]
    fn rnr_delays_round_up_to_the_next_code() {
        let table = [(0, 1), (10, 1), (11, 2), (120, 7), (121, 8), (491_520, 31), (491_521, 0)];
        for (micros, code) in table {
            assert_eq!(rnr_code(Duration::from_micros(micros)), code, "{micros}");
        }
    }

    #[test]
    fn retry_counts_without_an_encoding_are_refused() {
        assert!(Retry::default().check().is_ok());
        assert!(Retry { count: 8, ..Retry::default() }.check().is_err());
        let receiver_not_ready = Some(7);
        assert!(Retry { receiver_not_ready, ..Retry::default() }.check().is_err());
    }

    #[test]
    fn first_psns_differ() {
        let psns: std::collections::HashSet<u32> = (0..64).map(|_| random_psn().get()).collect();
        assert!(psns.len() > 60);
    }
}
