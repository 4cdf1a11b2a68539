//! Sending: batches of packets from sockets whose identifications are known in advance.
//!
//! A RoCEv2 sender varies its UDP source port by flow, so that networks can spread the load. [`TxPool`] has a
//! bounded set of sockets for that, each bound to one port and opened on first use. The sockets only send: a
//! filter drops all packets that are sent to them. Other processes of the same user may have the same ports.
//!
//! The sockets are unconnected and forbid fragmentation. Therefore segment `i` of a [`TxGroup`] carries the
//! IPv4 identification `i` (see the crate's documentation).

mod error;
mod group;
mod limits;
mod socket;
mod sockets;
#[cfg(test)]
mod tests;
mod undelivered;

pub use error::SendError;
pub use group::TxGroup;
pub use limits::{MAX_GSO_BYTES, MAX_SEGMENTS, SOURCE_PORTS};
pub use undelivered::Undelivered;

use crate::address::Family;
use crate::sys::mmsg::{MAX_MESSAGES, TxMessage};
use socket::{SendWait, TxSocket};
use sockets::Sockets;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use wire::{Flow, Qpn};

/// Sends packets from many UDP source ports. Any number of threads may use it at once; none waits for
/// another.
#[derive(Debug)]
pub struct TxPool {
    sockets: Sockets,
    wait_ms: i32,
    events: AtomicTxCounters,
}

/// Counts of events since the pool was made, other than ordinary sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxCounters {
    /// Times that a socket's buffer was full and the sender waited for room.
    pub waits: u64,
    /// Groups dropped because there was no room in time.
    pub dropped: u64,
    /// ICMP errors about earlier packets, which mean nothing for the present ones.
    pub icmp_errors: u64,
    /// Segmented sends that the system refused.
    pub segmentation_refused: u64,
}

/// The counters behind [`TxCounters`].
#[derive(Debug, Default)]
struct AtomicTxCounters {
    waits: AtomicU64,
    dropped: AtomicU64,
    icmp_errors: AtomicU64,
    segmentation_refused: AtomicU64,
}

impl TxPool {
    /// A pool without sockets. If a socket's buffer is full, senders wait for room, at most `wait_ms` for
    /// each call of [`send`](TxPool::send).
    pub fn new(wait_ms: u16) -> TxPool {
        TxPool { sockets: Sockets::new(false), wait_ms: i32::from(wait_ms), events: AtomicTxCounters::default() }
    }

    /// Like [`new`](TxPool::new), but keeps the network's reports of undeliverable packets for
    /// [`take_undelivered`](TxPool::take_undelivered). Take the reports before sending; otherwise one may
    /// look like an error of the next packet.
    pub fn reporting(wait_ms: u16) -> TxPool {
        TxPool { sockets: Sockets::new(true), wait_ms: i32::from(wait_ms), events: AtomicTxCounters::default() }
    }

    /// The actual source port for `wanted`, which the ICRC of the packets must cover. Opens its socket if
    /// necessary, so callers should ask once for each flow. The answer for a pair of port and family is
    /// always the same.
    ///
    /// Ports with the same six low bits share one actual port. [`port_toward`] makes the best `wanted` port.
    ///
    /// # Errors
    /// As `socket(2)`, `setsockopt(2)`, and `bind(2)` if no suitable port is free.
    pub fn source_port(&self, wanted: u16, family: Family) -> io::Result<u16> {
        self.sockets.port(wanted, family)
    }

    /// True if several segments may be sent as one [`TxGroup`] on this flow, with this traffic class. Becomes
    /// false when the system has refused that once. Then each segment must be its own group (and has the
    /// identification 0).
    #[inline]
    pub fn segmentation_offload(&self, flow: &Flow, traffic_class: u8) -> bool {
        self.events.segmentation_refused.load(Ordering::Relaxed) == 0 || self.takes_segments(flow, traffic_class)
    }

    #[cold]
    fn takes_segments(&self, flow: &Flow, traffic_class: u8) -> bool {
        self.sockets.of(flow, traffic_class).is_none_or(TxSocket::segments)
    }

