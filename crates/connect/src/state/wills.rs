//! Keeps the hub informed of what it should tell the peers if this process dies.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

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
    /// Connections that nobody holds any more, with a will: their peer has not answered yet, and
    /// nobody hears when it does.
    lingering: Vec<ConnId>,
    /// When to look after them.
    look: Option<Duration>,
}

/// Between two looks after connections that nobody holds.
const LOOK_EVERY: Duration = Duration::from_millis(100);

impl Wills {
    /// A connection went on.
    pub(super) fn touch(&mut self, conn: ConnId) {
        self.touched.push(conn);
    }

    /// Nobody will hear of a connection any more.
    pub(super) fn let_go(&mut self, now: Duration, conn: ConnId) {
        self.touch(conn);
        self.lingering.push(conn);
        self.look.get_or_insert(now + LOOK_EVERY);
    }

    /// When to [`look`](Wills::look) at the latest.
    pub(super) fn next_look(&self) -> Option<Duration> {
        self.look
    }

    /// Looks after connections that nobody holds, if it is time.
    pub(super) fn look(&mut self, now: Duration) {
        if self.look.is_none_or(|at| now < at) {
            return;
        }
        self.lingering.retain(|conn| self.known.contains_key(conn));
        self.touched.extend(&self.lingering);
        self.look = (!self.lingering.is_empty()).then(|| now + LOOK_EVERY);
    }

    /// Tells the hub what is new.
    pub(super) fn settle(&mut self, cm: &cm::Manager, session: &mut ManagerSession) {
        for conn in self.touched.drain(..) {
            let Some(closing_mad) = cm.closing_mad(conn) else {
                if self.known.remove(&conn).is_some() {
                    session.clear_closing_message(conn.0);
                }
                continue;
            };
            let kind = u16::from_be_bytes([closing_mad.mad[16], closing_mad.mad[17]]);
            match self.known.entry(conn) {
                Entry::Occupied(known) if *known.get() == kind => continue,
                Entry::Occupied(mut known) => drop(known.insert(kind)),
                Entry::Vacant(place) => drop(place.insert(kind)),
            }
            session.set_closing_message(
                conn.0,
                &packet(&closing_mad.route, &closing_mad.mad),
                closing_mad.until_answered,
            );
        }
    }
}
