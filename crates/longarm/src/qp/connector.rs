//! The queue pair states on the way to a connection, and to its end.

use std::net::IpAddr;

use transport::{AttrMask, Mtu, QpAttr, QpState};

use super::ConnectionInfo;
use super::retry::{Retry, rnr_code, timeout_code};

/// The parameters that a queue pair's builder requests for its connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectParams {
    /// Payload per packet at most.
    pub(crate) mtu: Mtu,
    /// READs and atomics at the same time, in each direction.
    pub(crate) read_depth: u8,
    pub(crate) retry: Retry,
}

impl ConnectParams {
    /// The number of repetitions of a request that got no ACK.
    pub(crate) fn retry_count(&self) -> u8 {
        self.retry.count
    }

    /// The number of repetitions of a request that found no receive buffer; 7 repeats forever.
    pub(crate) fn rnr_retry_count(&self) -> u8 {
        self.retry.receiver_not_ready.unwrap_or(7)
    }
}

/// A second handle of a queue pair, which takes it through its states for the connection manager.
///
/// It owns nothing: the device refuses every step once the queue pair is destroyed.
#[derive(Clone, Debug)]
pub(crate) struct QpConnector {
    qp: provider::Qp,
    params: ConnectParams,
    has_srq: bool,
}

impl QpConnector {
    pub(super) fn new(qp: provider::Qp, params: ConnectParams, has_srq: bool) -> QpConnector {
        QpConnector { qp, params, has_srq }
    }

    pub(crate) fn qpn(&self) -> wire::Qpn {
        self.qp.qpn()
    }

    pub(crate) fn params(&self) -> &ConnectParams {
        &self.params
    }

    /// True if its receive buffers come from a shared receive queue.
    pub(crate) fn has_srq(&self) -> bool {
        self.has_srq
    }

    /// Connects: the first attributes lead to the state RTR, the second to RTS. The builder's
    /// retries and depths replace those in the attributes. Returns the peer.
    pub(crate) fn connect(
        &self,
        (mut receive, receive_mask): (QpAttr, AttrMask),
        (mut send, send_mask): (QpAttr, AttrMask),
    ) -> Result<ConnectionInfo, device::Error> {
        let ConnectParams { read_depth, retry, .. } = self.params;
        let peer = ConnectionInfo {
            service: self.qp.qp_type(),
            qpn: receive.dest_qpn,
            gid: receive.address.destination,
            first_psn: receive.rq_psn,
            mtu: receive.path_mtu,
            read_depth: send.max_rd_atomic,
        };
        receive.max_dest_rd_atomic = receive.max_dest_rd_atomic.min(read_depth);
        receive.min_rnr_timer = rnr_code(retry.min_rnr_delay);
        send.max_rd_atomic = send.max_rd_atomic.min(read_depth);
        send.timeout = timeout_code(retry.ack_timeout);
        send.retry_count = self.params.retry_count();
        send.rnr_retry = self.params.rnr_retry_count();
        self.qp.modify(&receive, receive_mask)?;
        self.qp.modify(&send, send_mask)?;
        if !send_mask.contains(AttrMask::STATE) {
            self.qp.is_connected_by_device();
        }
        Ok(peer)
    }

    /// The peer of a connection that an iWARP device made. It tells no numbers.
    pub(crate) fn connected_by_device(&self, peer: IpAddr) -> ConnectionInfo {
        self.qp.is_connected_by_device();
        ConnectionInfo {
            service: self.qp.qp_type(),
            qpn: wire::Qpn::default(),
            gid: peer.into(),
            first_psn: wire::Psn::default(),
            mtu: self.params.mtu,
            read_depth: self.params.read_depth,
        }
    }

    /// Ends the connection: arrived messages are taken in and ACKed, all other requests are flushed.
    pub(crate) fn stop(&self) {
        let attr = QpAttr { state: QpState::Error, ..QpAttr::default() };
        // The queue pair may have failed already, or be destroyed.
        let _ = self.qp.modify(&attr, AttrMask::STATE);
    }
}
