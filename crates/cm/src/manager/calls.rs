//! The caller's calls, but for those that end a connection.

use core::time::Duration;

use wire::mad::{About, CmMessage, Rejected};

use super::Manager;
use crate::call::{ConnId, ConnectReply, ConnectRequest};
use crate::error::Error;
use crate::messages;
use crate::refuse::rej;
use crate::table::{CmState, ConnectionRecord, RetryTimer};
use crate::time;

impl Manager {
    /// Sends a REQ. [`CmEvent::Reply`](crate::CmEvent::Reply), `Rejected` or `Unreachable` follows.
    ///
    /// # Errors
    /// The private data is too long, or no id is free.
    pub fn connect(&mut self, now: Duration, request: &ConnectRequest<'_>) -> Result<ConnId, Error> {
        let guid = self.guid;
        let transactions = self.ids.transactions();
        let id = self.insert(|id| {
            let req = messages::req(id, guid, request)?;
            let transaction = transactions | u64::from(id);
            let interval = time::of_code(request.packet_lifetime) * 2 + time::of_code(request.remote_response_timeout);
            Ok(ConnectionRecord {
                active: true,
                local_qpn: request.qpn,
                service_id: request.service_id,
                transaction,
                ack_timeout: req.primary.local_ack_timeout,
                patience: time::of_peer(request.local_response_timeout),
                retry: RetryTimer::new(interval, req.max_cm_retries),
                message: messages::encode_with(transaction, request.ece.options, CmMessage::Req(req)),
                ..ConnectionRecord::new(CmState::ReqSent, request.route)
            })
        })?;
        self.send_kept(id);
        self.enter_repeating(now, id, CmState::ReqSent);
        Ok(ConnId(id))
    }

    /// Sends the REP to a REQ. `ReadyToUse`, `Rejected` or `Unreachable` follows.
    ///
    /// # Errors
    /// The id has no undecided request, or the private data is too long.
    pub fn accept(&mut self, now: Duration, id: ConnId, reply: &ConnectReply<'_>) -> Result<(), Error> {
        let connection = self.owned_in(id, &[CmState::ReqReceived])?;
        let rep = messages::rep(id.0, self.guid, connection, reply)?;
        let mad = messages::encode_with(connection.transaction, reply.ece.options, CmMessage::Rep(rep));
        if let Some(connection) = self.table.get_mut(id.0) {
            connection.local_qpn = reply.qpn;
            connection.receipt = None;
        }
        self.keep_and_send(id.0, mad);
        self.enter_repeating(now, id.0, CmState::RepSent);
        Ok(())
    }

    /// Sends the RTU to a REP: the connection is established.
    ///
    /// # Errors
    /// The id has no undecided reply, or the private data is too long.
    pub fn confirm(&mut self, _now: Duration, id: ConnId, private_data: &[u8]) -> Result<(), Error> {
        let connection = self.owned_in(id, &[CmState::RepReceived])?;
        let rtu = messages::rtu(id.0, connection, private_data)?;
        let mad = messages::encode(connection.transaction, CmMessage::Rtu(rtu));
        self.keep_and_send(id.0, mad);
        self.table.enter(id.0, CmState::Established, None);
        Ok(())
    }

    /// Data arrived before the RTU: the connection is established (IB specification 12.9.7.2). No event
    /// follows, and nothing happens if it was established already.
    ///
    /// # Errors
    /// The id waits for no RTU.
    pub fn established(&mut self, _now: Duration, id: ConnId) -> Result<(), Error> {
        self.owned_in(id, &[CmState::RepSent, CmState::Established])?;
        self.table.enter(id.0, CmState::Established, None);
        Ok(())
    }

    /// Sends an MRA: the answer to a REQ or REP will take up to 4.096 µs · 2^`service_timeout` longer. It is sent
    /// again when the message comes again.
    ///
    /// # Errors
    /// The id has no undecided request or reply, or the private data is too long.
    pub fn delay(&mut self, now: Duration, id: ConnId, service_timeout: u8, private_data: &[u8]) -> Result<(), Error> {
        self.delay_repeats(now, id, service_timeout, private_data)?;
        if let Some((route, mad)) = self.table.get(id.0).and_then(|c| Some((c.route, c.receipt?))) {
            self.transmit(route, mad);
        }
        Ok(())
    }

    /// Likewise, but sends the MRA only when the REQ or REP comes again. An answer in time saves the
    /// message. The Linux RDMA CM does so for all requests and replies, with 24.
    ///
    /// # Errors
    /// As of [`delay`](Manager::delay).
    pub fn delay_repeats(
        &mut self,
        _now: Duration,
        id: ConnId,
        service_timeout: u8,
        private_data: &[u8],
    ) -> Result<(), Error> {
        let connection = self.owned_in(id, &[CmState::ReqReceived, CmState::RepReceived])?;
        let about = if connection.active { About::REP } else { About::REQ };
        let mra = messages::mra(id.0, connection, about, service_timeout, private_data)?;
        let mad = messages::encode(connection.transaction, CmMessage::Mra(mra));
        if let Some(connection) = self.table.get_mut(id.0) {
            connection.receipt = Some(mad);
        }
        Ok(())
    }

    /// Sends a REJ to a REQ or REP, or withdraws a REP that is not confirmed. In the last case `TimewaitExit`
    /// follows, after some time: the REJ is repeated, since nothing acknowledges it. Else no event follows.
    ///
    /// # Errors
    /// The id has nothing to reject, or the information (72 bytes) or private data (148) is too long.
    pub fn reject(
        &mut self,
        now: Duration,
        id: ConnId,
        reason: u16,
        info: &[u8],
        private_data: &[u8],
    ) -> Result<(), Error> {
        let connection = self.owned_in(id, &[CmState::ReqReceived, CmState::RepReceived, CmState::RepSent])?;
        let (rejected, next) = match connection.state() {
            CmState::ReqReceived => (Rejected::REQ, CmState::Refused),
            CmState::RepReceived => (Rejected::REP, CmState::Refused),
            _ => (Rejected::OTHER, CmState::Withdrawn),
        };
        let mut rej = rej(id.0, connection.remote_or_zero(), rejected, reason);
        (rej.info, rej.info_len) = messages::info(info)?;
        rej.private_data = messages::private(private_data)?;
        let mad = messages::encode(connection.transaction, CmMessage::Rej(rej));
        self.keep_and_send(id.0, mad);
        match next {
            CmState::Withdrawn => self.enter_withdrawn(now, id.0),
            _ => self.remember(now, id.0, next),
        }
        Ok(())
    }
}
