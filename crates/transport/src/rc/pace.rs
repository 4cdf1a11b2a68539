//! The pacing of a reliable connection: the congestion notifications that it owes its peer, and the time of its own
//! next packet. Before the first CNP this costs one comparison.

use wire::{Bth, Cnp, Cookie, Opcode};

use crate::congestion::Evidence;
use crate::congestion::dcqcn::{Notifier, RateLimit};
use crate::network::Transmit;
use crate::packet::PacketBuilder;
use crate::qp_core::QpCore;
use crate::time::Time;

/// The ECN bits of the traffic class (RFC 3168).
const ECN_MASK: u8 = 0b11;
/// "This transport understands marks."
const ECT_0: u8 = 0b10;

#[derive(Debug, Default)]
pub(super) struct RcPacing {
    notifier: Notifier,
    limit: Option<Box<RateLimit>>,
    /// The time of the last unproven notification that counted.
    unproven_at: Option<Time>,
    waits_until: Option<Time>,
}

impl RcPacing {
    /// A packet came with a mark of congestion.
    pub(super) fn marked(&mut self, core: &QpCore, now: Time) {
        if core.tuning.dcqcn.enabled {
            self.notifier.marked(core.tuning.dcqcn.cnp_interval, now);
        }
    }

    pub(super) fn notification_due(&self) -> bool {
        self.notifier.due
    }

    /// The CNP (Annex A17.9): nothing but a base header with BECN, and 16 reserved bytes.
    /// The cookie proves it, if both ends share one.
    pub(super) fn notify(&mut self, core: &mut QpCore, cookie: Cookie, out: &mut [u8]) -> Transmit {
        self.notifier.due = false;
        core.counters.tx_cnps += 1;
        let opcode = Opcode::CNP;
        let mut builder = PacketBuilder::new(out, Bth { opcode, becn: true, ..core.bth(opcode) });
        builder.push(Cnp { cookie }.encode());
        core.transmit(builder.finish())
    }

    /// A CNP has come. The first one finds packets leaving at `rate` bytes per second. An unproven one counts at
    /// most once per interval.
    pub(super) fn notified(&mut self, core: &QpCore, rate: u64, evidence: Evidence, now: Time) {
        if evidence != Evidence::Proven {
            let interval = core.tuning.dcqcn.cnp_interval;
            if self.unproven_at.is_some_and(|last| now.since(last) < interval) {
                return;
            }
            self.unproven_at = Some(now);
        }
        match &mut self.limit {
            Some(limit) => limit.on_cnp(evidence, now),
            None => self.limit = Some(Box::new(RateLimit::new(&core.tuning.dcqcn, rate, now))),
        }
    }

    #[inline]
    pub(super) fn is_limited(&self) -> bool {
        self.limit.is_some()
    }

    /// Bytes per second.
    pub(super) fn rate(&self) -> Option<u64> {
        self.limit.as_ref().map(|limit| limit.rate())
    }

    /// Whether the time of the next packet has not come.
    pub(super) fn must_wait(&mut self, core: &mut QpCore, now: Time) -> bool {
        let blocked = self.limit.as_mut().and_then(|limit| limit.blocked(now));
        if self.limit.as_ref().is_some_and(|limit| limit.is_over()) {
            self.limit = None;
        }
        core.counters.paced_packets += u64::from(blocked.is_some() && self.waits_until.is_none());
        self.waits_until = blocked;
        blocked.is_some()
    }

    /// The time until which data waits.
    #[inline]
    pub(super) fn waits_until(&self) -> Option<Time> {
        self.waits_until
    }

    pub(super) fn time_passed(&mut self, now: Time) {
        self.waits_until = self.waits_until.filter(|at| *at > now);
    }

    /// A packet leaves: it counts, and says that marks are understood here.
    #[inline]
    pub(super) fn sent(&mut self, core: &QpCore, mut transmit: Transmit, now: Time) -> Transmit {
        if let Some(limit) = &mut self.limit {
            limit.sent(transmit.len_bytes as u64, now);
        }
        if core.tuning.dcqcn.enabled {
            transmit.address.traffic_class = transmit.address.traffic_class & !ECN_MASK | ECT_0;
        }
        transmit
    }
}
