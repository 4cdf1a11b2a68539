//! Connecting, accepting, and ending it.

use cm::ip::Header;
use transport::QpType;
use wire::mad::{Req, SidrReq, sidr_status};

use super::multicast::UDP_QKEY;
use super::{Id, IdKey};
use crate::error::Error;
use crate::event::{ConnParam, EventKind, Param};
use crate::state::{Asked, Entry, Phase, State, refusal};

/// Private data of a REQ, the header of ours included.
const REQ_ROOM: usize = Req::PRIVATE_LEN;
/// Of a SIDR_REQ.
const SIDR_ROOM: usize = SidrReq::PRIVATE_LEN;

/// The reason of a rejection by the program (IB specification 12.6.7.2).
pub const CONSUMER_DEFINED: u16 = 28;

impl Id {
    /// Asks the peer: for a connection, which is answered by
    /// [`ConnectResponse`](EventKind::ConnectResponse), [`Rejected`](EventKind::Rejected) or
    /// [`Unreachable`](EventKind::Unreachable), or for the queue pair that serves datagrams,
    /// [`Established`](EventKind::Established). `rdma_connect(3)`.
    ///
    /// # Errors
    /// If the route is not resolved, or there is more private data than 56 bytes (180 for datagrams).
    pub fn connect(&self, param: &ConnParam) -> Result<(), Error> {
        self.change(|state, key| {
            let entry = state.entry(key)?;
            if entry.phase != Phase::RouteResolved {
                return Err(Error::State("its route is not resolved"));
            }
            match entry.is_datagram() {
                true => state.look_up(key, param),
                false => state.connect(key, param),
            }
        })
    }

    /// Confirms, whichever side this is: [`confirm`](Id::confirm) or [`notify`](Id::notify).
    ///
    /// # Errors
    /// As theirs.
    pub fn establish(&self) -> Result<(), Error> {
        match self.look(|entry| entry.phase) {
            Some(Phase::Accepted) => self.notify(),
            _ => self.confirm(),
        }
    }

    /// The active side confirms after [`ConnectResponse`](EventKind::ConnectResponse), with its queue pair
    /// ready to send. `rdma_establish(3)`.
    ///
    /// # Errors
    /// [`Error::Connected`] if the connection stands already; [`Error::State`] if there is nothing to
    /// confirm.
    pub fn confirm(&self) -> Result<(), Error> {
        self.change(|state, key| {
            let now = state.now();
            let conn = state.entry(key)?.unconfirmed(Phase::Responded)?;
            state.cm.confirm(now, conn, &[])?;
            state.entry(key)?.phase = Phase::Established;
            state.touch(conn);
            Ok(())
        })
    }

    /// The passive side has data although the peer has not confirmed yet:
    /// [`Established`](EventKind::Established) follows at once. `rdma_notify(3)`.
    ///
    /// # Errors
    /// As of [`confirm`](Id::confirm).
    pub fn notify(&self) -> Result<(), Error> {
        self.change(|state, key| {
            let now = state.now();
            let conn = state.entry(key)?.unconfirmed(Phase::Accepted)?;
            state.cm.established(now, conn)?;
            state.established(key);
            state.touch(conn);
            Ok(())
        })
    }

    /// Takes the connection that a peer asked for; [`Established`](EventKind::Established) follows
    /// when it has confirmed. For datagrams: tells the peer the queue pair's number, and that is
    /// all. `rdma_accept(3)`.
    ///
    /// # Errors
    /// If the id is none of a [`ConnectRequest`](EventKind::ConnectRequest) or was answered, or there
    /// is more private data than 196 bytes (136 for datagrams).
    pub fn accept(&self, param: &ConnParam) -> Result<(), Error> {
        self.change(|state, key| {
            let entry = state.entry(key)?;
            if entry.phase != Phase::Requested {
                return Err(Error::State("it has no request to accept"));
            }
            match entry.is_datagram() {
                true => state.offer(key, param),
                false => state.accept(key, param),
            }
        })
    }

