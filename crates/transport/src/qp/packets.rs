//! The packet path of a queue pair: packets in and out, and the knobs of RC and UD that shape them.

use wire::{Packet, Qpn};

use super::{Qp, QpPath};
use crate::drop::DropReason;
use crate::host::Host;
use crate::network::{RecvMeta, Transmit};
use crate::rc::RcQp;
use crate::state;
use crate::time::Time;
use crate::wire_qp::WireQp;
use crate::wr::{AddressVector, UdDestination};

impl Qp {
    /// Takes a packet for this queue pair. The caller counts a [`DropReason`]; a drop is not a failure of ours.
    pub fn handle_packet(
        &mut self,
        packet: &Packet<'_>,
        meta: &RecvMeta,
        now: Time,
        host: &mut impl Host,
    ) -> Result<(), DropReason> {
        if !state::receives(self.core.state()) {
            return Err(DropReason::QpState);
        }
        if !self.core.attr.pkey.admits(packet.bth().pkey) {
            return Err(DropReason::PKey);
        }
        self.core.counters.ecn_marked += u64::from(meta.ecn_ce);
        let QpPath::Wire(wire) = &mut self.path else { return Err(DropReason::WrongService) };
        let outcome = wire.handle_packet(&mut self.core, packet, meta, now, host);
        self.settle(host);
        outcome?;
        self.core.counters.rx_packets += 1;
        self.core.counters.rx_bytes += packet.payload().len() as u64;
        Ok(())
    }

    /// Writes the next packet that may leave now into `out`, which has at least
    /// [`MAX_PACKET_BYTES`](crate::MAX_PACKET_BYTES). `None`: nothing to send until something happens.
    pub fn poll_transmit(&mut self, now: Time, out: &mut [u8], host: &mut impl Host) -> Option<Transmit> {
        let QpPath::Wire(wire) = &mut self.path else { return None };
        let transmit = wire.poll_transmit(&mut self.core, now, out, host);
        if transmit.is_some() {
            self.core.counters.tx_packets += 1;
        }
        self.settle(host);
        transmit
    }

    /// RC: the peer's address and number while requests and their responses pass.
    pub fn peer(&self) -> Option<(AddressVector, Qpn)> {
        let attr = &self.core.attr;
        let connected = state::completes(attr.state) && self.rc().is_some();
        connected.then_some((attr.address, attr.dest_qpn))
    }

    /// RC: whether there is certainly nothing to send. This is quicker than
    /// [`poll_transmit`](Qp::poll_transmit).
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.rc().is_some_and(|rc| rc.is_idle(&self.core))
    }

    /// RC: makes a delayed ACK [due](Qp::ack_due), for a queue pair that is about to be destroyed.
    pub fn ack_now(&mut self) {
        if let Some(rc) = self.rc_mut() {
            rc.ack_now();
        }
    }

    /// RC: holds back requests that were never sent, or releases them. Responses and retransmissions leave in any
    /// case. The caller bounds the bytes in flight of many queue pairs with this.
    pub fn hold_requests(&mut self, hold: bool) {
        if let Some(rc) = self.rc_mut() {
            rc.hold_requests(hold);
        }
    }

    /// RC: whether a request would leave if it were not [held back](Qp::hold_requests).
    pub fn is_held_back(&self) -> bool {
        self.rc().is_some_and(|rc| rc.is_held_back(&self.core))
    }

    /// RC: bytes sent or asked for by READs, and not answered: payload and 128 bytes for each packet.
    pub fn in_flight_bytes(&self) -> u64 {
        self.rc().map_or(0, |rc| rc.in_flight_bytes(&self.core))
    }

    /// RC: probes and timeouts since the peer's last response.
    #[inline]
    pub fn unanswered_probes(&self) -> u32 {
        self.rc().map_or(0, RcQp::unanswered_probes)
    }

    /// RC: bytes per second to which congestion notifications have limited it; `None`: no limit.
    pub fn rate_limit(&self) -> Option<u64> {
        self.rc()?.rate_limit()
    }

    /// UD: the destination of the datagram that [`poll_transmit`](Qp::poll_transmit) sends next, and the length of
    /// its payload in bytes.
    #[inline]
    pub fn next_datagram(&self) -> Option<(UdDestination, u32)> {
        let QpPath::Wire(WireQp::Ud(ud)) = &self.path else { return None };
        ud.next_datagram(&self.core)
    }

    /// UD: defers datagrams until then, or until [`resume_sending`](Qp::resume_sending): the lane to a process on
    /// this host is full.
    pub fn hold_datagrams(&mut self, until: Time) {
        if let QpPath::Wire(WireQp::Ud(ud)) = &mut self.path {
            ud.hold(until);
        }
    }

    #[cfg(test)]
    pub(crate) fn own_cookie(&self) -> Option<wire::Cookie> {
        self.rc().map(RcQp::own_cookie)
    }

    #[inline]
    fn rc(&self) -> Option<&RcQp> {
        if let QpPath::Wire(WireQp::Rc(rc)) = &self.path { Some(rc) } else { None }
    }

    #[inline]
    fn rc_mut(&mut self) -> Option<&mut RcQp> {
        if let QpPath::Wire(WireQp::Rc(rc)) = &mut self.path { Some(rc) } else { None }
    }
}
