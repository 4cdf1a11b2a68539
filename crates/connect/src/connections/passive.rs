//! The passive side: turns a peer's REQ or SIDR_REQ into a new id, and sends the caller's answer.

use std::time::Duration;

use cm::ip::IpCmHeader;
use hub::DeviceRecord;
use transport::{AddressVector, Mtu, QpType};
use wire::mad::{reason, sidr_status};
use wire::{Gid, QKey, Qpn};

use super::active::retry_limits;
use super::id_state::{CmIdState, IdKey, IdPhase, PeerQp};
use super::id_table::IdTable;
use super::route;
use crate::error::Error;
use crate::event::{ConnParam, DatagramParam, Param, UDP_QKEY};

/// The reason of a REJ that refuses a request (IB specification 12.6.7.2).
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestRefusal(pub(super) u16);

/// The common part of REQ and SIDR_REQ.
struct IncomingRequest<'a> {
    service_id: u64,
    route: &'a cm::MadRoute,
    private_data: &'a [u8],
    qp_type: QpType,
}

/// A new id for a peer's request, its listener, and the parameters of the listener's event.
pub(super) struct RequestedId {
    pub(super) listener: IdKey,
    pub(super) id: CmIdState,
    pub(super) param: Param,
}

/// Takes in a REQ for a port that the hub routes to this process.
pub(super) fn on_request(
    ids: &IdTable,
    devices: &[DeviceRecord],
    request: &cm::RequestReceived,
) -> Result<RequestedId, RequestRefusal> {
    let incoming = IncomingRequest {
        service_id: request.service_id,
        route: &request.route,
        private_data: &request.private_data,
        qp_type: queue_pair_type(request.qp_type),
    };
    let (listener, mut id) = incoming.new_id(ids, devices)?;
    let mtu = mtu(request.mtu, &id)?;
    id.flow_label = request.flow_label;
    id.tos = request.traffic_class;
    id.remote_ece = request.ece;
    id.peer_qp = Some(PeerQp {
        qpn: request.remote_qpn,
        psn: request.starting_psn,
        responder_resources: request.initiator_depth,
        initiator_depth: request.responder_resources,
        retry_count: request.retry_count,
        rnr_retry: request.rnr_retry_count,
        ack_timeout: id.ack_timeout.unwrap_or(request.ack_timeout),
        mtu,
    });
    let param = Param::Conn(ConnParam {
        private_data: request.private_data[IpCmHeader::LEN..].to_vec(),
        responder_resources: request.initiator_depth,
        initiator_depth: request.responder_resources,
        flow_control: request.flow_control,
        retry_count: request.retry_count,
        rnr_retry_count: request.rnr_retry_count,
        srq: request.srq,
        qpn: request.remote_qpn,
        qkey: None,
    });
    Ok(RequestedId { listener, id, param })
}

/// Takes in a SIDR_REQ.
pub(super) fn on_sidr_request(
    ids: &IdTable,
    devices: &[DeviceRecord],
    request: &cm::SidrRequestReceived,
) -> Result<RequestedId, RequestRefusal> {
    let incoming = IncomingRequest {
        service_id: request.service_id,
        route: &request.route,
        private_data: &request.private_data,
        qp_type: QpType::Ud,
    };
    let (listener, id) = incoming.new_id(ids, devices)?;
    let address = id.path().unwrap_or_else(|| AddressVector::new(Gid::default(), Gid::default()));
    let private_data = request.private_data[IpCmHeader::LEN..].to_vec();
    let param = Param::Datagram(DatagramParam { private_data, address, qpn: Qpn::default(), qkey: QKey(0) });
    Ok(RequestedId { listener, id, param })
}