    /// Refuses the connection that a peer asked for. `reason` is what the peer's event has as its
    /// status: [`CONSUMER_DEFINED`], where the program has none. `rdma_reject(3)`.
    ///
    /// # Errors
    /// As [`accept`](Id::accept); 148 bytes of private data (136 for datagrams).
    pub fn reject(&self, private_data: &[u8], reason: u16) -> Result<(), Error> {
        self.change(|state, key| {
            let now = state.now();
            let entry = state.entry(key)?;
            if !matches!(entry.phase, Phase::Requested | Phase::Responded) {
                return Err(Error::State("it has no request to refuse"));
            }
            let conn = entry.connection()?;
            match entry.is_datagram() {
                true => state.cm.sidr_reply(now, conn, &refusal(sidr_status::REJECTED, private_data))?,
                false => state.cm.reject(now, conn, reason, &[], private_data)?,
            }
            state.entry(key)?.phase = Phase::Ended;
            state.touch(conn);
            Ok(())
        })
    }

    /// Ends the connection, or agrees that it has ended: [`Disconnected`](EventKind::Disconnected)
    /// on both sides. The caller's queue pair should be in error by now. Nothing happens, as in Linux,
    /// before the connection stands, after its end, and to datagrams. `rdma_disconnect(3)`.
    ///
    /// # Errors
    /// If there never was one.
    pub fn disconnect(&self) -> Result<(), Error> {
        self.change(|state, key| {
            let now = state.now();
            let entry = state.entry(key)?;
            let conn = entry.connection()?;
            if entry.phase == Phase::Established && !entry.is_datagram() {
                state.cm.disconnect(now, conn, &[])?;
                state.touch(conn);
            }
            Ok(())
        })
    }
}

impl Entry {
    fn connection(&self) -> Result<cm::ConnId, Error> {
        self.conn.ok_or(Error::State("it has no connection"))
    }

    /// The connection, if it waits for the confirmation that belongs to `phase`.
    fn unconfirmed(&self, phase: Phase) -> Result<cm::ConnId, Error> {
        let conn = self.connection()?;
        match self.phase {
            own if own == phase => Ok(conn),
            Phase::Established => Err(Error::Connected),
            _ => Err(Error::State("there is nothing to confirm")),
        }
    }

    fn route(&self) -> Result<cm::Route, Error> {
        let (Some(local), Some(peer), Some(binding)) = (self.local, self.peer, &self.binding) else {
            return Err(Error::State("it has no route"));
        };
        let interface = binding.interface;
        Ok(cm::Route { local: local.ip(), remote: peer.ip(), interface, traffic_class: self.tos })
    }

    fn service_id(&self) -> Result<u64, Error> {
        let peer = self.peer.ok_or(Error::State("it has no route"))?;
        Ok(cm::ip::service_id(self.space as u16, peer.port()))
    }
}

/// The caller's private data behind the header that says who calls.
fn with_header(entry: &Entry, private_data: &[u8], room: usize) -> Result<Vec<u8>, Error> {
    let max = room - Header::LEN;
    if private_data.len() > max {
        return Err(Error::PrivateData { asked: private_data.len(), max });
    }
    let (Some(local), Some(peer)) = (entry.local, entry.peer) else { return Err(Error::State("it has no route")) };
    let header = Header { source: local.ip(), source_port: local.port(), destination: peer.ip() };
    Ok([&header.encode()[..], private_data].concat())
}

fn retry_limits(param: &ConnParam) -> Result<(u8, u8), Error> {
    match (param.retry_count, param.rnr_retry_count) {
        (0..=7, 0..=7) => Ok((param.retry_count, param.rnr_retry_count)),
        _ => Err(Error::Invalid("retry counts have three bits")),
    }
}

/// The kind of connection that a queue pair makes.
fn service(qp_type: QpType) -> cm::QpType {
    match qp_type {
        QpType::Uc => cm::QpType::Uc,
        QpType::XrcSend | QpType::XrcRecv => cm::QpType::Xrc,
        QpType::Rc | QpType::Ud => cm::QpType::Rc,
    }
}

