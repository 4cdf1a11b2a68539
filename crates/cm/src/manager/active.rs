//! The active side: REP; and for both sides MRA and REJ.

use core::time::Duration;

use wire::mad::{About, CmMessage, Mra, Rej, Rejected, Rep, reason};

use super::Manager;
use super::receive::IncomingMad;
use crate::call::Ece;
use crate::event::{CmEvent, RejectReceived, ReplyReceived};
use crate::messages;
use crate::refuse::rej;
use crate::table::{CmState, QpnKey, RemoteIdKey};
use crate::time;

impl Manager {
    /// The peer agrees: for the first time, or again because our RTU or MRA was lost.
    pub(super) fn on_rep(&mut self, incoming: &IncomingMad<'_>, rep: &Rep) {
        let id = rep.remote_id;
        let Some(connection) = self.find(incoming, id, rep.local_id) else {
            return;
        };
        match (connection.state(), connection.active) {
            (CmState::ReqSent, true) => self.on_first_rep(incoming, rep),
            (CmState::RepReceived, true) => {
                let receipt = connection.receipt;
                self.counters.duplicate += 1;
                if let Some(mra) = receipt {
                    self.transmit(*incoming.route, mra);
                }
            }
            (CmState::Established | CmState::Refused, true) => {
                self.counters.duplicate += 1;
                self.send_kept(id);
            }
            // The peer waits for an RTU that will not come.
            (CmState::TimeWait, true) => {
                self.counters.duplicate += 1;
                self.refuse(incoming);
            }
            _ => self.unexpected(),
        }
    }

    fn on_first_rep(&mut self, incoming: &IncomingMad<'_>, rep: &Rep) {
        let id = rep.remote_id;
        let key = QpnKey::new(incoming.route, rep.ca_guid, rep.qpn);
        if let Some(older) = self.table.with_qpn(key) {
            return self.on_stale_rep(incoming, rep, older);
        }
        let Some(connection) = self.table.get_mut(id) else {
            return;
        };
        connection.remote_id = Some(rep.local_id);
        connection.remote_guid = rep.ca_guid;
        connection.remote_qpn = rep.qpn;
        connection.ack_timeout = time::ack_timeout(rep.target_ack_delay, connection.ack_timeout.saturating_sub(1));
        let reply = reply_of(incoming.header.modifier, rep, connection.ack_timeout);
        self.table.link_remote(id, RemoteIdKey::new(incoming.route, rep.ca_guid, rep.local_id));
        self.table.link_qpn(id, key);
        self.table.enter(id, CmState::RepReceived, None);
        self.event(id, CmEvent::Reply(reply));
    }

    /// The peer's queue pair has an older connection here: both end (IB specification 12.9.8.3).
    fn on_stale_rep(&mut self, incoming: &IncomingMad<'_>, rep: &Rep, older: u32) {
        let refusal = rej(rep.remote_id, rep.local_id, Rejected::REP, reason::STALE_CONNECTION);
        self.transmit(*incoming.route, messages::encode(incoming.header.transaction_id, CmMessage::Rej(refusal)));
        self.enter_time_wait(incoming.now, rep.remote_id);
        self.event(rep.remote_id, CmEvent::Rejected(reject_of(&refusal)));
        self.on_stale(incoming.now, older);
    }

    /// The peer seems to have lost an established connection: sends a DREQ to make sure.
    pub(super) fn on_stale(&mut self, now: Duration, id: u32) {
        self.counters.stale += 1;
        if self.table.get(id).is_some_and(|connection| connection.state() == CmState::Established) {
            self.send_dreq(now, id, [0; wire::mad::Dreq::PRIVATE_LEN]);
        }
    }

    /// The peer needs more time.
    pub(super) fn on_mra(&mut self, incoming: &IncomingMad<'_>, mra: &Mra) {
        let id = mra.remote_id;
        let Some(connection) = self.find(incoming, id, mra.local_id) else {
            return;
        };
        match (connection.state(), mra.about) {
            (CmState::ReqSent, About::REQ) | (CmState::RepSent, About::REP) => {
                let more = time::of_peer_service(mra.service_timeout) + time::of_peer(connection.ack_timeout);
                self.table.set_deadline(id, Some(incoming.now + more));
                let event = CmEvent::Delayed { service_timeout: mra.service_timeout, private_data: mra.private_data };
                self.event(id, event);
            }
            _ => self.unexpected(),
        }
    }

    /// The peer refuses, or has given up.
    pub(super) fn on_rej(&mut self, incoming: &IncomingMad<'_>, rej: &Rej) {
        let Some(id) = self.id_of_rej(incoming, rej) else {
            return;
        };
        let Some(state) = self.table.get(id).map(|connection| connection.state()) else {
            return;
        };
        match state {
            CmState::ReqSent | CmState::ReqReceived | CmState::RepSent if rej.reason != reason::STALE_CONNECTION => {
                self.event(id, CmEvent::Rejected(reject_of(rej)));
                self.settle(id);
            }
            CmState::ReqSent
            | CmState::ReqReceived
            | CmState::RepSent
            | CmState::RepReceived
            | CmState::Established => {
                self.event(id, CmEvent::Rejected(reject_of(rej)));
                self.enter_time_wait(incoming.now, id);
            }
            CmState::DreqSent => {
                self.event(id, CmEvent::Disconnected { private_data: None });
                self.enter_time_wait(incoming.now, id);
            }
            _ => self.unexpected(),
        }
    }

    /// The connection of a REJ: by our id, or by the peer's GUID and id if the peer never learned ours.
    fn id_of_rej(&mut self, incoming: &IncomingMad<'_>, rej: &Rej) -> Option<u32> {
        if rej.reason == reason::TIMEOUT
            && rej.remote_id == 0
            && let Some(guid) = rej.info().first_chunk()
        {
            let key = RemoteIdKey::new(incoming.route, u64::from_be_bytes(*guid), rej.local_id);
            let found = self.table.with_remote(key);
            self.counters.unknown += u64::from(found.is_none());
            return found;
        }
        let of_request = self.table.get(rej.remote_id).is_some_and(|connection| connection.remote_id.is_none());
        let remote = if of_request { 0 } else { rej.local_id };
        self.find(incoming, rej.remote_id, remote).map(|_| rej.remote_id)
    }
}

fn reply_of(options: u32, rep: &Rep, ack_timeout: u8) -> ReplyReceived {
    ReplyReceived {
        remote_qpn: rep.qpn,
        starting_psn: rep.starting_psn,
        responder_resources: rep.responder_resources,
        initiator_depth: rep.initiator_depth,
        flow_control: rep.flow_control,
        rnr_retry_count: rep.rnr_retry_count,
        srq: rep.srq,
        remote_guid: rep.ca_guid,
        ack_timeout,
        ece: Ece { vendor_id: rep.vendor_id, options },
        private_data: rep.private_data,
    }
}

fn reject_of(rej: &Rej) -> RejectReceived {
    RejectReceived {
        reason: rej.reason,
        info_len: rej.info().len() as u8,
        info: rej.info,
        private_data: rej.private_data,
    }
}