impl IncomingRequest<'_> {
    /// Finds the listener and makes the new id.
    fn new_id(&self, ids: &IdTable, devices: &[DeviceRecord]) -> Result<(IdKey, CmIdState), RequestRefusal> {
        let header = IpCmHeader::of_private_data(self.private_data).ok_or(RequestRefusal(reason::CONSUMER))?;
        let (local, remote) = (self.route.local.to_canonical(), self.route.remote.to_canonical());
        if (header.destination.to_canonical(), header.source.to_canonical()) != (local, remote) {
            // The sender lies about its address, or the network has translated the addresses.
            return Err(RequestRefusal(reason::CONSUMER));
        }
        let (key, listener) = ids.listener(self.service_id, local).ok_or(RequestRefusal(reason::INVALID_SERVICE_ID))?;
        if !are_compatible(listener.qp_type, self.qp_type) {
            return Err(RequestRefusal(reason::INVALID_TRANSPORT));
        }
        let unfetched = listener.unfetched_requests().ok_or(RequestRefusal(reason::INVALID_SERVICE_ID))?;
        if unfetched >= listener.backlog {
            return Err(RequestRefusal(reason::CONSUMER));
        }
        let interface = self.route.interface;
        let binding =
            route::binding(devices, local, interface).map_err(|_| RequestRefusal(reason::INVALID_SERVICE_ID))?;
        let mut id = CmIdState::new(listener.space, listener.qp_type);
        id.binding = Some(binding);
        id.ack_timeout = listener.ack_timeout;
        id.local = Some(route::with_scope(local, self.service_id as u16, interface));
        id.peer = Some(route::with_scope(remote, header.source_port, interface));
        id.tos = self.route.traffic_class;
        id.phase = IdPhase::Requested;
        Ok((key, id))
    }
}

/// Sends a REP: the caller accepts.
pub(super) fn accept(id: &mut CmIdState, cm: &mut cm::Manager, now: Duration, param: &ConnParam) -> Result<(), Error> {
    let conn = id.connection()?;
    let (_, rnr_retry_count) = retry_limits(param)?;
    let reply = cm::ConnectReply {
        responder_resources: param.responder_resources,
        initiator_depth: param.initiator_depth,
        flow_control: param.flow_control,
        rnr_retry_count,
        srq: param.srq,
        ece: id.local_ece,
        private_data: &param.private_data,
        ..cm::ConnectReply::new(param.qpn, id.psn)
    };
    cm.accept(now, conn, &reply)?;
    id.phase = IdPhase::Accepted;
    if let Some(peer) = &mut id.peer_qp {
        peer.responder_resources = param.responder_resources;
        peer.initiator_depth = param.initiator_depth;
    }
    Ok(())
}

/// Sends a SIDR_REP with the number of the caller's queue pair.
pub(super) fn answer_look_up(
    id: &mut CmIdState,
    cm: &mut cm::Manager,
    now: Duration,
    param: &ConnParam,
) -> Result<(), Error> {
    let reply = cm::SidrReply {
        qpn: param.qpn,
        qkey: param.qkey.unwrap_or(UDP_QKEY),
        ece: id.local_ece,
        ..sidr_refusal(sidr_status::VALID, &param.private_data)
    };
    cm.sidr_reply(now, id.connection()?, &reply)?;
    id.phase = IdPhase::Established;
    Ok(())
}

/// Sends a REJ, or for datagrams a refusing SIDR_REP.
pub(super) fn reject(
    id: &mut CmIdState,
    cm: &mut cm::Manager,
    now: Duration,
    private_data: &[u8],
    reason: u16,
) -> Result<(), Error> {
    let conn = id.connection()?;
    match id.is_datagram() {
        true => cm.sidr_reply(now, conn, &sidr_refusal(sidr_status::REJECTED, private_data))?,
        false => cm.reject(now, conn, reason, &[], private_data)?,
    }
    id.phase = IdPhase::Ended;
    Ok(())
}

/// A SIDR_REP that names no queue pair.
pub(super) fn sidr_refusal(status: u8, private_data: &[u8]) -> cm::SidrReply<'_> {
    cm::SidrReply { status, qpn: Qpn::default(), qkey: QKey(0), ece: cm::Ece::default(), info: &[], private_data }
}

/// The type of the queue pair that answers a REQ: an XRC initiator asks for a target.
fn queue_pair_type(connection: cm::ConnectionType) -> QpType {
    match connection {
        cm::ConnectionType::Rc => QpType::Rc,
        cm::ConnectionType::Uc => QpType::Uc,
        cm::ConnectionType::Xrc => QpType::XrcRecv,
    }
}

/// Whether a listener's queue pairs can serve a request for this type.
fn are_compatible(listener: QpType, requested: QpType) -> bool {
    listener == requested || listener.is_xrc() && requested.is_xrc()
}

/// The path MTU that the peer has chosen, if our interface has it.
fn mtu(code: u8, id: &CmIdState) -> Result<Mtu, RequestRefusal> {
    let mtu = Mtu::ALL.into_iter().find(|mtu| *mtu as u8 == code).ok_or(RequestRefusal(reason::INVALID_MTU))?;
    let fits = id.binding.as_ref().is_some_and(|binding| mtu <= binding.mtu);
    if fits { Ok(mtu) } else { Err(RequestRefusal(reason::INVALID_MTU)) }
}
