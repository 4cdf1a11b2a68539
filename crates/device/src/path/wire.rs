//! The wire path: from a queue pair to staged packets.

use std::io;
use std::sync::Arc;

use transport::{Time, Transmit};
use udp::{Family, TxPool};
use wire::{Qpn, source_port_ud};

use crate::objects::counters::EngineCounter;
use crate::path::wire_flush::SendRight;
use crate::path::{SendCall, Staged};
use crate::qp::entry::{Live, QpEntry, WireState};
use crate::wire::destination::{DestinationShare, Destinations};
use crate::wire::packets::DEST_SLOT;
use crate::wire::route::PacketRoute;

/// The packets that one queue pair stages before others have their turn.
pub(crate) const TURN_PACKETS: usize = 256;
/// The time for which a sender waits for room in a socket's buffer before it drops packets.
const TX_WAIT_MS: u16 = 10;
/// The cost of a packet beyond its bytes, as in the transport's windows.
const PACKET_OVERHEAD_BYTES: usize = 128;

/// The sockets that packets leave from, and the budgets of their destinations.
pub(crate) struct WirePath {
    pub(crate) tx: TxPool,
    pub(crate) destinations: Destinations<Arc<QpEntry>>,
}

impl WirePath {
    /// `receive_buffer_bytes` is the size that the kernel grants our own socket.
    pub(crate) fn new(receive_buffer_bytes: usize) -> WirePath {
        WirePath { tx: TxPool::new(TX_WAIT_MS), destinations: Destinations::new(receive_buffer_bytes) }
    }

    /// Opens one of the sockets that packets leave from, toward `slot`. The others follow when they are needed.
    ///
    /// # Errors
    /// Only if there are no descriptors left: without any socket packets would be lost later, where no call reports it.
    pub(crate) fn open_one_socket(&self, slot: u8) -> io::Result<()> {
        let wanted = udp::port_toward(Qpn::from_parts(slot, 0), source_port_ud(Qpn::SMI));
        match self.tx.source_port(wanted, Family::V4) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => Err(error),
            _ => Ok(()),
        }
    }

    /// Stages packets of a locked queue pair. `continues` tells after each packet whether the next one may follow.
    ///
    /// If another thread sends for the queue pair already, that thread will look again.
    #[inline]
    pub(crate) fn transmit(
        &self,
        call: &mut SendCall<'_>,
        live: &mut Live,
        max_packets: usize,
        continues: impl Fn(&Live) -> bool,
    ) -> Staged {
        if !call.entry.state().take_send_right() {
            return Staged::Busy;
        }
        call.staging.begin(SendRight::new(call.entry.clone()));
        let new_bytes = self.allowance(live);
        let staged = self.fill(call, live, max_packets, new_bytes, continues);
        account(call.entry, live, call.now);
        staged
    }

    /// Stages at most `max_packets`, with at most `new_bytes` of requests that were never sent.
    #[inline]
    fn fill(
        &self,
        call: &mut SendCall<'_>,
        live: &mut Live,
        max_packets: usize,
        mut new_bytes: u64,
        continues: impl Fn(&Live) -> bool,
    ) -> Staged {
        let SendCall { services, entry, staging, notices, now } = call;
        for _ in 0..max_packets {
            let Some(room) = staging.room() else { return Staged::Some };
            let (qp, mut host) = live.hosted(services, entry, notices);
            let Some(transmit) = qp.poll_transmit(*now, room, &mut host) else { return Staged::All };
            let slot = room[DEST_SLOT];
            let route = &mut live.wire.route;
            if !route.as_ref().is_some_and(|route| route.serves(&transmit, slot)) {
                *route = self.route(&transmit, slot, entry.context().interface());
            }
            let Some(route) = route else {
                services.counters.add(EngineCounter::TxOther, 1);
                continue;
            };
            let together = self.tx.segmentation_offload(route.flow(), route.traffic_class());
            if services.faults.is_active() {
                self.commit_with_faults(services, staging, route, transmit.len_bytes, together);
            } else {
                staging.commit(route, transmit.len_bytes, together);
            }
            new_bytes = new_bytes.saturating_sub((transmit.len_bytes + PACKET_OVERHEAD_BYTES) as u64);
            if new_bytes == 0 {
                live.qp.hold_requests(true);
            }
            if live.qp.is_idle() {
                return Staged::All;
            }
            if !continues(live) {
                break;
            }
        }
        Staged::Some
    }

    /// The bytes of new requests that a queue pair may send now: all of them, or as many as its destination has room for.
    #[inline]
    fn allowance(&self, live: &mut Live) -> u64 {
        let Live { qp, wire: WireState { share, .. }, .. } = live;
        if share.is_none() {
            let Some((address, peer)) = qp.peer() else { return u64::MAX };
            *share = Some(self.destinations.join(address.destination, peer));
        }
        let allowance = share.as_mut().map_or(u64::MAX, DestinationShare::allowance);
        qp.hold_requests(allowance == 0);
        allowance
    }

    /// The route for a packet to a queue pair of `slot` that leaves through `interface`. `None` if there is no socket
    /// with its source port.
    fn route(&self, transmit: &Transmit, slot: u8, interface: u32) -> Option<PacketRoute> {
        let family = if transmit.address.destination.ip().is_ipv4() { Family::V4 } else { Family::V6 };
        let wanted = udp::port_toward(Qpn::from_parts(slot, 0), transmit.source_port);
        match self.tx.source_port(wanted, family) {
            Ok(source_port) => Some(PacketRoute::new(transmit, slot, source_port, interface)),
            Err(error) => {
                log::error!("no socket for UDP source port {wanted}: {error}");
                None
            }
        }
    }
}

/// Tells its destination how many bytes a queue pair has in flight after it has sent. It joins the queue there if it had
/// to stop early. The caller gives the destination's waiters their turns afterwards.
#[inline]
fn account(entry: &Arc<QpEntry>, live: &mut Live, now: Time) {
    let Live { qp, wire: WireState { share: Some(share), .. }, .. } = live else { return };
    share.note_unanswered(qp.unanswered_probes(), now);
    share.charge(|| qp.in_flight_bytes());
    share.note_resent(qp.counters().retransmitted_packets, now);
    if share.has_lapsed() {
        qp.hold_requests(true);
    } else if qp.is_held_back() {
        share.wait(entry);
    } else if !share.waits() {
        qp.hold_requests(false);
    }
}

/// Tells its destination how many bytes a queue pair has in flight after packets have arrived for it. The caller gives
/// the destination's waiters their turns afterwards.
#[inline]
pub(crate) fn account_arrival(live: &mut Live) {
    let Live { qp, wire: WireState { share: Some(share), .. }, .. } = live else { return };
    if share.is_silent() && qp.unanswered_probes() == 0 {
        share.heard();
        qp.hold_requests(share.waits());
    }
    share.charge(|| qp.in_flight_bytes());
}
