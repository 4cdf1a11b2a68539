//! Messages made of calls and connections.

use wire::mad::{
    self, About, CmMessage, Drep, Dreq, MAD_LEN, MadHeader, Mra, PathFields, Rej, Rejected, Rep, Req, Rtu, SidrRep,
    SidrReq, Transport, reason,
};
use wire::{Gid, QKey, Qpn};

use crate::call::{ConnectReply, ConnectRequest, ConnectionType, SidrReply, SidrRequest};
use crate::error::Error;
use crate::refuse::rej;
use crate::table::ConnectionRecord;
use crate::time;

/// RoCE has no LIDs: Linux sends the permissive one.
const ROCE_LID: u16 = 0xffff;

/// A message with a transaction id.
pub(crate) fn encode(transaction: u64, message: CmMessage) -> [u8; MAD_LEN] {
    encode_with(transaction, 0, message)
}

/// Likewise with an attribute modifier.
pub(crate) fn encode_with(transaction_id: u64, modifier: u32, message: CmMessage) -> [u8; MAD_LEN] {
    mad::encode(&MadHeader { transaction_id, modifier, ..MadHeader::default() }, &message)
}

/// Private data, padded with zeros.
pub(crate) fn private<const N: usize>(data: &[u8]) -> Result<[u8; N], Error> {
    let mut whole = [0; N];
    let part = whole.get_mut(..data.len()).ok_or(Error::PrivateDataTooLong { len: data.len(), limit: N })?;
    part.copy_from_slice(data);
    Ok(whole)
}

/// Additional information padded with zeros, and its length.
pub(crate) fn info<const N: usize>(data: &[u8]) -> Result<([u8; N], u8), Error> {
    let too_long = Error::InfoTooLong { len: data.len(), limit: N };
    let whole = private(data).map_err(|_| too_long)?;
    Ok((whole, u8::try_from(data.len()).map_err(|_| too_long)?))
}

pub(crate) fn req(id: u32, guid: u64, request: &ConnectRequest<'_>) -> Result<Req, Error> {
    Ok(Req {
        local_id: id,
        vendor_id: request.ece.vendor_id,
        service_id: request.service_id,
        ca_guid: guid,
        qkey: 0,
        qpn: request.qpn,
        responder_resources: request.responder_resources,
        eecn: 0,
        initiator_depth: request.initiator_depth,
        remote_eecn: 0,
        remote_response_timeout: request.remote_response_timeout,
        transport: transport(request.qp_type),
        flow_control: request.flow_control,
        starting_psn: request.starting_psn,
        local_response_timeout: request.local_response_timeout,
        retry_count: request.retry_count.min(7),
        pkey: request.pkey,
        mtu: request.mtu,
        rdc_exists: false,
        rnr_retry_count: request.rnr_retry_count.min(7),
        max_cm_retries: request.max_retries.min(15),
        srq: request.srq,
        primary: primary(request),
        alternate: PathFields::default(),
        private_data: private(request.private_data)?,
    })
}

fn primary(request: &ConnectRequest<'_>) -> PathFields {
    PathFields {
        local_lid: ROCE_LID,
        remote_lid: ROCE_LID,
        local_gid: Gid::from(request.route.local),
        remote_gid: Gid::from(request.route.remote),
        flow_label: request.flow_label,
        packet_rate: request.packet_rate,
        traffic_class: request.traffic_class,
        hop_limit: request.hop_limit,
        service_level: 0,
        subnet_local: false,
        local_ack_timeout: time::ack_timeout(request.ack_delay, request.packet_lifetime),
    }
}

fn transport(qp_type: ConnectionType) -> Transport {
    match qp_type {
        ConnectionType::Rc => Transport::RC,
        ConnectionType::Uc => Transport::UC,
        ConnectionType::Xrc => Transport::XRC,
    }
}

