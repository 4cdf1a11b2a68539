//! Calls of the connection manager.

use ::connect::ConnParam;
use transport::{AttrMask, QpState, QpType};

use super::{CmConnection, PeerEndpoint, PeerReply};
use crate::address::AddressHandle;
use crate::error::{ConnectError, Refusal};
use crate::qp::{ConnectionInfo, QpConnector};

/// Room for private data in a REQ, after the header with the caller's address (IB specification A11.5).
const REQUEST_BYTES: usize = 56;
/// Room in a REP.
const ACCEPT_BYTES: usize = 196;
/// Room in a REJ.
const REJECT_BYTES: usize = 148;
/// Room in a SIDR_REQ, after that header.
const LOOKUP_BYTES: usize = 180;
/// Room in a SIDR_REP.
const ANSWER_BYTES: usize = 136;

impl CmConnection {
    /// Asks the peer for a connection.
    pub(in crate::connection) fn request(
        &self,
        connector: &QpConnector,
        private_data: &[u8],
    ) -> Result<(), ConnectError> {
        check(private_data, REQUEST_BYTES)?;
        self.id.set_mtu(connector.params().mtu)?;
        self.progress.lock().connector = Some(connector.clone());
        let depth = connector.params().read_depth;
        Ok(self.id.connect(&param(connector, private_data, (depth, depth)))?)
    }

    /// Asks the peer for the destination of its datagrams.
    pub(in crate::connection) fn look_up(&self, private_data: &[u8]) -> Result<(), ConnectError> {
        check(private_data, LOOKUP_BYTES)?;
        let param = ConnParam { private_data: private_data.to_vec(), ..ConnParam::default() };
        Ok(self.id.connect(&param)?)
    }

    /// Accepts the connection that the peer asks for with the parameters `wanted`.
    pub(in crate::connection) fn accept(
        &self,
        connector: &QpConnector,
        wanted: &ConnParam,
        private_data: &[u8],
    ) -> Result<(), ConnectError> {
        check(private_data, ACCEPT_BYTES)?;
        let info = self.start(connector)?;
        {
            let mut progress = self.progress.lock();
            progress.connector = Some(connector.clone());
            progress.reply =
                Some(PeerReply { endpoint: PeerEndpoint::Connected(info), private_data: wanted.private_data.clone() });
        }
        let depth = connector.params().read_depth;
        let depths = (depth.min(wanted.responder_resources), depth.min(wanted.initiator_depth));
        self.id.accept(&param(connector, private_data, depths)).map_err(|error| self.late(error))
    }

    /// Tells the peer the destination for its datagrams.
    pub(in crate::connection) fn answer(
        &self,
        address: &AddressHandle,
        private_data: &[u8],
    ) -> Result<(), ConnectError> {
        check(private_data, ANSWER_BYTES)?;
        let private_data = private_data.to_vec();
        let param = ConnParam { private_data, qpn: address.qpn(), qkey: Some(address.qkey()), ..ConnParam::default() };
        self.id.accept(&param).map_err(|error| self.late(error))
    }

    /// Refuses.
    pub(in crate::connection) fn reject(&self, refusal: Refusal, private_data: &[u8]) -> Result<(), ConnectError> {
        let room = if self.id.qp_type() == QpType::Ud { ANSWER_BYTES } else { REJECT_BYTES };
        check(private_data, room)?;
        self.id.reject(private_data, refusal.0).map_err(|error| self.late(error))
    }

    /// The error of an answer that could not be given: in most cases the peer has given up meanwhile.
    fn late(&self, error: ::connect::Error) -> ConnectError {
        match error {
            ::connect::Error::State(_) | ::connect::Error::Cm(_) => ConnectError::Gone(self.peer),
            other => other.into(),
        }
    }

    /// Takes the queue pair to RTS.
    pub(super) fn start(&self, connector: &QpConnector) -> Result<ConnectionInfo, ConnectError> {
        let attr = |state| self.id.qp_attr(state).map_err(|error| self.late(error));
        let receive = attr(QpState::Rtr)?;
        let (ours, theirs) = (connector.params().mtu, receive.0.path_mtu);
        if theirs > ours {
            return Err(ConnectError::Mtu { ours, theirs });
        }
        let has_path = receive.1.contains(AttrMask::AV);
        let mut info = connector.connect(receive, attr(QpState::Rts)?)?;
        if !has_path {
            info.gid = self.peer.ip().into();
        }
        Ok(info)
    }
}

fn check(private_data: &[u8], max: usize) -> Result<(), ConnectError> {
    let is = private_data.len();
    if is <= max { Ok(()) } else { Err(ConnectError::PrivateData { is, max }) }
}

/// The parameters of a request or its answer; `depths` are the READs that we serve, and that we send.
fn param(connector: &QpConnector, private_data: &[u8], depths: (u8, u8)) -> ConnParam {
    ConnParam {
        private_data: private_data.to_vec(),
        responder_resources: depths.0,
        initiator_depth: depths.1,
        flow_control: true,
        retry_count: connector.params().retry_count(),
        rnr_retry_count: connector.params().rnr_retry_count(),
        srq: connector.has_srq(),
        qpn: connector.qpn(),
        qkey: None,
    }
}
