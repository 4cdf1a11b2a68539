//! The UD responder: queue key, length, receive WQE, copy, complete.
//!
//! ```text
//!  receive buffer:  | GRH or IP header, 40 bytes | payload |
//! ```
//! A datagram that does not fit the buffer is dropped, and the WQE serves the next one, as Linux does it. If the WQE
//! failed, and the queue pair with it, any peer could stop it.

use wire::{Grh, Packet};

use crate::attr::Mtu;
use crate::completion::{Completion, CompletionOp, Status};
use crate::drop::DropReason;
use crate::failure::QpFailure;
use crate::host::{CqSide, Host};
use crate::memory::{Memory, MemoryError};
use crate::network::RecvMeta;
use crate::qp_core::QpCore;
use crate::reason::Reason;
use crate::wr::RecvWr;

#[derive(Debug, Default)]
pub(crate) struct UdResponder {
    /// A receive WQE that was too short for the datagram it was taken for.
    spare: Option<RecvWr>,
    failure: Option<QpFailure>,
}

impl UdResponder {
    pub(crate) fn take_failure(&mut self) -> Option<QpFailure> {
        self.failure.take()
    }

    /// Gives back the receive WQE that is held.
    pub(crate) fn flush(&mut self, core: &QpCore, host: &mut impl Host) {
        if let Some(wr) = self.spare.take() {
            let c = Completion::failure(wr.wr_id, core.qpn, CompletionOp::Recv, Status::WorkRequestFlushed);
            host.complete(CqSide::Recv, c);
        }
    }

    pub(crate) fn handle_datagram(
        &mut self,
        core: &mut QpCore,
        packet: &Packet<'_>,
        arrival: &RecvMeta,
        host: &mut impl Host,
    ) -> Result<(), DropReason> {
        check_qkey(core, packet)?;
        let outcome = self.receive(core, packet, arrival, host);
        core.counters.messages_dropped += u64::from(outcome.is_err());
        outcome
    }

    fn receive(
        &mut self,
        core: &mut QpCore,
        packet: &Packet<'_>,
        arrival: &RecvMeta,
        host: &mut impl Host,
    ) -> Result<(), DropReason> {
        let byte_len = Grh::LEN + packet.payload().len();
        if packet.payload().len() > Mtu::B4096.bytes() as usize {
            return Err(DropReason::UdLength);
        }
        let wr = self.take_recv(core, host)?;
        if byte_len as u64 > wr.capacity_bytes() {
            self.spare = Some(wr);
            return Err(DropReason::UdLength);
        }
        if let Err(refused) = copy(core, &wr, packet, arrival, host) {
            return Err(self.fail(core, &wr, refused, host));
        }
        complete(core, packet, arrival, &wr, byte_len as u32, host);
        Ok(())
    }

    fn take_recv(&mut self, core: &mut QpCore, host: &mut impl Host) -> Result<RecvWr, DropReason> {
        match self.spare.take() {
            Some(wr) => Ok(wr),
            None => core.take_recv(host).ok_or(DropReason::NoRecvWqe),
        }
    }

    /// A receive buffer of ours is refused: its WQE fails, and the queue pair with it.
    fn fail(&mut self, core: &mut QpCore, wr: &RecvWr, refused: MemoryError, host: &mut impl Host) -> DropReason {
        let reason = Reason::LocalMemory(refused);
        core.fail_recv(wr.wr_id, reason.status(), reason, host);
        self.failure = Some(QpFailure::QueuePair(reason, None));
        DropReason::LocalMemory
    }
}

/// A sender must know the queue key.
fn check_qkey(core: &QpCore, packet: &Packet<'_>) -> Result<(), DropReason> {
    match packet.deth() {
        Some(deth) if deth.qkey == core.attr.qkey => Ok(()),
        _ => Err(DropReason::QKey),
    }
}

fn copy(
    core: &QpCore,
    wr: &RecvWr,
    packet: &Packet<'_>,
    arrival: &RecvMeta,
    host: &mut impl Host,
) -> Result<(), MemoryError> {
    let RecvMeta { source, destination, traffic_class, hop_limit, .. } = *arrival;
    let grh = Grh::new(source, destination, traffic_class, hop_limit, packet.bytes().len());
    host.memory().scatter(core.recv_pd, &wr.sgl, 0, &grh.encode())?;
    if packet.payload().is_empty() {
        return Ok(());
    }
    host.memory().scatter(core.recv_pd, &wr.sgl, Grh::LEN as u64, packet.payload())
}

fn complete(core: &QpCore, packet: &Packet<'_>, arrival: &RecvMeta, wr: &RecvWr, byte_len: u32, host: &mut impl Host) {
    let completion = Completion {
        imm: packet.imm(),
        src_qpn: packet.deth().map_or_else(Default::default, |deth| deth.src_qpn),
        grh: true,
        ipv4: arrival.destination.ip().is_ipv4(),
        solicited: packet.bth().solicited,
        ..Completion::success(wr.wr_id, core.qpn, CompletionOp::Recv, byte_len)
    };
    host.complete(CqSide::Recv, completion);
}
