//! The closing messages that the hub sends to the peers if this process dies: one for each connection.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use cm::ConnId;
use hub::client::manager::{AddressedMad, ManagerSession};

/// The time between two checks of released connections.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Keeps the hub's copies up to date.
#[derive(Debug, Default)]
pub(super) struct ClosingTracker {
    /// The kind (attribute id) of each connection's message at the hub.
    at_hub: HashMap<ConnId, u16>,
    /// Connections whose message may have changed.
    touched: Vec<ConnId>,
    /// Connections of destroyed ids with a message at the hub. Their peer has yet to answer, and no event will
    /// report it.
    released: Vec<ConnId>,
    next_check: Option<Duration>,
}

impl ClosingTracker {
    /// A connection's message may have changed.
    pub(super) fn touch(&mut self, conn: ConnId) {
        self.touched.push(conn);
    }

    /// The id of a connection was destroyed: its events end, so the tracker checks it from time to time.
    pub(super) fn release(&mut self, now: Duration, conn: ConnId) {
        self.touch(conn);
        self.released.push(conn);
        self.next_check.get_or_insert(now + CHECK_INTERVAL);
    }

    /// The time of the next [`check`](ClosingTracker::check).
    pub(super) fn next_check(&self) -> Option<Duration> {
        self.next_check
    }

    /// Marks the released connections as touched, if it is time.
    pub(super) fn check(&mut self, now: Duration) {
        if self.next_check.is_none_or(|at| now < at) {
            return;
        }
        self.released.retain(|conn| self.at_hub.contains_key(conn));
        self.touched.extend(&self.released);
        self.next_check = (!self.released.is_empty()).then(|| now + CHECK_INTERVAL);
    }

    /// Tells the hub about the messages that have changed.
    pub(super) fn update(&mut self, cm: &cm::Manager, session: &mut ManagerSession) {
        for conn in self.touched.drain(..) {
            let Some(closing) = cm.closing_mad(conn) else {
                if self.at_hub.remove(&conn).is_some() {
                    session.clear_closing_message(conn.0);
                }
                continue;
            };
            let kind = u16::from_be_bytes([closing.mad[16], closing.mad[17]]);
            match self.at_hub.entry(conn) {
                Entry::Occupied(known) if *known.get() == kind => continue,
                Entry::Occupied(mut known) => drop(known.insert(kind)),
                Entry::Vacant(vacant) => drop(vacant.insert(kind)),
            }
            session.set_closing_message(conn.0, &mad_packet(&closing.route, &closing.mad), closing.until_answered);
        }
    }
}

/// The packet of a MAD on a route.
pub(super) fn mad_packet(route: &cm::MadRoute, mad: &[u8; 256]) -> AddressedMad {
    AddressedMad {
        local: route.local,
        remote: route.remote,
        interface: route.interface,
        traffic_class: route.traffic_class,
        mad: *mad,
    }
}
