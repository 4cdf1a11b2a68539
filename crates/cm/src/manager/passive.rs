//! The passive side: REQ and RTU.

use wire::mad::{CmMessage, Rejected, Req, Rtu, reason};

use super::Manager;
use super::receive::IncomingMad;
use crate::call::{ConnectionType, Ece, MadRoute};
use crate::event::{CmEvent, RequestReceived};
use crate::messages;
use crate::refuse::rej;
use crate::table::{CmState, ConnectionRecord, QpnKey, RemoteIdKey, RetryTimer};
use crate::time;

impl Manager {
    /// A request: a repeated one, one of a connected queue pair, or a new one.
    pub(super) fn on_req(&mut self, incoming: &IncomingMad<'_>, req: &Req) {
        let key = RemoteIdKey::new(incoming.route, req.ca_guid, req.local_id);
        if let Some(id) = self.table.with_remote(key) {
            if !self.is_replaced(id, incoming, req) {
                return self.on_repeated_req(id, incoming, req);
            }
            self.settle(id);
        }
        if let Some(id) = self.table.with_qpn(QpnKey::new(incoming.route, req.ca_guid, req.qpn)) {
            self.reject_req(incoming, req, reason::STALE_CONNECTION);
            return self.on_stale(incoming.now, id);
        }
        let Some(qp_type) = messages::qp_type(req.transport) else {
            self.counters.unsupported += 1;
            return self.reject_req(incoming, req, reason::INVALID_TRANSPORT);
        };
        self.on_new_req(incoming, req, qp_type, key);
    }

    /// Whether the peer uses a known id for a new request after a rejected one.
    fn is_replaced(&self, id: u32, incoming: &IncomingMad<'_>, req: &Req) -> bool {
        self.table.get(id).is_some_and(|connection| {
            connection.state() == CmState::Refused
                && (connection.transaction, connection.remote_qpn, connection.service_id)
                    != (incoming.header.transaction_id, req.qpn, req.service_id)
        })
    }

    fn on_repeated_req(&mut self, id: u32, incoming: &IncomingMad<'_>, req: &Req) {
        self.counters.duplicate += 1;
        let Some(connection) = self.table.get(id) else {
            return;
        };
        match connection.state() {
            CmState::ReqReceived => {
                if let Some(mra) = connection.receipt {
                    self.transmit(*incoming.route, mra);
                }
            }
            CmState::RepSent | CmState::Withdrawn => self.send_kept(id),
            CmState::Refused if !connection.active => self.repeat_memory(incoming.now, id),
            CmState::TimeWait => self.reject_req(incoming, req, reason::STALE_CONNECTION),
            _ => {}
        }
    }

    fn on_new_req(&mut self, incoming: &IncomingMad<'_>, req: &Req, qp_type: ConnectionType, key: RemoteIdKey) {
        let inserted = self.half_open_room()
            && self.insert(|_| Ok(connection_of(incoming, req))).is_ok_and(|id| {
                self.table.link_remote(id, key);
                self.table.link_qpn(id, QpnKey::new(incoming.route, req.ca_guid, req.qpn));
                self.event(id, CmEvent::Request(request_of(incoming.route, incoming.header.modifier, req, qp_type)));
                true
            });
        if !inserted {
            self.counters.overflow += 1;
        }
    }

    /// Whether there is room for one more undecided request.
    pub(super) fn half_open_room(&self) -> bool {
        self.table.half_open() < self.half_open_limit
    }

    fn reject_req(&mut self, incoming: &IncomingMad<'_>, req: &Req, reason: u16) {
        let answer = CmMessage::Rej(rej(0, req.local_id, Rejected::REQ, reason));
        self.transmit(*incoming.route, messages::encode(incoming.header.transaction_id, answer));
    }

    /// The peer confirms.
    pub(super) fn on_rtu(&mut self, incoming: &IncomingMad<'_>, rtu: &Rtu) {
        let Some(connection) = self.find(incoming, rtu.remote_id, rtu.local_id) else {
            return;
        };
        match connection.state() {
            CmState::RepSent => {
                self.table.enter(rtu.remote_id, CmState::Established, None);
                self.event(rtu.remote_id, CmEvent::ReadyToUse { private_data: rtu.private_data });
            }
            CmState::Established if !connection.active => self.counters.duplicate += 1,
            CmState::Withdrawn => {
                self.unexpected();
                self.send_kept(rtu.remote_id);
            }
            _ => self.unexpected(),
        }
    }
}

fn connection_of(incoming: &IncomingMad<'_>, req: &Req) -> ConnectionRecord {
    let round_trip = time::of_peer(req.primary.local_ack_timeout);
    ConnectionRecord {
        remote_id: Some(req.local_id),
        remote_guid: req.ca_guid,
        remote_qpn: req.qpn,
        service_id: req.service_id,
        transaction: incoming.header.transaction_id,
        ack_timeout: req.primary.local_ack_timeout,
        patience: time::of_peer(req.remote_response_timeout) + round_trip,
        retry: RetryTimer::new(time::of_peer(req.local_response_timeout), req.max_cm_retries),
        ..ConnectionRecord::new(CmState::ReqReceived, *incoming.route)
    }
}

fn request_of(route: &MadRoute, options: u32, req: &Req, qp_type: ConnectionType) -> RequestReceived {
    RequestReceived {
        route: *route,
        service_id: req.service_id,
        qp_type,
        remote_qpn: req.qpn,
        starting_psn: req.starting_psn,
        responder_resources: req.responder_resources,
        initiator_depth: req.initiator_depth,
        flow_control: req.flow_control,
        retry_count: req.retry_count,
        rnr_retry_count: req.rnr_retry_count,
        srq: req.srq,
        mtu: req.mtu,
        remote_guid: req.ca_guid,
        remote_gid: req.primary.local_gid,
        local_gid: req.primary.remote_gid,
        flow_label: req.primary.flow_label,
        traffic_class: req.primary.traffic_class,
        hop_limit: req.primary.hop_limit,
        packet_rate: req.primary.packet_rate,
        ack_timeout: req.primary.local_ack_timeout,
        pkey: req.pkey,
        response_timeout: req.remote_response_timeout,
        ece: Ece { vendor_id: req.vendor_id, options },
        private_data: req.private_data,
    }
}
