//! Endpoints for datagrams.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use transport::{AttrMask, QpAttr, QpCounters, QpState, Reason, UdDestination};
use wire::{Gid, Psn, QKey, Qpn};

use super::core::QueuePairCore;
use crate::address::AddressHandle;
use crate::buffer::Buffer;
use crate::completion::Completion;
use crate::error::{PostError, ResourceError, WaitError};
use crate::flight::{Lend, Loan, Ticket};
use crate::open_device::Device;
use crate::receive::Receive;
use crate::request::SendRequest;
use crate::work::Work;

/// An endpoint for unreliable datagrams: a UD queue pair, ready to send to anybody and to
/// receive from every sender with its Q_Key.
///
/// A datagram is one packet, and has at most the path MTU's payload. Received messages
/// know their [source](crate::Message::source).
pub struct UdQueuePair {
    core: QueuePairCore,
    gid: Gid,
    qkey: QKey,
}

impl UdQueuePair {
    pub(super) fn start(core: QueuePairCore, gid: Gid, qkey: QKey) -> Result<UdQueuePair, ResourceError> {
        let attr = |state| QpAttr { state, qkey, sq_psn: Psn::default(), ..QpAttr::default() };
        let init = AttrMask::STATE | AttrMask::PKEY_INDEX | AttrMask::PORT | AttrMask::QKEY;
        core.modify(&attr(QpState::Init), init)?;
        core.modify(&attr(QpState::Rtr), AttrMask::STATE)?;
        core.modify(&attr(QpState::Rts), AttrMask::STATE | AttrMask::SQ_PSN)?;
        Ok(UdQueuePair { core, gid, qkey })
    }

    /// The destination by which others reach this endpoint.
    pub fn address_handle(&self) -> AddressHandle {
        AddressHandle::new(self.gid, self.core.qpn(), self.qkey)
    }

    /// Sends the buffer's contents as one datagram.
    pub fn send_to<B: Lend>(&self, buffer: B, to: &AddressHandle) -> Work<'_, B> {
        Work::new(&self.core, SendRequest::send(buffer.lend()).to(self.datagram(to)))
    }

    /// As [`send_to`](UdQueuePair::send_to), with 32 bits of immediate data.
    pub fn send_to_with_imm<B: Lend>(&self, buffer: B, to: &AddressHandle, imm: u32) -> Work<'_, B> {
        let request = SendRequest::send_with_imm(buffer.lend(), imm);
        Work::new(&self.core, request.to(self.datagram(to)))
    }

    /// Sends bytes that are copied before the call returns. Their number is limited; see
    /// [`inline_bytes`](super::QpBuilder::inline_bytes).
    pub fn send_inline_to(&self, bytes: &[u8], to: &AddressHandle) -> Work<'_, ()> {
        let request = SendRequest::send_inline(bytes);
        Work::new(&self.core, request.to(self.datagram(to)))
    }

    /// Posts a buffer for a datagram. A datagram that finds none, or one that is too short for
    /// it, is lost.
    pub fn recv(&self, buffer: Buffer) -> Receive<'_> {
        match self.core.domain.scratch() {
            Ok(grh) => Receive::new(&self.core, Loan::Datagram(grh, buffer, self.qkey)),
            Err(error) => {
                let (error, loan) = (PostError::Device(error), Loan::Buffer(buffer));
                Receive::refused(&self.core, error, loan)
            }
        }
    }

    /// Joins a multicast group: datagrams to it, with our Q_Key, are received as well. Also those
    /// that this endpoint sends itself.
    ///
    /// # Errors
    /// If `group` is not a multicast address, or the device is in too many groups.
    pub fn join(&self, group: IpAddr) -> Result<MulticastMembership<'_>, ResourceError> {
        self.core.handle().attach_multicast(group.into())?;
        Ok(MulticastMembership { endpoint: self, group })
    }

    /// The device that it is on.
    pub fn device(&self) -> &Device {
        self.core.device()
    }

    /// Waits for a request that was [posted](Work::post).
    ///
    /// # Errors
    /// As [`QueuePair::wait`](crate::QueuePair::wait).
    pub fn wait(&self, ticket: Ticket, timeout: Duration) -> Result<Completion, WaitError> {
        self.core.wait(ticket, timeout)
    }

    /// The longest message that one datagram can carry here.
    pub fn max_message_bytes(&self) -> u32 {
        self.core.device().port().active_mtu.bytes()
    }

    /// Its number.
    pub fn qpn(&self) -> Qpn {
        self.core.qpn()
    }

    /// Its state now.
    pub fn state(&self) -> QpState {
        self.core.handle().state()
    }

    /// The reason why it failed, in words, if it did.
    pub fn failure(&self) -> Option<Reason> {
        self.core.failure()
    }

    /// Its counters.
    pub fn counters(&self) -> QpCounters {
        self.core.handle().counters()
    }

    fn datagram(&self, to: &AddressHandle) -> Result<UdDestination, PostError> {
        let source = self.core.source_for(to.gid(), self.gid);
        let source = source.ok_or(PostError::NoRoute(to.gid().ip()))?;
        Ok(UdDestination { address: to.vector(source), remote_qpn: to.qpn(), remote_qkey: to.qkey() })
    }
}

impl fmt::Debug for UdQueuePair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UdQueuePair({} at {}, {:?})", self.qpn(), self.gid.ip(), self.state())
    }
}

/// Membership in a multicast group. Dropping it leaves the group.
///
/// ```no_run
/// # use std::time::Duration;
/// # fn example(endpoint: longarm::UdQueuePair) -> Result<(), Box<dyn std::error::Error>> {
/// let group = endpoint.join("239.255.71.71".parse()?)?;
/// endpoint.send_inline_to(b"to all", &group.address_handle()).wait(Duration::from_secs(5))?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropping it leaves the group"]
pub struct MulticastMembership<'e> {
    endpoint: &'e UdQueuePair,
    group: IpAddr,
}

impl MulticastMembership<'_> {
    /// The destination by which datagrams reach all members.
    pub fn address_handle(&self) -> AddressHandle {
        AddressHandle::multicast(self.group, self.endpoint.qkey)
    }
}

impl Drop for MulticastMembership<'_> {
    fn drop(&mut self) {
        // The endpoint has joined the group and lives, so the device refuses this only after a fork.
        let _ = self.endpoint.core.handle().detach_multicast(self.group.into());
    }
}
