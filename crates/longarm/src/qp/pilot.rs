//! Taking a queue pair through its states on behalf of the connection manager.

use std::time::Duration;

use transport::{AttrMask, Mtu, QpAttr, QpState};

use super::ConnectionInfo;
use super::builder::Retry;
use super::unconnected::{rnr_code, timeout_code};

/// A second handle of a queue pair, with what its builder wanted. It owns nothing: when the queue pair
/// is dropped every step is refused.
#[derive(Clone, Debug)]
pub(crate) struct Pilot {
    qp: device::Qp,
    retry: Retry,
    read_depth: u8,
    mtu: Mtu,
    has_srq: bool,
}

impl Pilot {
    pub(super) fn new(qp: device::Qp, retry: Retry, read_depth: u8, mtu: Mtu, has_srq: bool) -> Pilot {
        Pilot { qp, retry, read_depth, mtu, has_srq }
    }

    /// Its number.
    pub(crate) fn qpn(&self) -> wire::Qpn {
        self.qp.qpn()
    }

    /// READs and atomics at the same time, in each direction.
    pub(crate) fn read_depth(&self) -> u8 {
        self.read_depth
    }

    /// Payload per packet at most.
    pub(crate) fn mtu(&self) -> Mtu {
        self.mtu
    }

    /// Whether its receive buffers come from a shared receive queue.
    pub(crate) fn has_srq(&self) -> bool {
        self.has_srq
    }

    /// How often to send again without an answer.
    pub(crate) fn retry_count(&self) -> u8 {
        self.retry.count
    }

    /// How often to send again if the peer has no buffer; 7 is for ever.
    pub(crate) fn rnr_retry_count(&self) -> u8 {
        self.retry.receiver_not_ready.unwrap_or(7)
    }

    /// How long to wait for an acknowledge, as a code.
    pub(crate) fn ack_timeout(&self) -> u8 {
        timeout_code(self.retry.ack_timeout)
    }

    /// How long a peer is asked to wait at least that finds no buffer.
    fn min_rnr_delay(&self) -> Duration {
        self.retry.min_rnr_delay
    }

    /// Connects: ready to receive with the first attributes, to send with the second. What the builder
    /// wanted of retries and depths goes before what the attributes say. Returns what the peer is.
    pub(crate) fn start(
        &self,
        (mut receive, receive_mask): (QpAttr, AttrMask),
        (mut send, send_mask): (QpAttr, AttrMask),
    ) -> Result<ConnectionInfo, device::Error> {
        let peer = ConnectionInfo {
            service: self.qp.qp_type(),
            qpn: receive.dest_qpn,
            gid: receive.address.destination,
            first_psn: receive.rq_psn,
            mtu: receive.path_mtu,
            read_depth: send.max_rd_atomic,
        };
        receive.max_dest_rd_atomic = receive.max_dest_rd_atomic.min(self.read_depth);
        receive.min_rnr_timer = rnr_code(self.min_rnr_delay());
        send.max_rd_atomic = send.max_rd_atomic.min(self.read_depth);
        send.timeout = self.ack_timeout();
        send.retry_count = self.retry_count();
        send.rnr_retry = self.rnr_retry_count();
        self.qp.modify(&receive, receive_mask)?;
        self.qp.modify(&send, send_mask)?;
        Ok(peer)
    }

    /// Ends it: what has arrived is taken in and acknowledged, everything else is flushed.
    pub(crate) fn stop(&self) {
        let attr = QpAttr { state: QpState::Error, ..QpAttr::default() };
        // It may have failed already, or be gone.
        let _ = self.qp.modify(&attr, AttrMask::STATE);
    }
}
