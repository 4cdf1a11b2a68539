//! The fields of a path. A REQ has two: the primary and the alternate one (IB specification 12.6.5).

use super::bits;
use crate::bytes::{array_at, put, u16_at, u32_at};
use crate::gid::Gid;

/// A path as its sender sees it. For RoCE the GIDs are IP addresses and both LIDs 0xffff (Annex A17).
///
/// ```text
///  byte 0            2             4          20           36          39     40       41          42        43
///  | local LID | remote LID | local GID | remote GID | flow label | rate | traffic | hop limit | SL, sub | ack |
///        2            2           16          16       20 bits, 6 reserved, 6     1         1         1        1
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct PathFields {
    /// LID of the sender's port.
    pub local_lid: u16,
    /// LID of the receiver's port.
    pub remote_lid: u16,
    /// GID of the sender's port.
    pub local_gid: Gid,
    /// GID of the receiver's port.
    pub remote_gid: Gid,
    /// 20 bits.
    pub flow_label: u32,
    /// Static rate code, 6 bits.
    pub packet_rate: u8,
    /// Traffic class of the connection's packets.
    pub traffic_class: u8,
    /// Hop limit of the connection's packets.
    pub hop_limit: u8,
    /// Service level, 4 bits.
    pub service_level: u8,
    /// Packets need no router.
    pub subnet_local: bool,
    /// ACK timeout of the sender's queue pair, 5 bits: 4.096 µs · 2^code.
    pub local_ack_timeout: u8,
}

impl PathFields {
    /// Bytes on the wire.
    pub const LEN: usize = 44;

    pub(super) fn decode(bytes: &[u8; PathFields::LEN]) -> PathFields {
        let flow_and_rate = u32_at(bytes, 36);
        PathFields {
            local_lid: u16_at(bytes, 0),
            remote_lid: u16_at(bytes, 2),
            local_gid: Gid(array_at(bytes, 4)),
            remote_gid: Gid(array_at(bytes, 20)),
            flow_label: flow_and_rate >> 12,
            packet_rate: bits::get(bytes[39], 2, 6),
            traffic_class: bytes[40],
            hop_limit: bytes[41],
            service_level: bits::get(bytes[42], 0, 4),
            subnet_local: bits::is_set(bytes[42], 4),
            local_ack_timeout: bits::get(bytes[43], 0, 5),
        }
    }

    pub(super) fn encode(&self) -> [u8; PathFields::LEN] {
        let mut bytes = [0; PathFields::LEN];
        put(&mut bytes, 0, self.local_lid.to_be_bytes());
        put(&mut bytes, 2, self.remote_lid.to_be_bytes());
        put(&mut bytes, 4, self.local_gid.0);
        put(&mut bytes, 20, self.remote_gid.0);
        put(&mut bytes, 36, (self.flow_label << 12).to_be_bytes());
        bytes[39] |= bits::at(self.packet_rate, 2, 6);
        bytes[40] = self.traffic_class;
        bytes[41] = self.hop_limit;
        bytes[42] = bits::at(self.service_level, 0, 4) | bits::flag(self.subnet_local, 4);
        bytes[43] = bits::at(self.local_ack_timeout, 0, 5);
        bytes
    }
}
