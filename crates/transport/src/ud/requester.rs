//! The UD requester: one WQE, one packet. The WQE is done when the packet has left.

use wire::{Bth, Deth, ImmDt, Opcode, QKey};

use crate::host::Host;
use crate::network::Transmit;
use crate::packet::PacketBuilder;
use crate::qp_core::QpCore;
use crate::queue::send::SendWqe;
use crate::reason::Reason;
use crate::state;
use crate::wr::{SendFlags, SendOp, UdDestination};

/// In a work request: use the queue pair's own key instead.
const OWN_QKEY: u32 = 1 << 31;

/// Sends the oldest WQE. An error is its end.
pub(crate) fn send_next(core: &mut QpCore, out: &mut [u8], host: &mut impl Host) -> Result<Option<Transmit>, Reason> {
    let Some(wqe) = core.sq.head() else { return Ok(None) };
    if let Some(reason) = state::unsupported(core, wqe) {
        return Err(reason);
    }
    let datagram = wqe.datagram.as_deref().expect("posting asks for an address");
    let len_bytes = build(core, wqe, datagram, out, host)?;
    let transmit = Transmit { len_bytes, address: datagram.address, source_port: source_port(core, datagram) };
    core.counters.tx_bytes += u64::from(wqe.len_bytes);
    core.complete_head(host);
    Ok(Some(transmit))
}

fn build(
    core: &QpCore,
    wqe: &SendWqe,
    datagram: &UdDestination,
    out: &mut [u8],
    host: &mut impl Host,
) -> Result<usize, Reason> {
    let imm = match wqe.op {
        SendOp::SendImm(imm) => Some(ImmDt(imm)),
        _ => None,
    };
    let opcode = if imm.is_some() { Opcode::UD_SEND_ONLY_IMM } else { Opcode::UD_SEND_ONLY };
    let bth = Bth {
        dest_qpn: datagram.remote_qpn,
        psn: wqe.first_psn,
        solicited: wqe.flags.contains(SendFlags::SOLICITED),
        ..core.bth(opcode)
    };
    let mut builder = PacketBuilder::new(out, bth);
    builder.push(Deth { qkey: qkey(core, datagram), src_qpn: core.qpn }.encode());
    if let Some(imm) = imm {
        builder.push(imm.encode());
    }
    builder.gather(host.memory(), core.pd, &wqe.payload, 0, wqe.len_bytes as usize).map_err(Reason::LocalMemory)?;
    Ok(builder.finish())
}

/// The key of the work request, or the queue pair's own if the request asks for it by the
/// high bit: so only a privileged program can send a key that has it (IB specification 10.2.5).
fn qkey(core: &QpCore, datagram: &UdDestination) -> QKey {
    let QKey(wanted) = datagram.remote_qkey;
    if wanted & OWN_QKEY != 0 { core.attr.qkey } else { datagram.remote_qkey }
}

/// Of the flow label if there is one, else of the queue pair, as Linux does.
fn source_port(core: &QpCore, datagram: &UdDestination) -> u16 {
    match datagram.address.flow_label {
        0 => wire::source_port_ud(core.qpn),
        label => wire::source_port(label, core.qpn, datagram.remote_qpn),
    }
}
