//! The active side: sends REQ or SIDR_REQ, and takes in the peer's replies.

use std::time::Duration;

use cm::ConnId;
use cm::ip::IpCmHeader;
use transport::{AddressVector, QpType};
use wire::mad::{Req, SidrReq};
use wire::{Gid, QKey};

use super::id_state::{CmIdState, IdPhase, PeerQp, SentParams};
use crate::error::Error;
use crate::event::{ConnParam, DatagramParam, EventDetails, EventKind, Param};

/// Sends a REQ.
pub(super) fn connect(
    id: &mut CmIdState,
    cm: &mut cm::Manager,
    now: Duration,
    param: &ConnParam,
) -> Result<ConnId, Error> {
    let private_data = with_header(id, &param.private_data, Req::PRIVATE_LEN)?;
    let (retry_count, rnr_retry_count) = retry_limits(param)?;
    let mtu = id.binding.as_ref().map_or(1, |binding| binding.mtu as u8);
    let request = cm::ConnectRequest {
        qp_type: connection_type(id.qp_type),
        responder_resources: param.responder_resources,
        initiator_depth: param.initiator_depth,
        flow_control: param.flow_control,
        retry_count,
        rnr_retry_count,
        srq: param.srq,
        mtu,
        flow_label: id.flow_label,
        ece: id.local_ece,
        private_data: &private_data,
        ..cm::ConnectRequest::new(id.route()?, service_id(id)?, param.qpn, id.psn)
    };
    let conn = cm.connect(now, &request)?;
    id.sent = SentParams { retry_count, ack_timeout: id.ack_timeout };
    id.phase = IdPhase::Connecting;
    Ok(conn)
}

/// Sends a SIDR_REQ, which asks for the number of the peer's queue pair.
pub(super) fn look_up(
    id: &mut CmIdState,
    cm: &mut cm::Manager,
    now: Duration,
    param: &ConnParam,
) -> Result<ConnId, Error> {
    let private_data = with_header(id, &param.private_data, SidrReq::PRIVATE_LEN)?;
    let request = cm::SidrRequest { private_data: &private_data, ..cm::SidrRequest::new(id.route()?, service_id(id)?) };
    let conn = cm.sidr_request(now, &request)?;
    id.phase = IdPhase::Connecting;
    Ok(conn)
}

/// Takes in a REP: the peer accepts.
pub(super) fn on_reply(id: &mut CmIdState, reply: &cm::ReplyReceived) -> EventDetails {
    let mtu = id.binding.as_ref().expect("an id that connects is bound to a device").mtu;
    id.phase = IdPhase::Responded;
    id.remote_ece = reply.ece;
    id.peer_qp = Some(PeerQp {
        qpn: reply.remote_qpn,
        psn: reply.starting_psn,
        responder_resources: reply.initiator_depth,
        initiator_depth: reply.responder_resources,
        retry_count: id.sent.retry_count,
        rnr_retry: reply.rnr_retry_count,
        ack_timeout: id.sent.ack_timeout.unwrap_or(reply.ack_timeout),
        mtu,
    });
    let param = ConnParam {
        private_data: reply.private_data.to_vec(),
        responder_resources: reply.initiator_depth,
        initiator_depth: reply.responder_resources,
        flow_control: reply.flow_control,
        retry_count: id.sent.retry_count,
        rnr_retry_count: reply.rnr_retry_count,
        srq: reply.srq,
        qpn: reply.remote_qpn,
        qkey: None,
    };
    EventDetails::new(EventKind::ConnectResponse, Param::Conn(param))
}

/// Takes in a SIDR_REP: the number of the peer's queue pair, or a refusal.
pub(super) fn on_sidr_reply(id: &mut CmIdState, reply: &cm::SidrReplyReceived) -> EventDetails {
    id.remote_ece = reply.ece;
    let private_data = reply.private_data.to_vec();
    match (reply.status, id.path()) {
        (0, Some(address)) => {
            id.phase = IdPhase::Established;
            let param = DatagramParam { private_data, address, qpn: reply.qpn, qkey: reply.qkey };
            EventDetails::new(EventKind::Established, Param::Datagram(param))
        }
        (status, address) => {
            id.phase = IdPhase::Ended;
            let address = address.unwrap_or_else(|| AddressVector::new(Gid::default(), Gid::default()));
            let param = DatagramParam { private_data, address, qpn: reply.qpn, qkey: QKey(0) };
            EventDetails { kind: EventKind::Unreachable, status: status.into(), param: Param::Datagram(param) }
        }
    }
}

/// The retry counts, if each fits into three bits.
pub(super) fn retry_limits(param: &ConnParam) -> Result<(u8, u8), Error> {
    match (param.retry_count, param.rnr_retry_count) {
        (0..=7, 0..=7) => Ok((param.retry_count, param.rnr_retry_count)),
        _ => Err(Error::Invalid("retry counts have three bits")),
    }
}

/// The caller's private data behind the header with the addresses (IB specification A11).
fn with_header(id: &CmIdState, private_data: &[u8], room: usize) -> Result<Vec<u8>, Error> {
    let max = room - IpCmHeader::LEN;
    if private_data.len() > max {
        return Err(Error::PrivateData { asked: private_data.len(), max });
    }
    let (Some(local), Some(peer)) = (id.local, id.peer) else { return Err(Error::State("it has no route")) };
    let header = IpCmHeader { source: local.ip(), source_port: local.port(), destination: peer.ip() };
    Ok([&header.encode()[..], private_data].concat())
}

fn service_id(id: &CmIdState) -> Result<u64, Error> {
    let peer = id.peer.ok_or(Error::State("it has no route"))?;
    Ok(cm::ip::service_id(id.space as u16, peer.port()))
}

/// The connection manager's type for a queue pair's type.
fn connection_type(qp_type: QpType) -> cm::ConnectionType {
    match qp_type {
        QpType::Uc => cm::ConnectionType::Uc,
        QpType::XrcSend | QpType::XrcRecv => cm::ConnectionType::Xrc,
        QpType::Rc | QpType::Ud => cm::ConnectionType::Rc,
    }
}