/// The kind of connection of a REQ; `None` if it is not supported.
pub(crate) fn qp_type(transport: Transport) -> Option<ConnectionType> {
    match transport.service {
        0 => Some(ConnectionType::Rc),
        1 => Some(ConnectionType::Uc),
        3 if transport.extended == Transport::XRC.extended => Some(ConnectionType::Xrc),
        _ => None,
    }
}

pub(crate) fn rep(id: u32, guid: u64, connection: &ConnectionRecord, reply: &ConnectReply<'_>) -> Result<Rep, Error> {
    Ok(Rep {
        local_id: id,
        remote_id: connection.remote_or_zero(),
        qkey: 0,
        qpn: reply.qpn,
        eecn: 0,
        starting_psn: reply.starting_psn,
        vendor_id: reply.ece.vendor_id,
        responder_resources: reply.responder_resources,
        initiator_depth: reply.initiator_depth,
        target_ack_delay: reply.ack_delay,
        failover_accepted: 0,
        flow_control: reply.flow_control,
        rnr_retry_count: reply.rnr_retry_count.min(7),
        srq: reply.srq,
        ca_guid: guid,
        private_data: private(reply.private_data)?,
    })
}

pub(crate) fn rtu(id: u32, connection: &ConnectionRecord, private_data: &[u8]) -> Result<Rtu, Error> {
    Ok(Rtu { local_id: id, remote_id: connection.remote_or_zero(), private_data: private(private_data)? })
}

pub(crate) fn mra(
    id: u32,
    connection: &ConnectionRecord,
    about: About,
    service_timeout: u8,
    private_data: &[u8],
) -> Result<Mra, Error> {
    let remote_id = connection.remote_or_zero();
    Ok(Mra { local_id: id, remote_id, about, service_timeout, private_data: private(private_data)? })
}

pub(crate) fn dreq(id: u32, connection: &ConnectionRecord, private_data: [u8; Dreq::PRIVATE_LEN]) -> Dreq {
    Dreq { local_id: id, remote_id: connection.remote_or_zero(), remote_qpn: connection.remote_qpn, private_data }
}

pub(crate) fn drep(id: u32, connection: &ConnectionRecord, private_data: [u8; Drep::PRIVATE_LEN]) -> Drep {
    Drep { local_id: id, remote_id: connection.remote_or_zero(), private_data }
}

/// The REJ that tells the peer that we do not wait any longer. Our GUID and id name the connection,
/// since the peer's id may be unknown.
pub(crate) fn timeout(id: u32, guid: u64, connection: &ConnectionRecord) -> Rej {
    let mut rej = rej(id, connection.remote_or_zero(), Rejected::OTHER, reason::TIMEOUT);
    rej.info[..8].copy_from_slice(&guid.to_be_bytes());
    rej.info_len = 8;
    rej
}

pub(crate) fn sidr_req(id: u32, request: &SidrRequest<'_>) -> Result<SidrReq, Error> {
    Ok(SidrReq {
        request_id: id,
        pkey: request.pkey,
        service_id: request.service_id,
        private_data: private(request.private_data)?,
    })
}

pub(crate) fn sidr_rep(connection: &ConnectionRecord, reply: &SidrReply<'_>) -> Result<SidrRep, Error> {
    let (info, info_len) = info(reply.info)?;
    Ok(SidrRep {
        request_id: connection.remote_or_zero(),
        status: reply.status,
        info_len,
        vendor_id: reply.ece.vendor_id,
        qpn: reply.qpn,
        service_id: connection.service_id,
        qkey: reply.qkey,
        info,
        private_data: private(reply.private_data)?,
    })
}

/// A refusal of a datagram request.
pub(crate) fn sidr_refusal(connection: &ConnectionRecord, status: u8) -> SidrRep {
    SidrRep {
        request_id: connection.remote_or_zero(),
        status,
        info_len: 0,
        vendor_id: 0,
        qpn: Qpn::new(0),
        service_id: connection.service_id,
        qkey: QKey(0),
        info: [0; SidrRep::INFO_LEN],
        private_data: [0; SidrRep::PRIVATE_LEN],
    }
}
