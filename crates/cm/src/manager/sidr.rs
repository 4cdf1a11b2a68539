//! Datagrams: SIDR_REQ and SIDR_REP.

use core::time::Duration;

use wire::mad::{CmMessage, SidrRep, SidrReq};

use super::Manager;
use super::receive::IncomingMad;
use crate::call::{ConnId, Ece, SidrReply, SidrRequest};
use crate::error::Error;
use crate::event::{CmEvent, SidrReplyReceived, SidrRequestReceived};
use crate::messages;
use crate::table::{CmState, ConnectionRecord, RetryTimer, SidrKey};
use crate::time;

impl Manager {
    /// Sends a SIDR_REQ. [`CmEvent::SidrReply`] or [`CmEvent::SidrUnreachable`] follows.
    ///
    /// # Errors
    /// The private data is too long, or no id is free.
    pub fn sidr_request(&mut self, now: Duration, request: &SidrRequest<'_>) -> Result<ConnId, Error> {
        let transactions = self.ids.transactions();
        let id = self.insert(|id| {
            let transaction = transactions | u64::from(id);
            let message = CmMessage::SidrReq(messages::sidr_req(id, request)?);
            Ok(ConnectionRecord {
                active: true,
                service_id: request.service_id,
                transaction,
                retry: RetryTimer::new(request.timeout, request.max_retries),
                message: messages::encode(transaction, message),
                ..ConnectionRecord::new(CmState::SidrReqSent, request.route)
            })
        })?;
        self.send_kept(id);
        self.enter_repeating(now, id, CmState::SidrReqSent);
        Ok(ConnId(id))
    }

    /// Sends the SIDR_REP to a SIDR_REQ. No event follows.
    ///
    /// # Errors
    /// The id has no unanswered request, or the information (72 bytes) or private data (136) is too long.
    pub fn sidr_reply(&mut self, now: Duration, id: ConnId, reply: &SidrReply<'_>) -> Result<(), Error> {
        let connection = self.owned_in(id, &[CmState::SidrReqReceived])?;
        let rep = messages::sidr_rep(connection, reply)?;
        let mad = messages::encode_with(connection.transaction, reply.ece.options, CmMessage::SidrRep(rep));
        self.keep_and_send(id.0, mad);
        self.remember(now, id.0, CmState::SidrAnswered);
        Ok(())
    }

    pub(super) fn on_sidr_req(&mut self, incoming: &IncomingMad<'_>, req: &SidrReq) {
        let key = SidrKey::new(incoming.route, req.request_id);
        if let Some(id) = self.table.with_sidr(key) {
            let same = self.table.get(id).is_some_and(|connection| {
                connection.state() == CmState::SidrReqReceived
                    || (connection.transaction, connection.service_id)
                        == (incoming.header.transaction_id, req.service_id)
            });
            if same {
                return self.on_repeated_sidr_req(incoming.now, id);
            }
            self.settle(id);
        }
        let made = self.half_open_room()
            && self.insert(|_| Ok(connection_of(incoming, req))).is_ok_and(|id| {
                self.table.link_sidr(id, key);
                self.event(id, CmEvent::SidrRequest(request_of(incoming, req)));
                true
            });
        if !made {
            self.counters.overflow += 1;
        }
    }

    fn on_repeated_sidr_req(&mut self, now: Duration, id: u32) {
        self.counters.duplicate += 1;
        if self.table.get(id).is_some_and(|connection| connection.state() == CmState::SidrAnswered) {
            self.repeat_memory(now, id);
        }
    }

    pub(super) fn on_sidr_rep(&mut self, incoming: &IncomingMad<'_>, rep: &SidrRep) {
        let id = rep.request_id;
        let Some(connection) = self.table.get(id).filter(|connection| connection.state() == CmState::SidrReqSent)
        else {
            self.counters.unknown += 1;
            return;
        };
        if !connection.is_from_peer(incoming.route) {
            self.counters.foreign += 1;
            return;
        }
        self.event(id, CmEvent::SidrReply(reply_of(incoming.header.modifier, rep)));
        self.settle(id);
    }
}

fn connection_of(incoming: &IncomingMad<'_>, req: &SidrReq) -> ConnectionRecord {
    ConnectionRecord {
        remote_id: Some(req.request_id),
        service_id: req.service_id,
        transaction: incoming.header.transaction_id,
        // The request does not contain its sender's timeout: this is that of the Linux RDMA CM.
        patience: time::of_code(crate::LINUX_RESPONSE_TIMEOUT),
        ..ConnectionRecord::new(CmState::SidrReqReceived, *incoming.route)
    }
}

fn request_of(incoming: &IncomingMad<'_>, req: &SidrReq) -> SidrRequestReceived {
    SidrRequestReceived {
        route: *incoming.route,
        service_id: req.service_id,
        pkey: req.pkey,
        private_data: req.private_data,
    }
}

fn reply_of(options: u32, rep: &SidrRep) -> SidrReplyReceived {
    SidrReplyReceived {
        status: rep.status,
        qpn: rep.qpn,
        qkey: rep.qkey,
        ece: Ece { vendor_id: rep.vendor_id, options },
        info_len: rep.info_len.min(SidrRep::INFO_LEN as u8),
        info: rep.info,
        private_data: rep.private_data,
    }
}
