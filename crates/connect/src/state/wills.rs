//! Keeps the hub informed of what it should tell the peers if this process dies.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use cm::ConnId;
use hub::client::manager::ManagerSession;

use super::packet;

/// The wills that the hub has, as far as we know.
#[derive(Debug, Default)]
pub(crate) struct Wills {
    /// The connection's last will, told from others by its message's kind.
    known: HashMap<ConnId, u16>,
    /// Connections whose will may have changed.
    touched: Vec<ConnId>,
}

impl Wills {
    /// A connection went on.
    pub(super) fn touch(&mut self, conn: ConnId) {
        self.touched.push(conn);
    }

    /// Tells the hub what is new.
    pub(super) fn settle(&mut self, cm: &cm::Manager, session: &mut ManagerSession) {
        for conn in self.touched.drain(..) {
            let Some(farewell) = cm.farewell(conn) else {
                if self.known.remove(&conn).is_some() {
                    session.clear_will(conn.0);
                }
                continue;
            };
            let kind = u16::from_be_bytes([farewell.mad[16], farewell.mad[17]]);
            match self.known.entry(conn) {
                Entry::Occupied(known) if *known.get() == kind => continue,
                Entry::Occupied(mut known) => drop(known.insert(kind)),
                Entry::Vacant(place) => drop(place.insert(kind)),
            }
            session.set_will(conn.0, &packet(&farewell.route, &farewell.mad), farewell.until_answered);
        }
    }
}
