//! Requests of peers: whose they are, and the ids that they become.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use cm::ConnId;
use cm::ip::Header;
use transport::{AddressVector, Mtu, QpType};
use wire::mad::{reason, sidr_status};
use wire::{Gid, QKey, Qpn};

use super::{Entry, Phase, Remote, State};
use crate::event::{ConnParam, DatagramParam, EventKind, Param};
use crate::id::{Id, IdKey, with_scope};
use crate::process::Process;
use crate::queue::{Pending, Whose};
use crate::route;
use crate::space::PortSpace;

/// Why a request becomes nobody's id.
struct Refusal(u16);

/// What REQ and SIDR_REQ have in common.
struct Caller<'a> {
    service_id: u64,
    route: &'a cm::Route,
    private_data: &'a [u8],
    qp_type: QpType,
}

impl State {
    /// A REQ for one of our listeners, so the hub believes.
    pub(super) fn requested(&mut self, process: &Arc<Process>, conn: ConnId, request: &cm::RequestReceived) {
        let caller = Caller {
            service_id: request.service_id,
            route: &request.route,
            private_data: &request.private_data,
            qp_type: service(request.qp_type),
        };
        let taken = self.take(process, conn, &caller, |entry| {
            let mtu = mtu(request.mtu, entry)?;
            entry.flow_label = request.flow_label;
            entry.tos = request.traffic_class;
            entry.remote_ece = request.ece;
            entry.remote = Some(Remote {
                qpn: request.remote_qpn,
                psn: request.starting_psn,
                responder_resources: request.initiator_depth,
                initiator_depth: request.responder_resources,
                retry_count: request.retry_count,
                rnr_retry: request.rnr_retry_count,
                ack_timeout: entry.ack_timeout.unwrap_or(request.ack_timeout),
                mtu,
            });
            Ok(Param::Conn(ConnParam {
                private_data: request.private_data[Header::LEN..].to_vec(),
                responder_resources: request.initiator_depth,
                initiator_depth: request.responder_resources,
                flow_control: request.flow_control,
                retry_count: request.retry_count,
                rnr_retry_count: request.rnr_retry_count,
                srq: request.srq,
                qpn: request.remote_qpn,
                qkey: None,
            }))
        });
        if let Err(Refusal(reason)) = taken {
            let now = self.now();
            // It may be gone already.
            let _ = self.cm.reject(now, conn, reason, &[], &[]);
            self.cm.destroy(now, conn);
        }
    }

    /// A SIDR_REQ.
    pub(super) fn looked_up(&mut self, process: &Arc<Process>, conn: ConnId, request: &cm::SidrRequestReceived) {
        let caller = Caller {
            service_id: request.service_id,
            route: &request.route,
            private_data: &request.private_data,
            qp_type: QpType::Ud,
        };
        let taken = self.take(process, conn, &caller, |entry| {
            let address = entry.path().unwrap_or_else(|| AddressVector::new(Gid::default(), Gid::default()));
            let private_data = request.private_data[Header::LEN..].to_vec();
            Ok(Param::Datagram(DatagramParam { private_data, address, qpn: Qpn::default(), qkey: QKey(0) }))
        });
        if taken.is_err() {
            let now = self.now();
            // It may be gone already.
            let _ = self.cm.sidr_reply(now, conn, &refusal(sidr_status::UNSUPPORTED, &[]));
            self.cm.destroy(now, conn);
        }
    }

