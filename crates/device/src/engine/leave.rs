//! The last steps of a queue pair or the process: received packets are ACKed, and staged packets
//! leave.
//!
//! A NIC would have sent those already, and peers wait for them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use memory::QuickGuard;

use crate::clock;
use crate::engine::Engine;
use crate::qp::entry::{QpCell, QpEntry};

/// The number of batches of packets that are still received before a queue pair or the process
/// ends.
const MAX_LAST_BATCHES: u32 = 64;
/// The time for which a queue pair, or all of a process, waits at most for other threads that send for it.
const SEND_PATIENCE: Duration = Duration::from_secs(1);

impl Engine {
    /// Takes everything that has arrived, and sends the ACKs.
    pub(crate) fn drain(&self) {
        let mut empty = 0;
        for _ in 0..MAX_LAST_BATCHES {
            empty = if self.progress() { 0 } else { empty + 1 };
            if empty == self.services.slots.len() {
                break;
            }
        }
        if self.schedule.deferred.has_packets() || self.schedule.deferred.has_frames() {
            self.with_scratch(|scratch| {
                self.send_deferred(&mut scratch.path);
                self.serve_waiting_frames(&mut scratch.path);
            });
        }
    }

    /// Sends everything that a queue pair still has to send.
    ///
    /// Another thread may have handled its last message without sending the ACK yet. Or it may have built packets and
    /// completed their requests, without the system call yet.
    pub(crate) fn drain_qp(&self, entry: &Arc<QpEntry>) {
        self.drain_qp_until(entry, Instant::now() + SEND_PATIENCE);
    }

    /// Does the same for all queue pairs, before the process goes.
    pub(crate) fn drain_all_qps(&self) {
        let end = Instant::now() + SEND_PATIENCE;
        self.services.slots.for_each_qp(|entry| self.drain_qp_until(entry, end));
    }

    fn drain_qp_until(&self, entry: &Arc<QpEntry>, end: Instant) {
        self.with_scratch(|scratch| {
            let mut cell = lock_when_sent(entry, end);
            if let Some(live) = &mut cell.live {
                live.qp.ack_now();
            }
            // Not through the list of ready queue pairs: that other thread may have the queue pair on its own list, and
            // serve it only when it is gone.
            self.transmit(entry, &mut cell, &mut scratch.path, clock::now());
        });
    }
}

/// Locks a queue pair when no thread is sending for it, or at the `end` in any case.
fn lock_when_sent(entry: &QpEntry, end: Instant) -> QuickGuard<'_, QpCell> {
    loop {
        let cell = entry.lock();
        if !entry.state().is_sending() {
            return cell;
        }
        if Instant::now() > end {
            log::debug!("{:?} is destroyed while its packets are being sent", entry.qpn());
            return cell;
        }
        drop(cell);
        std::thread::yield_now();
    }
}