    /// Sends groups, those of one source in order, with one system call for each source (address and port)
    /// and 32 groups. Returns the number of groups that the system took. `on_failure` gets the index and
    /// error of each other group. Takes no lock, and allocates only for the first send from a source.
    pub fn send(&self, groups: &[TxGroup<'_>], mut on_failure: impl FnMut(usize, SendError)) -> usize {
        let mut wait = SendWait::at_most(self.wait_ms);
        let mut taken = 0;
        let mut first = 0;
        for batch in groups.chunks(MAX_MESSAGES) {
            let mut report = |i: usize, error: SendError| {
                self.count(&error);
                on_failure(first + i, error);
            };
            taken += match batch {
                [group] => self.send_one(group, &mut wait, &mut report),
                batch => self.send_batch(batch, &mut wait, &mut report),
            };
            first += batch.len();
        }
        self.events.add(&wait);
        taken
    }

    /// The counts of events other than ordinary sends.
    pub fn counters(&self) -> TxCounters {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        TxCounters {
            waits: load(&self.events.waits),
            dropped: load(&self.events.dropped),
            icmp_errors: load(&self.events.icmp_errors),
            segmentation_refused: load(&self.events.segmentation_refused),
        }
    }

    fn send_one(&self, group: &TxGroup<'_>, wait: &mut SendWait, report: &mut impl FnMut(usize, SendError)) -> usize {
        let send = |socket: &TxSocket| {
            socket.send_first(&[group.message(socket)], wait).map_err(|error| socket.explain(group, error))
        };
        self.socket_for(group).and_then(send).unwrap_or_else(|error| {
            report(0, error);
            0
        })
    }

    /// Sends 2 to 32 groups: first those of the first group's source, then those of the first remaining
    /// group's source, and so on.
    fn send_batch(
        &self,
        batch: &[TxGroup<'_>],
        wait: &mut SendWait,
        report: &mut impl FnMut(usize, SendError),
    ) -> usize {
        let mut messages = [TxMessage::EMPTY; MAX_MESSAGES];
        let mut indices = [0; MAX_MESSAGES];
        let mut left = u32::MAX >> (MAX_MESSAGES - batch.len());
        let mut taken = 0;
        while left != 0 {
            let first = left.trailing_zeros() as usize;
            let socket = match self.socket_for(&batch[first]) {
                Ok(socket) => socket,
                Err(error) => {
                    left &= left - 1;
                    report(first, error);
                    continue;
                }
            };
            let mut count = 0;
            for i in first..batch.len() {
                if left & 1 << i != 0 && has_same_source(&batch[first], &batch[i]) {
                    (messages[count], indices[count]) = (batch[i].message(socket), i);
                    left &= !(1 << i);
                    count += 1;
                }
            }
            let why = |i: usize, error| report(indices[i], socket.explain(&batch[indices[i]], error));
            taken += socket.send_all(&messages[..count], wait, why);
        }
        taken
    }

    /// The socket for sending a group.
    fn socket_for(&self, group: &TxGroup<'_>) -> Result<&TxSocket, SendError> {
        group.check()?;
        let port = group.flow.source_port;
        self.sockets.of(&group.flow, group.traffic_class).ok_or(SendError::SourcePort { port })
    }

    fn count(&self, error: &SendError) {
        let counter = match error {
            SendError::Full => &self.events.dropped,
            SendError::SegmentationRefused => &self.events.segmentation_refused,
            _ => return,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

impl AtomicTxCounters {
    fn add(&self, wait: &SendWait) {
        if wait.count > 0 {
            self.waits.fetch_add(wait.count, Ordering::Relaxed);
        }
        if wait.icmp_errors > 0 {
            self.icmp_errors.fetch_add(wait.icmp_errors, Ordering::Relaxed);
        }
    }
}

/// The port to ask for with packets to a queue pair: `entropy`, for example from [`wire::source_port`], with
/// its low bits replaced by those of the destination's slot.
///
/// Receiving network interfaces coalesce packets of one flow, and all of them then go to the slot of the
/// first. So packets for different slots of one destination should differ in their source port. With this
/// function they do, as far as [`SOURCE_PORTS`] suffice: only slots whose numbers differ by a multiple of it
/// share a port.
pub fn port_toward(remote: Qpn, entropy: u16) -> u16 {
    let mask = SOURCE_PORTS as u16 - 1;
    let slot = (remote.get() >> 16) as u16;
    (entropy & !mask) | (slot & mask)
}

/// True if `other` is sent from the socket of `first` and is well formed.
fn has_same_source(first: &TxGroup<'_>, other: &TxGroup<'_>) -> bool {
    first.flow.source_port == other.flow.source_port && first.flow.source == other.flow.source && other.check().is_ok()
}