    /// Makes a request an id, and tells the listener's owner.
    fn take(
        &mut self,
        process: &Arc<Process>,
        conn: ConnId,
        caller: &Caller<'_>,
        fill: impl FnOnce(&mut Entry) -> Result<Param, Refusal>,
    ) -> Result<(), Refusal> {
        let header = Header::of_private_data(caller.private_data).ok_or(Refusal(reason::CONSUMER))?;
        let (local, remote) = (caller.route.local.to_canonical(), caller.route.remote.to_canonical());
        if (header.destination.to_canonical(), header.source.to_canonical()) != (local, remote) {
            // Somebody pretends to be somebody else, or the addresses were changed on the way.
            return Err(Refusal(reason::CONSUMER));
        }
        let listener = self.listener(caller.service_id, local).ok_or(Refusal(reason::INVALID_SERVICE_ID))?;
        let entry = self.find(listener).ok_or(Refusal(reason::INVALID_SERVICE_ID))?;
        if !speak(entry.qp_type, caller.qp_type) {
            return Err(Refusal(reason::INVALID_TRANSPORT));
        }
        let handle = entry.handle.upgrade().ok_or(Refusal(reason::INVALID_SERVICE_ID))?;
        if handle.requests_waiting() >= entry.backlog {
            return Err(Refusal(reason::CONSUMER));
        }
        let hold = process.hold().ok_or(Refusal(reason::INVALID_SERVICE_ID))?;
        let entry_timeout = entry.ack_timeout;
        let mut new = Entry::new(entry.queue.clone(), entry.space, entry.qp_type);
        let interface = caller.route.interface;
        new.binding = route::binding(self.devices(), local, interface).ok();
        if new.binding.is_none() {
            return Err(Refusal(reason::INVALID_SERVICE_ID));
        }
        let port = caller.service_id as u16;
        new.ack_timeout = entry_timeout;
        new.local = Some(with_scope(local, port, interface));
        new.peer = Some(with_scope(remote, header.source_port, interface));
        new.tos = caller.route.traffic_class;
        new.phase = Phase::Requested;
        let param = fill(&mut new)?;
        let queue = new.queue.clone();
        let id = Id::enter(hold, self, new);
        self.join(conn, id.key());
        handle.request_waits();
        let whose = Whose::New { id, listener: Arc::downgrade(&handle) };
        queue.push(Pending { owner: listener, whose, kind: EventKind::ConnectRequest, status: 0, param });
        self.discard(Id::of(handle));
        Ok(())
    }

    /// Who listens: the most specific address wins.
    fn listener(&self, service_id: u64, local: IpAddr) -> Option<IdKey> {
        let space = PortSpace::from_number((service_id >> 16) as u32)?;
        let port = service_id as u16;
        let fitting = self
            .listening(space, port)
            .filter_map(|(key, entry)| Some((fit(entry.local?, port, local, entry.v6_only)?, key)));
        fitting.max_by_key(|(fit, key)| (*fit, std::cmp::Reverse(*key))).map(|(_, key)| key)
    }
}

/// The service that a REQ names, in the words of queue pairs: an XRC initiator asks for a target.
fn service(kind: cm::QpType) -> QpType {
    match kind {
        cm::QpType::Rc => QpType::Rc,
        cm::QpType::Uc => QpType::Uc,
        cm::QpType::Xrc => QpType::XrcRecv,
    }
}

/// Whether a listener's queue pairs and the caller's go together.
fn speak(listener: QpType, caller: QpType) -> bool {
    listener == caller || listener.is_xrc() && caller.is_xrc()
}

/// A SIDR_REP that names no queue pair.
pub(crate) fn refusal(status: u8, private_data: &[u8]) -> cm::SidrReply<'_> {
    cm::SidrReply { status, qpn: Qpn::default(), qkey: QKey(0), ece: cm::Ece::default(), info: &[], private_data }
}

/// How well a listener's address fits: 2 exactly, 1 as a wildcard.
fn fit(listens: SocketAddr, port: u16, wanted: IpAddr, v6_only: bool) -> Option<u8> {
    if listens.port() != port {
        return None;
    }
    match (listens.ip(), wanted) {
        (own, wanted) if own == wanted => Some(2),
        (IpAddr::V4(own), IpAddr::V4(_)) if own.is_unspecified() => Some(1),
        (IpAddr::V6(own), IpAddr::V6(_)) if own.is_unspecified() => Some(1),
        (IpAddr::V6(own), IpAddr::V4(_)) if own.is_unspecified() && !v6_only => Some(1),
        _ => None,
    }
}

/// The path MTU that the peer chose, if our interface takes it.
fn mtu(code: u8, entry: &Entry) -> Result<Mtu, Refusal> {
    let mtu = Mtu::ALL.into_iter().find(|mtu| *mtu as u8 == code).ok_or(Refusal(reason::INVALID_MTU))?;
    let fits = entry.binding.as_ref().is_some_and(|binding| mtu <= binding.mtu);
    if fits { Ok(mtu) } else { Err(Refusal(reason::INVALID_MTU)) }
}
