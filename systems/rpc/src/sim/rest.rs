//! The end of a run: everything is over, and nothing is left.

use crate::carrier::Carrier;
use crate::sim::account::{Broken, CallRecord, ensure};
use crate::sim::network::EndId;
use crate::sim::world::SimWorld;

impl SimWorld {
    pub(crate) fn is_client_done(&self, client: usize) -> bool {
        let client = &self.clients[client];
        client.to_come == 0 && client.backlog.iter().all(|uid| self.account.calls[*uid].told.is_some())
    }

    pub(crate) fn is_all_over(&self) -> bool {
        (0..self.clients.len()).all(|client| self.is_client_done(client))
            && self.account.calls.iter().all(|call| call.told.is_some())
            && self.servers.iter().all(|server| server.sessions.values().all(|live| live.held == 0))
    }

    pub(crate) fn unfinished(&self) -> Broken {
        let open = |(uid, call): (usize, &CallRecord)| call.told.is_none().then(|| format!("{uid} {:?}", call.sent));
        let calls: Vec<String> = self.account.calls.iter().enumerate().filter_map(open).collect();
        format!("calls never end: {}", calls.join(", "))
    }

    /// Everything has come to rest: nothing is left over.
    pub(crate) fn check_rest(&self) -> Result<(), Broken> {
        for live in self.clients.iter().filter_map(|client| client.live.as_ref()) {
            let connection = live.connection;
            if self.may_end(connection) {
                continue;
            }
            let taken = live.session.outstanding();
            ensure!(taken == 0, "{taken} slots of connection {connection} are lost");
            ensure!(live.session.is_quiet(), "the client of connection {connection} has something unsent");
            if let Some(served) = self.servers[live.server].sessions.get(&connection) {
                ensure!(served.session.is_quiet(), "the server of connection {connection} has something unsent");
                let malformed = served.session.counters().malformed;
                ensure!(malformed == 0, "{malformed} messages were malformed");
            }
            if let Carrier::Datagram(datagram) = live.session.carrier()
                && let Some(lost) = datagram.credits_taken()
            {
                ensure!(lost == 0, "{lost} credits of connection {connection} are lost");
            }
            for is_server in [false, true] {
                let exposed = self.network.borrow().exposures(EndId { connection, is_server });
                ensure!(exposed == 0, "an end of connection {connection} exposes {exposed} copies");
            }
        }
        Ok(())
    }
}
