//! The packet around a MAD: a UD SEND from QP1 to QP1.
//!
//! ```text
//!  | BTH 12 | DETH 8 | MAD 256 | ICRC 4 |
//! ```

use super::body::MAD_LEN;
use crate::ICRC_LEN;
use crate::bytes::put;
use crate::header::{Bth, Deth};
use crate::id::{PKey, Psn, QKey, Qpn};
use crate::opcode::Opcode;
use crate::packet::{DecodeError, Packet};

/// Bytes of a MAD's UDP payload, ICRC included.
pub const PACKET_LEN: usize = MAD + MAD_LEN + ICRC_LEN;

/// The Q_Key of every QP1 (IB specification 3.5.3).
pub const GSI_QKEY: QKey = QKey(0x8001_0000);

/// The default partition, full membership.
const DEFAULT_PKEY: PKey = PKey(0xffff);
/// The bits of a P_Key without the membership bit.
const PARTITION: u16 = 0x7fff;
const MAD: usize = Bth::LEN + Deth::LEN;

/// The reason why [`parse`] finds no MAD for QP1.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum MadPacketError {
    /// The bytes are not a packet.
    #[error(transparent)]
    Packet(#[from] DecodeError),
    /// The opcode is not UD SEND ONLY.
    #[error("opcode {0} carries no MAD")]
    Opcode(Opcode),
    /// The destination is another queue pair.
    #[error("queue pair {0} is not QP1")]
    QueuePair(Qpn),
    /// The packet is not in the default partition.
    #[error("partition {0:#06x} is not the default one")]
    Partition(u16),
    /// The key is not QP1's.
    #[error("Q_Key {0:#010x} is not that of QP1")]
    QKey(u32),
    /// The payload has another length than a MAD.
    #[error("{0} bytes of payload are no MAD")]
    Length(usize),
}

/// A received MAD.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MadPacket<'a> {
    /// The packet's sequence number. QP1 is a datagram service and does not check it.
    pub psn: Psn,
    /// The sending queue pair, QP1 as a rule.
    pub src_qpn: Qpn,
    /// The MAD.
    pub mad: &'a [u8; MAD_LEN],
}

/// The UDP payload that carries `mad`. Its last [`ICRC_LEN`] bytes are zero: the sender puts the ICRC there.
/// `psn` counts the packets that this QP1 sends.
pub fn encode(psn: Psn, mad: &[u8; MAD_LEN]) -> [u8; PACKET_LEN] {
    let bth = Bth {
        opcode: Opcode::UD_SEND_ONLY,
        pkey: DEFAULT_PKEY,
        dest_qpn: Qpn::GSI,
        // Linux rxe sets the bit, although no peer acknowledges a datagram.
        ack_req: true,
        psn,
        ..Bth::default()
    };
    let deth = Deth { qkey: GSI_QKEY, src_qpn: Qpn::GSI };
    let mut bytes = [0; PACKET_LEN];
    put(&mut bytes, 0, bth.encode());
    put(&mut bytes, Bth::LEN, deth.encode());
    put(&mut bytes, MAD, *mad);
    bytes
}

/// Reads the MAD of a packet; `ib` is the packet from BTH to pad, without the ICRC.
///
/// # Errors
/// The bytes are not a packet, or QP1 does not accept the packet.
pub fn parse(ib: &[u8]) -> Result<MadPacket<'_>, MadPacketError> {
    let packet = Packet::parse(ib)?;
    let bth = packet.bth();
    let Some(deth) = packet.deth().filter(|_| bth.opcode == Opcode::UD_SEND_ONLY) else {
        return Err(MadPacketError::Opcode(bth.opcode));
    };
    if bth.dest_qpn != Qpn::GSI {
        return Err(MadPacketError::QueuePair(bth.dest_qpn));
    }
    if bth.pkey.0 & PARTITION != PARTITION {
        return Err(MadPacketError::Partition(bth.pkey.0));
    }
    if deth.qkey != GSI_QKEY {
        return Err(MadPacketError::QKey(deth.qkey.0));
    }
    let mad = packet.payload().try_into().map_err(|_| MadPacketError::Length(packet.payload().len()))?;
    Ok(MadPacket { psn: bth.psn, src_qpn: deth.src_qpn, mad })
}

const _: () = assert!(PACKET_LEN == 280);