impl State {
    /// Sends a REQ.
    fn connect(&mut self, key: IdKey, param: &ConnParam) -> Result<(), Error> {
        let now = self.now();
        let entry = self.entry(key)?;
        let private_data = with_header(entry, &param.private_data, REQ_ROOM)?;
        let (retry_count, rnr_retry_count) = retry_limits(param)?;
        let mtu = entry.binding.as_ref().map_or(1, |binding| binding.mtu as u8);
        let request = cm::ConnectRequest {
            qp_type: service(entry.qp_type),
            responder_resources: param.responder_resources,
            initiator_depth: param.initiator_depth,
            flow_control: param.flow_control,
            retry_count,
            rnr_retry_count,
            srq: param.srq,
            mtu,
            flow_label: entry.flow_label,
            ece: entry.local_ece,
            private_data: &private_data,
            ..cm::ConnectRequest::new(entry.route()?, entry.service_id()?, param.qpn, entry.psn)
        };
        let conn = self.cm.connect(now, &request)?;
        let entry = self.entry(key)?;
        entry.asked = Asked { retry_count, ack_timeout: entry.ack_timeout };
        entry.phase = Phase::Connecting;
        self.join(conn, key);
        Ok(())
    }

    /// Sends a SIDR_REQ.
    fn look_up(&mut self, key: IdKey, param: &ConnParam) -> Result<(), Error> {
        let now = self.now();
        let entry = self.entry(key)?;
        let private_data = with_header(entry, &param.private_data, SIDR_ROOM)?;
        let request = cm::SidrRequest {
            private_data: &private_data,
            ..cm::SidrRequest::new(entry.route()?, entry.service_id()?)
        };
        let conn = self.cm.sidr_request(now, &request)?;
        self.entry(key)?.phase = Phase::Connecting;
        self.join(conn, key);
        Ok(())
    }

    /// Sends a REP.
    fn accept(&mut self, key: IdKey, param: &ConnParam) -> Result<(), Error> {
        let now = self.now();
        let entry = self.entry(key)?;
        let conn = entry.connection()?;
        let (_, rnr_retry_count) = retry_limits(param)?;
        let reply = cm::ConnectReply {
            responder_resources: param.responder_resources,
            initiator_depth: param.initiator_depth,
            flow_control: param.flow_control,
            rnr_retry_count,
            srq: param.srq,
            ece: entry.local_ece,
            private_data: &param.private_data,
            ..cm::ConnectReply::new(param.qpn, entry.psn)
        };
        self.cm.accept(now, conn, &reply)?;
        let entry = self.entry(key)?;
        entry.phase = Phase::Accepted;
        if let Some(remote) = &mut entry.remote {
            remote.responder_resources = param.responder_resources;
            remote.initiator_depth = param.initiator_depth;
        }
        self.touch(conn);
        Ok(())
    }

    /// Sends a SIDR_REP.
    fn offer(&mut self, key: IdKey, param: &ConnParam) -> Result<(), Error> {
        let now = self.now();
        let entry = self.entry(key)?;
        let conn = entry.connection()?;
        let qkey = param.qkey.unwrap_or(UDP_QKEY);
        let ece = entry.local_ece;
        let reply = cm::SidrReply { qpn: param.qpn, qkey, ece, ..refusal(sidr_status::VALID, &param.private_data) };
        self.cm.sidr_reply(now, conn, &reply)?;
        self.entry(key)?.phase = Phase::Established;
        self.touch(conn);
        Ok(())
    }

    /// The peer knows that the connection stands.
    pub(crate) fn established(&mut self, key: IdKey) {
        if let Ok(entry) = self.entry(key) {
            entry.phase = Phase::Established;
            self.tell(key, EventKind::Established, 0, Param::Conn(ConnParam::default()));
        }
    }
}
