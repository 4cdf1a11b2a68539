//! What the connection manager says, in the words of ids.

use std::sync::Arc;

use cm::ConnId;
use wire::{Gid, QKey};

use super::{Phase, Remote, State};
use crate::event::{ConnParam, DatagramParam, EventKind, Param};
use crate::id::IdKey;
use crate::process::Process;

impl State {
    /// Takes in an event of a connection.
    pub(super) fn heard(&mut self, process: &Arc<Process>, conn: ConnId, event: &cm::Event) {
        self.touch(conn);
        match event {
            cm::Event::Request(request) => return self.requested(process, conn, request),
            cm::Event::SidrRequest(request) => return self.looked_up(process, conn, request),
            _ => {}
        }
        let Some(&key) = self.conns.get(&conn) else { return };
        match event {
            cm::Event::Request(_) | cm::Event::SidrRequest(_) | cm::Event::Delayed { .. } => {}
            cm::Event::Reply(reply) => self.responded(key, reply),
            // What it carries for programs is not theirs: no call sends any.
            cm::Event::ReadyToUse { .. } => self.established(key),
            cm::Event::Rejected(rejection) => self.rejected(key, rejection),
            cm::Event::Unreachable | cm::Event::SidrUnreachable => {
                self.end(key, EventKind::Unreachable, self.unreachable_status, Param::None);
            }
            cm::Event::DisconnectRequest { .. } => {
                self.disconnected(key);
                // The peer need not wait for the program.
                let now = self.now();
                let agreed = self.cm.disconnect(now, conn, &[]);
                agreed.unwrap_or_else(|error| log::debug!("cannot agree to a disconnect: {error}"));
            }
            cm::Event::Disconnected { .. } => self.disconnected(key),
            cm::Event::TimewaitExit => self.tell(key, EventKind::TimewaitExit, 0, Param::None),
            cm::Event::SidrReply(reply) => self.found(key, reply),
        }
    }

    /// The connection has ended, which is told once.
    fn disconnected(&mut self, key: IdKey) {
        if self.find(key).is_some_and(|entry| entry.phase != Phase::Ended) {
            self.end(key, EventKind::Disconnected, 0, Param::None);
        }
    }

    /// The peer refuses, or never knew that the connection stood.
    fn rejected(&mut self, key: IdKey, rejection: &cm::RejectReceived) {
        if self.find(key).is_some_and(|entry| entry.phase == Phase::Established) {
            return self.disconnected(key);
        }
        let param = ConnParam { private_data: rejection.private_data.to_vec(), ..ConnParam::default() };
        self.end(key, EventKind::Rejected, rejection.reason.into(), Param::Conn(param));
    }

    fn end(&mut self, key: IdKey, kind: EventKind, status: i32, param: Param) {
        if let Ok(entry) = self.entry(key) {
            entry.phase = Phase::Ended;
        }
        self.tell(key, kind, status, param);
    }

    /// The peer accepts.
    fn responded(&mut self, key: IdKey, reply: &cm::ReplyReceived) {
        let Ok(entry) = self.entry(key) else { return };
        let Some(binding) = &entry.binding else { return };
        let asked = entry.asked;
        entry.phase = Phase::Responded;
        entry.remote_ece = reply.ece;
        entry.remote = Some(Remote {
            qpn: reply.remote_qpn,
            psn: reply.starting_psn,
            responder_resources: reply.initiator_depth,
            initiator_depth: reply.responder_resources,
            retry_count: asked.retry_count,
            rnr_retry: reply.rnr_retry_count,
            ack_timeout: asked.ack_timeout.unwrap_or(reply.ack_timeout),
            mtu: binding.mtu,
        });
        let param = ConnParam {
            private_data: reply.private_data.to_vec(),
            responder_resources: reply.initiator_depth,
            initiator_depth: reply.responder_resources,
            flow_control: reply.flow_control,
            retry_count: asked.retry_count,
            rnr_retry_count: reply.rnr_retry_count,
            srq: reply.srq,
            qpn: reply.remote_qpn,
            qkey: None,
        };
        self.tell(key, EventKind::ConnectResponse, 0, Param::Conn(param));
    }

    /// The peer says which queue pair serves.
    fn found(&mut self, key: IdKey, reply: &cm::SidrReplyReceived) {
        let Ok(entry) = self.entry(key) else { return };
        entry.remote_ece = reply.ece;
        let private_data = reply.private_data.to_vec();
        let address = entry.path();
        match (reply.status, address) {
            (0, Some(address)) => {
                entry.phase = Phase::Established;
                let param = DatagramParam { private_data, address, qpn: reply.qpn, qkey: reply.qkey };
                self.tell(key, EventKind::Established, 0, Param::Datagram(param));
            }
            (status, address) => {
                let address = address.unwrap_or_else(|| transport::AddressVector::new(Gid::default(), Gid::default()));
                let param = DatagramParam { private_data, address, qpn: reply.qpn, qkey: QKey(0) };
                self.end(key, EventKind::Unreachable, status.into(), Param::Datagram(param));
            }
        }
    }
}
