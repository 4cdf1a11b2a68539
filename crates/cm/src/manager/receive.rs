//! Incoming MADs: each goes to the handler of its kind.

use core::time::Duration;

use wire::mad::{self, Apr, CmMessage, Lap, MAD_LEN, MadHeader, apr_status};

use super::Manager;
use crate::call::MadRoute;
use crate::messages;
use crate::refuse::{apr, refuse};
use crate::table::{CmState, ConnectionRecord};

/// A MAD with its header, route and time.
pub(super) struct IncomingMad<'a> {
    pub(super) now: Duration,
    pub(super) route: &'a MadRoute,
    pub(super) header: MadHeader,
    pub(super) mad: &'a [u8; MAD_LEN],
}

impl Manager {
    /// Takes a MAD that came on `route`. Any bytes cause at most one answer and one event, and one
    /// DREQ for a connection that they prove to be stale.
    pub fn receive(&mut self, now: Duration, route: &MadRoute, mad: &[u8; MAD_LEN]) {
        self.counters.received += 1;
        let Ok((header, message)) = mad::decode(mad) else {
            self.counters.malformed += 1;
            return;
        };
        let incoming = IncomingMad { now, route, header, mad };
        match &message {
            CmMessage::Req(req) => self.on_req(&incoming, req),
            CmMessage::Mra(mra) => self.on_mra(&incoming, mra),
            CmMessage::Rej(rej) => self.on_rej(&incoming, rej),
            CmMessage::Rep(rep) => self.on_rep(&incoming, rep),
            CmMessage::Rtu(rtu) => self.on_rtu(&incoming, rtu),
            CmMessage::Dreq(dreq) => self.on_dreq(&incoming, dreq),
            CmMessage::Drep(drep) => self.on_drep(&incoming, drep),
            CmMessage::SidrReq(req) => self.on_sidr_req(&incoming, req),
            CmMessage::SidrRep(rep) => self.on_sidr_rep(&incoming, rep),
            CmMessage::Lap(lap) => self.on_lap(&incoming, lap),
            CmMessage::Apr(apr) => self.on_apr(apr),
        }
    }

    /// The connection of a message that names both ids. `None` if the message was refused or dropped.
    pub(super) fn find(&mut self, incoming: &IncomingMad<'_>, local: u32, remote: u32) -> Option<&ConnectionRecord> {
        if !self.is_known(local, incoming) {
            return None;
        }
        let connection = self.table.get(local)?;
        if !connection.is_from_peer(incoming.route) || connection.remote_id.is_some_and(|known| known != remote) {
            self.counters.foreign += 1;
            return None;
        }
        if connection.remote_id.is_none() && !connection.active {
            self.counters.foreign += 1;
            return None;
        }
        self.table.get(local)
    }

    fn is_known(&mut self, local: u32, incoming: &IncomingMad<'_>) -> bool {
        let known = self.table.get(local).is_some_and(|connection| connection.state() != CmState::Idle);
        if !known {
            self.counters.unknown += 1;
            self.refuse(incoming);
        }
        known
    }

    /// Sends the answer for messages without a connection.
    pub(super) fn refuse(&mut self, incoming: &IncomingMad<'_>) {
        if let Some(answer) = refuse(incoming.mad) {
            self.transmit(*incoming.route, answer);
        }
    }

    /// Counts a message that this state does not wait for.
    pub(super) fn unexpected(&mut self) {
        self.counters.unexpected += 1;
    }

    /// Alternate paths are not supported.
    fn on_lap(&mut self, incoming: &IncomingMad<'_>, lap: &Lap) {
        let Some(connection) = self.find(incoming, lap.remote_id, lap.local_id) else {
            return;
        };
        if connection.remote_id.is_none() {
            return self.unexpected();
        }
        let answer = apr(lap.remote_id, lap.local_id, apr_status::UNSUPPORTED);
        let mad = messages::encode(incoming.header.transaction_id, CmMessage::Apr(answer));
        self.transmit(*incoming.route, mad);
    }

    /// No LAP was sent.
    fn on_apr(&mut self, _apr: &Apr) {
        self.unexpected();
    }
}
