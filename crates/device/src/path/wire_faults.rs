//! The wire path under injected faults.

use faults::Verdict;

use crate::clock;
use crate::objects::single::SinglePacket;
use crate::path::wire::WirePath;
use crate::path::wire_flush::SendRight;
use crate::qp::services::QpServices;
use crate::wire::route::PacketRoute;
use crate::wire::staging::Staging;

impl WirePath {
    /// Stages the packet of `len_bytes` that was just written to the staging's room, unless fault injection keeps it.
    ///
    /// A packet without a fault, or a doubled one, is committed like any other, so that groups stay together. A lost one
    /// leaves no trace: its successor gets its place and identification. Damaged ones travel alone, since a group goes
    /// to the destination of its first packet. A packet that is held is due at [`FaultGate::earliest`] at the soonest.
    ///
    /// [`FaultGate::earliest`]: crate::objects::faults::FaultGate::earliest
    #[cold]
    pub(crate) fn commit_with_faults(
        &self,
        services: &QpServices,
        staging: &mut Staging<SendRight>,
        route: &PacketRoute,
        len_bytes: usize,
        together: bool,
    ) {
        let QpServices { faults, counters, .. } = services;
        let verdict = faults.judge(counters);
        if verdict.drop {
            return;
        }
        let copies = 1 + usize::from(verdict.duplicate);
        if leaves_as_it_is(&verdict) {
            let start = staging.bytes_staged();
            for copy in 0..copies {
                match copy {
                    0 => staging.commit(route, len_bytes, together),
                    _ => staging.commit_again(start, route, len_bytes, together),
                }
                faults.passed().iter().for_each(|packet| staging.push(packet));
            }
        } else {
            let packet = damaged(staging.take_out(route, len_bytes), &verdict);
            let leaving = faults.dispose(packet, copies, &verdict, clock::now(), counters);
            leaving.iter().for_each(|packet| staging.push(packet));
        }
    }
}

fn leaves_as_it_is(verdict: &Verdict) -> bool {
    verdict.corrupt.is_none() && verdict.hold.is_none() && verdict.delay.is_none()
}

fn damaged(mut packet: SinglePacket, verdict: &Verdict) -> SinglePacket {
    if let Some(corruption) = verdict.corrupt {
        corruption.flip(&mut packet.bytes);
    }
    packet
}
