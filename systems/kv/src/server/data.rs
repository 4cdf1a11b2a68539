//! Connections for READs: each gets a window onto the table of its grant, and no other connection can use the window's key.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use longarm::{CompletionQueue, Connecting, Incoming, Listener, QpBuilder};

use crate::protocol::GrantKey;
use crate::server::grants::{AdmittedWriter, DataEnd, DeviceLink, Grants, TableGrant};
use crate::server::served::ServedTable;

/// A client that has not connected by then is dropped.
const PATIENCE: Duration = Duration::from_secs(10);
/// Connections on their way at a time.
const MOST_UNDER_WAY: usize = 256;
/// Time between two looks at connections that have ended, and at expired keys.
const HOUSEKEEPING: Duration = Duration::from_millis(20);

/// Bytes of private data with which a client connects: its grant, the number of its attempt, and 1 if it wants to PUT alone.
pub(crate) fn private_data(grant: &GrantKey, attempt: u64, writes: bool) -> [u8; 25] {
    let mut bytes = [0; 25];
    bytes[..16].copy_from_slice(grant);
    bytes[16..24].copy_from_slice(&attempt.to_le_bytes());
    bytes[24] = u8::from(writes);
    bytes
}

/// The end may be missing: zeros.
pub(crate) fn parse_private_data(bytes: &[u8]) -> Option<(GrantKey, u64, bool)> {
    let (grant, rest) = bytes.split_first_chunk::<16>()?;
    let (attempt, rest) = rest.split_first_chunk::<8>()?;
    Some((*grant, u64::from_le_bytes(*attempt), rest.first() == Some(&1)))
}

/// A client's connection on its way.
struct Arriving {
    connecting: Pin<Box<Connecting<QpBuilder>>>,
    grant: Arc<TableGrant>,
    attempt: u64,
    writes: bool,
    until: Instant,
}

/// The thread that accepts connections for READs, and does what has to be done from time to time.
pub(crate) struct DataThread {
    pub(crate) listener: Listener,
    pub(crate) queue: CompletionQueue,
    pub(crate) grants: Arc<Grants>,
    pub(crate) tables: Vec<Arc<ServedTable>>,
    pub(crate) stopping: Arc<AtomicBool>,
}

impl DataThread {
    /// Runs until the server stops.
    pub(crate) fn run(self) {
        let (mut arriving, mut kept): (Vec<Arriving>, Instant) = (Vec::new(), Instant::now());
        while !self.stopping.load(Ordering::Acquire) {
            let wait = if arriving.is_empty() { HOUSEKEEPING } else { Duration::from_micros(200) };
            if let Ok(incoming) = self.listener.incoming().wait(wait) {
                self.accept(incoming, &mut arriving);
            }
            arriving.retain_mut(|arriving| !self.advance(arriving));
            if kept.elapsed() >= HOUSEKEEPING {
                kept = Instant::now();
                self.keep_house();
            }
        }
    }

    fn accept(&self, incoming: Incoming, arriving: &mut Vec<Arriving>) {
        let known = parse_private_data(incoming.private_data()).and_then(|(key, attempt, writes)| {
            let grant = self.grants.find(&key).ok()?;
            let writes = writes && grant.table.options.writable;
            Some((grant, attempt, writes))
        });
        match known {
            Some((grant, attempt, writes)) if arriving.len() < MOST_UNDER_WAY => {
                let Some(exposed) = &grant.table.exposed else { return };
                let qp = exposed.domain.rc(&self.queue).remote_access(exposed.client_access(writes));
                let connecting = Box::pin(incoming.accept(qp, b""));
                arriving.push(Arriving { connecting, grant, attempt, writes, until: Instant::now() + PATIENCE });
            }
            // The peer may have given up.
            _ => drop(incoming.reject(b"no such grant")),
        }
    }

    /// Returns true if the connection stands, or will not.
    fn advance(&self, arriving: &mut Arriving) -> bool {
        match arriving.connecting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => Instant::now() >= arriving.until,
            Poll::Ready(Err(_)) => true,
            Poll::Ready(Ok(connection)) => {
                let (grant, table) = (&arriving.grant, &arriving.grant.table);
                // The connection before goes first, and with it the client's lock.
                grant.data.lock().take();
                let writer = if arriving.writes { AdmittedWriter::admit(table) } else { None };
                let window = table.exposed.as_ref().and_then(|exposed| {
                    let (region, access) = (exposed.memory.region(), exposed.client_access(writer.is_some()));
                    region.owned_window(0..region.len_bytes(), access).ok()
                });
                let bound = window.and_then(|window| connection.bind(window).wait(PATIENCE).ok());
                let mut data = grant.data.lock();
                if let Some(window) = bound.filter(|_| !grant.is_revoked()) {
                    let link = Box::new(DeviceLink { window, connection });
                    *data = Some(DataEnd::new(link, writer, arriving.attempt));
                }
                true
            }
        }
    }

    fn keep_house(&self) {
        self.grants.keep_house();
        if let Some(memory) = &self.grants.separate {
            memory.tend();
        }
        self.tables.iter().for_each(|table| self.grants.tend(table));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_data_come_back_and_short_ones_do_not() {
        for writes in [false, true] {
            let bytes = private_data(&[7; 16], 9, writes);
            assert_eq!(parse_private_data(&bytes), Some(([7; 16], 9, writes)));
            assert_eq!(
                (parse_private_data(&bytes[..24]), parse_private_data(&bytes[..23]), parse_private_data(b"")),
                (Some(([7; 16], 9, false)), None, None)
            );
            // The connection manager fills private data up with zeros.
            assert_eq!(parse_private_data(&[&bytes[..], &[0; 31]].concat()), Some(([7; 16], 9, writes)));
        }
    }
}
